// What a pane looks like: frames of open groups, edges, boxes, and how much text a box has at which scale. Text is never
// smaller than can be read: where a box becomes small it says less, where it becomes large it says more.
"use strict";

const SMALLEST = 10.05, WIDE = 0.61; // pixels on the screen; the width of a character of this font, in parts of its size
const DETAILED = 1.6, STEPS = 12; // text is sized anew so often while the scale doubles

class Painter {
  constructor(pane) {
    this.pane = pane;
    const { svg, name } = pane;
    svg.attr("role", "group");
    svg.append("defs").append("marker").attr("id", `arrow-${name}`).attr("viewBox", "0 0 8 8").attr("refX", 7).attr("refY", 4)
      .attr("markerUnits", "userSpaceOnUse").attr("markerWidth", 8).attr("markerHeight", 8).attr("orient", "auto")
      .append("path").attr("d", "M0,0L8,4L0,8Z").attr("fill", "var(--faint)");
    this.arrow = `url(#arrow-${name})`;
    this.root = svg.append("g").attr("class", "root");
    const layers = ["frames", "edges", "titles", "notes", "boxes"].map((layer) => this.root.append("g").attr("class", layer));
    [this.frames, this.lines, this.titles, this.notes, this.boxes] = layers;
    this.step = null;
    this.tapped = { key: null, at: 0 };
    svg.on("focusin", (event) => this.focused(event.target.closest("[data-key]")?.dataset.key));
  }

