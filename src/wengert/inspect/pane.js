// A pane: one graph, laid out by dagre and drawn by d3. Groups of nodes (modules, kernels) are boxes that open and close.
"use strict";

const CHARACTER = 7.3, ROW = 17, LONGEST = 38, MANY = 40, MANY_CLUSTERED = 300;
const shortened = (text) => (text.length > LONGEST ? text.slice(0, LONGEST - 1) + "…" : text);

class Pane {
  // `lines(node)` are a node's two lines of text, `kind(node)` its classes, `path(node)` the groups it is in, outermost first.
  constructor(element, { lines, kind, path, onPoint, onPick }) {
    this.svg = d3.select(element);
    this.lines = lines; this.kind = kind; this.path = path; this.onPoint = onPoint; this.onPick = onPick;
    this.svg.append("defs").append("marker").attr("id", `arrow-${element.id}`).attr("viewBox", "0 0 8 8").attr("refX", 7)
      .attr("refY", 4).attr("markerUnits", "userSpaceOnUse").attr("markerWidth", 8).attr("markerHeight", 8).attr("orient", "auto")
      .append("path").attr("d", "M0,0L8,4L0,8Z").attr("fill", "var(--faint)");
    this.arrow = `url(#arrow-${element.id})`;
    this.root = this.svg.append("g");
    this.zoom = d3.zoom().scaleExtent([0.02, 4]).on("zoom", (event) => this.root.attr("transform", event.transform));
    this.svg.call(this.zoom).on("dblclick.zoom", null);
    this.nodes = []; this.open = new Set(); this.marks = {};
  }

  show(nodes, open) {
    this.nodes = nodes;
    this.byId = new Map(nodes.map((node) => [node.id, node]));
    this.open = open ?? this.openAtFirst();
    this.layout();
  }

  // --- groups ---

  groupsOf(node) {
    const path = this.path(node) ?? [];
    return path.map((_, i) => "m:" + path.slice(0, i + 1).join("/"));
  }

  allGroups() {
    return new Set(this.nodes.flatMap((node) => this.groupsOf(node)));
  }

  keyOf(node) {
    return this.groupsOf(node).find((group) => !this.open.has(group)) ?? "n:" + node.id;
  }

  openAtFirst() {
    this.open = new Set();
    const groups = [...this.allGroups()].sort((a, b) => a.split("/").length - b.split("/").length);
    for (const group of groups) {
      const around = group.slice(0, group.lastIndexOf("/"));
      if (group.includes("/") && !this.open.has(around)) continue;
      this.open.add(group);
      if (new Set(this.nodes.map((node) => this.keyOf(node))).size > MANY) this.open.delete(group);
    }
    return this.open;
  }

  toggle(group) {
    if (this.open.has(group)) for (const each of [...this.open]) { if (each === group || each.startsWith(group + "/")) this.open.delete(each); }
    else this.open.add(group);
    this.layout();
  }

  openGroup(group) {
    this.toggle(group);
    this.onGroup?.(group);
  }

  reveal(id) {
    const node = this.byId.get(id);
    const closed = this.groupsOf(node).filter((group) => !this.open.has(group));
    closed.forEach((group) => this.open.add(group));
    if (closed.length) this.layout();
    this.center("n:" + id);
  }

  // --- layout and drawing ---

  items() {
    const items = new Map();
    for (const node of this.nodes) {
      const key = this.keyOf(node);
      if (!items.has(key)) items.set(key, { key, members: [] });
      items.get(key).members.push(node);
    }
    for (const item of items.values()) {
      const isGroup = item.key.startsWith("m:");
      item.node = isGroup ? null : item.members[0];
      const count = item.members.length;
      item.text = isGroup ? [item.key.slice(2).split("/").at(-1), `${count} node${count > 1 ? "s" : ""}`] : this.lines(item.node);
      item.text = item.text.map(shortened);
      item.kind = isGroup ? "group " + (this.kind(item.members[0]).includes("gradient") ? "gradient" : "") : this.kind(item.node);
      item.width = Math.max(...item.text.map((line) => line.length)) * CHARACTER + 18;
      item.height = ROW * item.text.length + 10;
    }
    return items;
  }

