// A small picture of the whole graph in the corner of its pane, with a frame around what is in view. A press goes there.
"use strict";

class Minimap {
  constructor(pane) {
    this.pane = pane;
    this.canvas = document.createElement("canvas");
    this.canvas.className = "minimap";
    this.canvas.setAttribute("aria-hidden", "true"); // the boxes themselves can be reached
    pane.svg.node().after(this.canvas);
    const go = (event) => { if (event.buttons || event.type === "pointerdown") this.go(event); };
    this.canvas.addEventListener("pointerdown", (event) => { this.canvas.setPointerCapture(event.pointerId); go(event); });
    this.canvas.addEventListener("pointermove", go);
  }

  draw() {
    const { size, svg } = this.pane, { clientWidth, clientHeight } = svg.node();
    if (!size || !clientWidth) return;
    const most = [Math.min(170, clientWidth * 0.3), Math.min(150, clientHeight * 0.3)];
    this.scale = Math.min(most[0] / size.width, most[1] / size.height);
    const width = Math.max(24, Math.ceil(size.width * this.scale)), height = Math.max(24, Math.ceil(size.height * this.scale));
    const density = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * density, height: height * density });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.still = document.createElement("canvas");
    Object.assign(this.still, { width: this.canvas.width, height: this.canvas.height });
    this.mark();
  }

  mark() {
    if (!this.still) return;
    const context = this.still.getContext("2d"), style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const colours = new Map();
    const density = this.canvas.width / parseFloat(this.canvas.style.width);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.still.width, this.still.height);
    context.setTransform(this.scale * density, 0, 0, this.scale * density, 0, 0);
    for (const item of this.pane.items) {
      const kind = item.kind?.split(" ")[0] ?? "element";
      if (!colours.has(kind)) colours.set(kind, colour(`edge-${kind}`) || colour("faint"));
      const has = (mark) => item.marked?.includes(mark);
      const marked = has("picked") ? "picked" : has("found") || has("lit") ? "lit" : null;
      context.globalAlpha = item.isLater ? 0.25 : 1;
      context.fillStyle = marked ? colour(marked) : colours.get(kind);
      context.fillRect(item.x - item.width / 2, item.y - item.height / 2, item.width, item.height);
    }
    this.moved(this.pane.transform);
  }

  moved(transform) {
    const { size, svg } = this.pane;
    if (!this.still || !transform || !size) return;
    const { clientWidth, clientHeight } = svg.node();
    const [left, top] = transform.invert([0, 0]), [right, bottom] = transform.invert([clientWidth, clientHeight]);
    const isWhole = left <= 1 && top <= 1 && right >= size.width - 1 && bottom >= size.height - 1;
    this.canvas.hidden = isWhole;
    if (isWhole) return;
    const context = this.canvas.getContext("2d"), k = (this.scale * this.canvas.width) / parseFloat(this.canvas.style.width);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.still, 0, 0);
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--picked");
    context.lineWidth = 2;
    const x = Math.max(0, left * k), y = Math.max(0, top * k);
    context.strokeRect(x + 1, y + 1, Math.min(this.canvas.width, right * k) - x - 2, Math.min(this.canvas.height, bottom * k) - y - 2);
  }

  go({ offsetX, offsetY }) {
    this.pane.isMoved = true;
    this.pane.svg.call(this.pane.zoom.translateTo, offsetX / this.scale, offsetY / this.scale);
  }
}
