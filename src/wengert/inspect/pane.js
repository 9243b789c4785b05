// A pane: one graph, its groups, its layout and the view of it. Drawing is in `draw.js`, the layout in `layout.js`.
"use strict";

const READABLE = 2 ** -0.25, LEGIBLE = 0.44, LARGEST = 1.5; // scales: for whole boxes, for names, the largest at first sight
const LINE = 16, PADDING = 12, LONGEST = 30;
const lengthOf = (text) => text.length - (text.match(/\u0304/g)?.length ?? 0); // the bar of v̄ takes no room
const shortened = (text, most = LONGEST) => (lengthOf(text) > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text);

class Pane {
  // `about` says what a pane shows: `pathOf(node)` the groups of a node, `lines(item)` the text of a box, `far(item)` its
  // text seen from afar, `room(item)` the lines it is laid out for, `more(item)` what it says besides when seen from near,
  // `kind(item)` its classes, `label(item)` what a screen reader says, `title(group)` the title of an open group; and what
  // happens: `onPoint(item)`, `onPick(item)`.
  constructor(element, about) {
    this.about = { more: () => [], onPoint: () => {}, ...about };
    this.name = element.id;
    this.svg = d3.select(element);
    this.marks = {};
    this.items = []; this.groups = []; this.edges = [];
    this.placed = new Map();
    this.asked = 0;
    this.painter = new Painter(this);
    this.minimap = new Minimap(this);
    this.zoom = d3.zoom().scaleExtent([0.02, 6]).on("zoom", ({ transform, sourceEvent }) => {
      if (sourceEvent) this.isMoved = true;
      this.transform = transform;
      this.painter.moved(transform);
      this.minimap.moved(transform);
    });
    this.svg.call(this.zoom).on("dblclick.zoom", null);
  }

  get isShown() { return this.svg.node().clientWidth > 0; }

  // Show a graph. `keeps` says that it is the next state of the same one: what is open stays open, and the view stays.
  // `opens(group)` says which groups are open at first, if not as many as can be taken in.
  async show(nodes, { keeps = false, opens = null } = {}) {
    const open = keeps && this.tree?.open;
    this.tree = new Tree(nodes, this.about.pathOf);
    if (open) this.tree.open = new Set([...open].filter((key) => this.tree.groups.has(key)));
    else if (opens && nodes.length > ALL_AT_ONCE) this.tree.openWhere(opens);
    else this.tree.openAtFirst();
    await this.layout({ fits: !keeps, again: !keeps });
  }

  // --- layout ---

  // `again` chooses anew how tall columns may be; otherwise that stays, so that opening a group moves only what it must.
  async layout({ anchor = null, fits = false, again = false } = {}) {
    const asked = ++this.asked, before = performance.now();
    const { items, groups } = this.tree.visible(), edges = this.tree.edges(items);
    items.forEach((item) => this.measure(item));
    if (again) this.columns = undefined;
    if (again || !this.room) this.room = this.chooseRoom(items);
    const { columns } = this;
    this.setBusy(true);
    const found = await layouter.ask(this.name, {
      items: items.map(({ key, parent, width, height }) => ({ key, parent, width, height })),
      groups: groups.map(({ key, parent, group }) => ({ key, parent, title: (group.label.length + 3) * 7.4 + 30 })),
      edges: edges.map(({ from, to }) => [from, to]),
      ...this.room, columns,
    });
    if (asked !== this.asked) return; // another layout was asked for since
    const laid = performance.now();
    this.setBusy(false);
    const held = anchor && this.onScreen(anchor);
    this.take(items, groups, edges, found);
    if (fits) this.fit(true);
    else if (held) { this.hold(anchor, held); this.showFrame(anchor); }
    this.painter.draw();
    this.minimap.draw();
    this.mark(this.marks);
    this.took = { layout: laid - before, drawing: performance.now() - laid };
  }

  take(items, groups, edges, found) {
    for (const item of items) [item.x, item.y] = found.boxes[item.key];
    for (const group of groups) [group.x, group.y, group.width, group.height] = found.groups[group.key];
    edges.forEach((edge, i) => { edge.points = found.edges[i].points; });
    Object.assign(this, { items, groups, edges, size: { width: found.width, height: found.height } });
    this.columns = { ...this.columns, ...found.columns };
    this.placed = new Map(items.map((item) => [item.key, item]));
    this.framed = new Map(groups.map((group) => [group.key, group]));
  }

  measure(item) {
    item.text = this.about.lines(item);
    const room = item.group ? 4 : 0; // for the sign that opens it, and as much on the left
    const lines = (this.about.room ?? this.about.lines)(item);
    const widths = lines.map((line, i) => (Math.min(lengthOf(line), LONGEST) + (i ? 0 : room)) * (i ? 7.25 : 7.9));
    const seen = (this.about.far?.(item) ?? []).slice(0, 3); // what is to be read from afar too
    const far = seen.map((line) => Math.min(lengthOf(line), SHORT) * 10.8);
    item.width = Math.ceil(Math.max(56, ...far, ...widths) + 16);
    item.height = LINE * item.text.length + PADDING;
  }

  // How tall columns may be: about so that the whole has the form of the pane; what fits as it is stays one column. A
  // phone is moved up and down.
  chooseRoom(items) {
    const { clientWidth, clientHeight } = this.svg.node();
    const view = { width: clientWidth || 800, height: clientHeight || 600 };
    const area = 1.5 * d3.sum(items, (item) => (item.width + 20) * (item.height + 24));
    const tallest = Math.max(view.height - 150, Math.sqrt((area * view.height) / view.width));
    return { view, tallest: isNarrow.matches ? Infinity : tallest };
  }