  layout() {
    const items = this.items();
    const clustered = items.size <= MANY_CLUSTERED;
    const graph = new dagre.graphlib.Graph({ compound: clustered }).setGraph({ ranksep: 34, nodesep: 18, marginx: 12, marginy: 12 });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const item of items.values()) graph.setNode(item.key, { width: item.width, height: item.height });
    const clusters = new Map();
    if (clustered) for (const item of items.values()) {
      let child = item.key;
      for (const group of this.groupsOf(item.members[0]).filter((each) => this.open.has(each) && each !== item.key).reverse()) {
        if (!clusters.has(group)) { clusters.set(group, { key: group, text: group.slice(2).split("/").at(-1) }); graph.setNode(group, {}); }
        if (!graph.parent(child)) graph.setParent(child, group);
        child = group;
      }
    }
    for (const node of this.nodes) for (const id of node.sources) {
      const source = this.byId.get(id);
      if (!source) continue;
      const from = this.keyOf(source), to = this.keyOf(node);
      if (from !== to) graph.setEdge(from, to);
    }
    dagre.layout(graph);
    this.placed = new Map([...items.values()].map((item) => [item.key, Object.assign(item, graph.node(item.key))]));
    this.size = graph.graph();
    this.edges = graph.edges().map((edge) => ({ from: edge.v, to: edge.w, points: graph.edge(edge).points }));
    this.clusters = [...clusters.values()].map((cluster) => Object.assign(cluster, graph.node(cluster.key)));
    this.draw();
    this.fit();
  }

  draw() {
    this.root.selectAll("*").remove();
    const line = d3.line((point) => point.x, (point) => point.y).curve(d3.curveBasis);
    const cluster = this.root.selectAll(".cluster").data(this.clusters).join("g").attr("class", "cluster")
      .attr("transform", (c) => `translate(${c.x - c.width / 2},${c.y - c.height / 2})`)
      .on("click", (event, c) => (this.onCluster ? this.onCluster(c.key) : this.toggle(c.key)));
    cluster.append("rect").attr("width", (c) => c.width).attr("height", (c) => c.height);
    cluster.append("text").attr("x", 5).attr("y", 12).text((c) => shortened(c.text));
    this.root.selectAll(".edge").data(this.edges).join("path").attr("class", "edge").attr("d", (edge) => line(edge.points)).attr("marker-end", this.arrow);
    const box = this.root.selectAll(".box").data([...this.placed.values()]).join("g").attr("class", "box")
      .attr("data-key", (item) => item.key).attr("transform", (item) => `translate(${item.x},${item.y})`)
      .on("mouseenter", (event, item) => this.onPoint(item)).on("mouseleave", () => this.onPoint(null))
      .on("click", (event, item) => (item.node ? this.onPick(item.node) : this.openGroup(item.key)));
    box.append("rect").attr("x", (item) => -item.width / 2).attr("y", (item) => -item.height / 2).attr("width", (item) => item.width).attr("height", (item) => item.height);
    box.append("text").attr("y", (item) => (item.text.length > 1 ? -3 : 4)).text((item) => item.text[0]);
    box.filter((item) => item.text.length > 1).append("text").attr("class", "type").attr("y", 12).text((item) => item.text[1]);
    this.mark(this.marks);
  }

  // Marks are sets of node ids by class (lit, picked, found), and `later`, which says of a node whether it is yet to come.
  mark(marks) {
    this.marks = { ...this.marks, ...marks };
    const { later, ...sets } = this.marks;
    const keys = Object.fromEntries(Object.entries(sets).map(([name, ids]) =>
      [name, new Set([...ids].map((id) => this.byId.get(id)).filter(Boolean).map((node) => this.keyOf(node)))]));
    this.root.selectAll(".box").attr("class", (item) => {
      const own = Object.keys(keys).filter((name) => keys[name].has(item.key));
      const isLater = later && item.members.every(later);
      return ["box", item.kind, ...own, isLater ? "later" : ""].join(" ");
    });
    const picked = keys.picked ?? new Set();
    this.root.selectAll(".edge").classed("lit", (edge) => picked.has(edge.from) || picked.has(edge.to))
      .classed("later", (edge) => later && this.placed.get(edge.to).members.every(later));
  }

  // --- the view ---

  fit() {
    const { clientWidth: width, clientHeight: height } = this.svg.node();
    if (!width || !this.size || !this.nodes.length) return;
    const scale = Math.min(1.25, width / this.size.width, height / this.size.height) * 0.97;
    const x = (width - this.size.width * scale) / 2, y = Math.max(4, (height - this.size.height * scale) / 2);
    this.svg.call(this.zoom.transform, d3.zoomIdentity.translate(x, y).scale(scale));
  }

  center(key) {
    const item = this.placed.get(key);
    if (item) this.svg.call(this.zoom.translateTo, item.x, item.y);
  }
}