  moved(transform) {
    this.root.attr("transform", transform);
    const step = Math.floor(Math.log2(transform.k) * STEPS + 1e-6) / STEPS;
    if (step === this.step) return;
    this.step = step;
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.write());
  }

  // The scale for which text is sized: the least of those between two steps.
  get scale() { return 2 ** (this.step ?? 0); }

  draw() {
    const { pane } = this;
    this.frames.selectAll("g.frame").data(pane.groups, (group) => group.key).join((enter) => this.newFrames(enter))
      .attr("transform", (group) => `translate(${group.x},${group.y})`).order()
      .call((frame) => frame.select("rect").attr("width", (group) => group.width).attr("height", (group) => group.height))
      .call((frame) => frame.select(".close").attr("transform", (group) => `translate(${group.width - 15},13)`));
    this.titles.selectAll("text").data(pane.groups, (group) => group.key).join("text").attr("x", (group) => group.x + 8);
    const line = d3.line().curve(d3.curveBasis);
    this.lines.selectAll("path.edge").data(pane.edges, (edge) => `${edge.from}\t${edge.to}`).join("path").attr("class", "edge")
      .attr("marker-end", this.arrow).attr("d", (edge) => line(edge.points));
    this.boxes.selectAll("g.box").data(pane.items, (item) => item.key).join((enter) => this.newBoxes(enter)).order()
      .attr("transform", (item) => `translate(${item.x},${item.y})`)
      .attr("aria-label", (item) => pane.about.label(item))
      .each((item, i, all) => { item.element = all[i]; item.drawn = item.kind = null; })
      .call((box) => box.select("rect").attr("x", (item) => -item.width / 2).attr("y", (item) => -item.height / 2)
        .attr("width", (item) => item.width).attr("height", (item) => item.height))
      .call((box) => box.select(".open").attr("transform", (item) => `translate(${item.width / 2 - 13},${13 - item.height / 2})`));
    for (const item of pane.items) item.kind = pane.about.kind(item);
    this.rove(pane.items.find((item) => item.key === this.current)?.key ?? pane.items[0]?.key);
    this.write();
  }

  newFrames(enter) {
    const { pane } = this;
    const frame = enter.append("g").attr("class", "frame").attr("data-key", (group) => group.key).attr("role", "button")
      .attr("tabindex", -1).attr("aria-expanded", true)
      .attr("aria-label", ({ group }) => `${group.path.join(".")}, open; Enter closes it`)
      .on("click", (event, group) => this.click(event, group, () => pane.collapse(group.key)))
      .on("keydown", (event, group) => this.key(event, () => this.closeByKey(group.key)));
    frame.append("rect").attr("rx", 7);
    this.sign(frame, "close", "close", false);
    return frame;
  }

  newBoxes(enter) {
    const { pane } = this;
    const box = enter.append("g").attr("class", "box").attr("data-key", (item) => item.key).attr("role", "button").attr("tabindex", -1)
      .attr("aria-expanded", (item) => (item.group ? false : null))
      .on("mouseenter", (event, item) => pane.about.onPoint(item)).on("mouseleave", () => pane.about.onPoint(null))
      .on("click", (event, item) => this.click(event, item, () => item.group && pane.expand(item.key)))
      .on("keydown", (event, item) => this.key(event, () => (event.shiftKey ? this.leave(item) : this.enter(item))));
    box.append("rect").attr("rx", 5);
    this.sign(box.filter((item) => item.group), "open", "open", true);
    return box;
  }

  // A sign in a corner that opens or closes a group with one click.
  sign(parent, name, title, isPlus) {
    const sign = parent.append("g").attr("class", `sign ${name}`);
    sign.append("title").text(title);
    sign.append("rect").attr("x", -9).attr("y", -9).attr("width", 18).attr("height", 18).attr("rx", 4);
    sign.append("path").attr("d", isPlus ? "M-4,0H4M0,-4V4" : "M-4,0H4");
    sign.on("click", (event, item) => { event.stopPropagation(); this.pane.toggle(item.key); });
  }

  // One click picks, a second one soon after opens or closes: by mouse or by finger.
  click(event, item, act) {
    const again = this.tapped.key === item.key && event.timeStamp - this.tapped.at < 400;
    this.tapped = { key: again ? null : item.key, at: event.timeStamp };
    if (again) act(); else this.pane.about.onPick(item);
  }

  key(event, act) {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  // By keys one goes into a group, to its first box, and out of it again, to the box that it is then.
  async enter(item) {
    if (!item.group) { this.pane.about.onPick(item); return; }
    await this.pane.expand(item.key);
    this.focus(this.pane.items.find((each) => this.pane.isInside(each, item.key))?.key);
  }

  leave(item) { return item.parent && this.closeByKey(item.parent); }

  async closeByKey(key) {
    await this.pane.collapse(key);
    this.focus(key);
  }

  // --- which box the Tab key comes to ---

  rove(key) {
    this.current = key;
    this.boxes.selectAll("g.box").attr("tabindex", (item) => (item.key === key ? 0 : -1));
  }

  focused(key) {
    if (key === undefined || key === this.current || !this.pane.placed.has(key)) return;
    this.rove(key);
    this.pane.bringIntoView(key);
  }

  focus(key) {
    const item = this.pane.placed.get(key);
    if (!item) return;
    this.rove(key);
    item.element?.focus({ preventScroll: true });
  }

  // --- text ---

  write() {
    const { pane, scale } = this;
    for (const item of pane.items) this.writeBox(item, scale);
    const size = Math.max(SMALLEST / scale, Math.min(12, 14 / scale));
    this.titles.selectAll("text").each((group, i, all) => {
      const room = size <= SPACE.title ? Math.floor((group.width - 34) / (size * WIDE)) : 0;
      all[i].style.fontSize = `${size}px`;
      all[i].setAttribute("y", group.y + Math.max(16, size * 0.9));
      all[i].textContent = room >= 3 ? shortened(pane.about.title?.(group.group) ?? group.group.label, room) : "";
    });
    this.frames.selectAll(".sign").style("display", scale < 0.7 ? "none" : null);
    this.note();
  }

  writeBox(item, scale) {
    const found = this.linesAt(item, scale);
    const drawn = JSON.stringify(found);
    if (drawn === item.drawn) return;
    item.drawn = drawn;
    const { lines, size, step } = found, holder = d3.select(item.element);
    const first = -((lines.length - 1) * step) / 2 + size * 0.35;
    holder.selectAll("text").data(lines).join("text").attr("class", (_, i) => (i ? "more" : "name"))
      .style("font-size", (_, i) => `${found.sizes[i]}px`).attr("y", (_, i) => first + i * step).text((line) => line);
    holder.select(".sign").style("display", scale < 0.7 ? "none" : null);
  }

  // The lines that a box has room for, and their size: as laid out, or larger where the graph is seen from afar, or
  // smaller and more of them where it is seen from near.
  linesAt(item, scale) {
    const isNear = scale >= DETAILED, isFar = scale < READABLE - 1e-6;
    const { lines: text, more, far } = this.pane.about;
    const all = isNear ? [...text(item), ...more(item)] : isFar && far ? far(item) : item.text;
    const room = (item.height - (isFar ? 0 : 4)) * (isNear ? 0.94 : 1);
    const near = Math.max(11 / scale, Math.min(16 / scale, room / all.length / 1.3));
    const size = isNear ? near : isFar ? SMALLEST / scale : 13;
    const step = isNear ? size * 1.3 : isFar ? size * 1.1 : LINE;
    const count = Math.min(all.length, Math.floor(room / step + 1e-6));
    const sizes = all.map((_, i) => (isNear || isFar ? size : i ? 12 : 13));
    const sign = item.group && !isFar ? 26 : 0; // beside the first line
    const most = (i) => Math.floor((item.width - 4 - (i === 0 ? sign : 0)) / (sizes[i] * WIDE));
    const lines = all.slice(0, count).map((line, i) => shortened(line, most(i)));
    return { lines: lines[0]?.length > 2 || lines[0] === all[0] ? lines : [], sizes, size, step };
  }

  // Text that has changed though nothing has moved: values while stepping, or under sliders.
  rewrite() {
    for (const item of this.pane.items) item.text = this.pane.about.lines(item);
    for (const item of this.pane.items) this.writeBox(item, this.scale);
  }

  // --- marks ---

  mark() {
    const { pane } = this;
    for (const item of pane.items) {
      this.setClass(item, item.element, ["box", item.kind, ...item.marked, item.isLater ? "later" : ""].join(" "));
    }
    this.frames.selectAll("g.frame").each((group, i, all) => this.setClass(group, all[i], ["frame", ...group.marked].join(" ")));
    const isChosen = (key) => pane.placed.get(key)?.marked.some((mark) => mark === "picked" || mark === "hover");
    this.lines.selectAll("path.edge").each((edge, i, all) => {
      edge.isLit = Boolean(isChosen(edge.from) || isChosen(edge.to));
      this.setClass(edge, all[i], `edge${edge.isLit ? " lit" : ""}${pane.placed.get(edge.to)?.isLater ? " later" : ""}`);
    });
    this.note();
  }

  setClass(thing, element, text) {
    if (thing.written === text && thing.on === element) return;
    Object.assign(thing, { written: text, on: element });
    element.setAttribute("class", text);
  }

  // The shapes of what goes along the edges of the chosen box, where its box does not say so already.
  note() {
    const isNumber = (edge) => [...edge.carries].every((node) => /\[\]$/.test(node.type));
    const lit = this.scale < LEGIBLE ? [] : this.pane.edges.filter((edge) => edge.isLit && !isNumber(edge));
    const middle = ({ points }) => points[points.length >> 1];
    this.notes.selectAll("text").data(lit, (edge) => `${edge.from}\t${edge.to}`).join("text")
      .style("font-size", `${Math.max(11, SMALLEST / this.scale)}px`)
      .attr("x", (edge) => middle(edge)[0] + 5).attr("y", (edge) => middle(edge)[1] + 3)
      .text((edge) => (edge.carries.size > 1 ? `${edge.carries.size} values` : shapeOf([...edge.carries][0])));
  }
}

// "[2, 64, 8, 8]" of "float32[2, 64, 8, 8]": other dtypes are named. The type of a number is only its dtype.
const shapeText = (type) => type.replace(/\bfloat32\[(?=\d)/g, "[").replace(/(\w)\[\]/g, "$1");
const shapeOf = (node) => shapeText(node.type);