  setBusy(isBusy) {
    clearTimeout(this.busyTimer);
    const holder = this.svg.node().parentElement;
    holder.setAttribute("aria-busy", isBusy);
    if (!isBusy) holder.classList.remove("busy");
    else this.busyTimer = setTimeout(() => holder.classList.add("busy"), 120);
  }

  // --- opening and closing ---

  async expand(key) {
    this.tree.expand(key);
    await this.layout({ anchor: key });
  }

  async collapse(key) {
    this.tree.collapse(key);
    await this.layout({ anchor: key });
  }

  toggle(key) { return this.tree.open.has(key) ? this.collapse(key) : this.expand(key); }

  // Whether a box is in a group, or in one inside it.
  isInside(item, key) {
    for (let group = this.tree.groups.get(item.parent); group; group = group.parent) if (group.key === key) return true;
    return false;
  }

  async fold(isOpen) {
    if (isOpen) this.tree.openAll(); else this.tree.closeAll();
    await this.layout({ fits: true, again: true });
  }

  async reveal(id) {
    const anchor = this.tree.keyOf(id);
    if (this.tree.reveal(id)) await this.layout({ anchor });
    this.bringIntoView(`n:${id}`);
  }

  // --- marks ---

  // Marks are sets of node ids by class (lit, picked, found), and `later`, which says of a node whether it is yet to come.
  mark(marks) {
    this.marks = { ...this.marks, ...marks };
    if (!this.tree) return; // not seen yet
    const { later, ...sets } = this.marks;
    const keyOf = (id) => (typeof id === "string" ? id : this.tree.byId.has(id) && this.tree.keyOf(id));
    const keys = Object.entries(sets).map(([name, ids]) => [name, new Set([...ids].map(keyOf))]);
    for (const item of [...this.items, ...this.groups]) {
      item.marked = keys.filter(([, found]) => found.has(item.key)).map(([name]) => name);
      const computed = item.members?.filter((node) => !node.given) ?? []; // parameters do not make their layer come earlier
      item.isLater = Boolean(later && computed.length && computed.every(later));
    }
    this.painter.mark();
    this.minimap.mark();
  }

  // --- the view ---

  fit(isFirst = false) {
    const { clientWidth: width, clientHeight: height } = this.svg.node();
    if (!width || !height || !this.size || !this.items.length) return;
    this.isMoved = false;
    const whole = Math.min(LARGEST, (width - 16) / this.size.width, (height - 16) / this.size.height);
    const scale = isFirst && whole < LEGIBLE ? READABLE : whole;
    const x = Math.max(8, (width - this.size.width * scale) / 2), y = Math.max(8, (height - this.size.height * scale) / 2);
    const start = scale === whole ? 0 : this.startOf(width / scale);
    this.view(d3.zoomIdentity.translate(x - start * scale, y).scale(scale));
  }

  // Where to begin looking at what is too large: at the first box that is computed.
  startOf(width) {
    const first = this.items.find((item) => item.group || !item.node.given) ?? this.items[0];
    return Math.max(0, Math.min(first.x - width / 2, this.size.width - width));
  }

  view(transform) { this.svg.call(this.zoom.transform, transform); }

  moveBy(dx, dy) { this.view(d3.zoomIdentity.translate(this.transform.x + dx, this.transform.y + dy).scale(this.transform.k)); }

  // Where the top of a box or an open group is on the screen, and its middle.
  onScreen(key) {
    const item = this.placed.get(key), frame = this.framed?.get(key);
    if (!item && !frame) return null;
    const [x, y] = item ? [item.x, item.y - item.height / 2] : [frame.x + frame.width / 2, frame.y];
    return this.transform.apply([x, y]);
  }

  // Move the view so that a box is where it was, after a layout has moved it.
  hold(key, [x, y]) {
    const now = this.onScreen(key);
    if (!now) return;
    const { k } = this.transform, { clientWidth: width } = this.svg.node();
    const frame = this.framed.get(key), half = frame && (frame.width * k) / 2 + 4;
    const wanted = frame && 2 * half < width ? Math.max(half, Math.min(x, width - half)) : x;
    this.moveBy(wanted - now[0], Math.max(y, 4) - now[1]);
  }

  // Move up what has been opened, as far as there is more of it below.
  showFrame(key) {
    const frame = this.framed.get(key), { clientHeight: height } = this.svg.node();
    if (!frame) return;
    const top = this.transform.applyY(frame.y), bottom = this.transform.applyY(frame.y + frame.height);
    const up = Math.min(bottom + 8 - height, top - 8);
    if (up > 0) this.moveBy(0, -up);
  }

  // Move as little as is needed to have a box in view, and nearer where nothing could be read.
  bringIntoView(key) {
    const item = this.placed.get(key);
    const { clientWidth: width, clientHeight: height } = this.svg.node();
    if (!item || !width) return;
    const k = this.transform.k < LEGIBLE ? READABLE : this.transform.k;
    if (k !== this.transform.k) {
      this.view(d3.zoomIdentity.translate(width / 2 - item.x * k, height / 2 - item.y * k).scale(k));
      return;
    }
    const [x, y] = this.transform.apply([item.x, item.y]), w = (item.width * k) / 2 + 4, h = (item.height * k) / 2 + 4;
    const into = (at, half, room) => (2 * half > room ? room / 2 : Math.max(half, Math.min(room - half, at))) - at;
    const dx = into(x, w, width), dy = into(y, h, height);
    if (dx || dy) this.moveBy(dx, dy);
  }

  // The pane has another size: what was fitted is fitted again, what was moved by hand stays.
  resized() {
    if (!this.isShown || !this.size) return;
    this.minimap.draw();
    if (!this.isMoved) this.fit(true);
  }
}
