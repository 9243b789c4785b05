// Pictures: the graphs in view as SVG or PNG, and the SVGs of all steps as one ZIP file, for slides.
"use strict";

const STYLED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font", "text-anchor", "rx"];
const LARGEST_PICTURE = 8192, MARGIN = 16;

// The graphs of the panes in view, beside each other, whole, with their boxes open and marked as they are.
function asSvg() {
  const shown = shownPanes().filter((pane) => pane.items.length);
  let left = MARGIN;
  const parts = shown.map((pane) => {
    const scale = pane.painter.step;
    pane.painter.step = 0; // text as at scale 1
    pane.painter.write();
    const from = pane.painter.root.node(), copy = from.cloneNode(true);
    const originals = from.querySelectorAll("*");
    copy.querySelectorAll("*").forEach((element, i) => {
      const style = getComputedStyle(originals[i]);
      element.setAttribute("style", STYLED.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
      for (const name of ["tabindex", "role", "aria-expanded"]) element.removeAttribute(name);
    });
    copy.querySelectorAll(".sign").forEach((sign) => sign.remove());
    copy.setAttribute("transform", `translate(${left},${MARGIN})`);
    left += pane.size.width + 2 * MARGIN;
    pane.painter.step = scale;
    pane.painter.write();
    return pane.svg.select("defs").node().outerHTML.replaceAll("var(--faint)", "#888") + copy.outerHTML;
  });
  const width = Math.ceil(left), height = Math.ceil(Math.max(...shown.map((pane) => pane.size.height)) + 2 * MARGIN);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}">${parts.join("")}</svg>`;
}

function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const stepName = (step) => `step-${String(step).padStart(3, "0")}`;
const passName = (number) => `pass-${number + 1}`;

const shownName = () => (state.view === "compiler" ? passName(compiler.number) : state.view === "rank" ? "rank" : stepName(state.step));

function save() {
  download(`${shownName()}.svg`, new Blob([asSvg()], { type: "image/svg+xml" }));
}

// The same as a PNG, twice as large as on the screen at scale 1, as far as browsers make pictures of that size.
async function asPng() {
  const url = URL.createObjectURL(new Blob([asSvg()], { type: "image/svg+xml" }));
  const image = new Image();
  image.src = url;
  await image.decode();
  const scale = Math.min(2, LARGEST_PICTURE / Math.max(image.width, image.height));
  const [width, height] = [image.width, image.height].map((side) => Math.ceil(side * scale));
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

async function savePng() {
  download(`${shownName()}.png`, await asPng());
}

// The SVG of every step of the computation, or of the graph after every pass.
async function allSteps() {
  if (state.view === "rank") return [[`${shownName()}.svg`, asSvg()]];
  const ofPasses = state.view === "compiler";
  const kept = ofPasses ? compiler.number : state.step, { picked } = state;
  const views = shownPanes().map((pane) => [pane, pane.transform]);
  const files = [];
  for (let number = 0; number < (ofPasses ? compiler.count : order.length + 1); number++) {
    if (ofPasses) await compiler.show(number); else go(number);
    files.push([`${ofPasses ? passName(number) : stepName(number)}.svg`, asSvg()]);
  }
  if (ofPasses) await compiler.show(kept); else { go(kept); pick(picked, true); }
  views.forEach(([pane, transform]) => pane.view(transform));
  return files;
}

async function saveSteps() {
  download(`${model.title.replace(/\W+/g, "-")}.zip`, new Blob([zipped(await allSteps())], { type: "application/zip" }));
}

// --- ZIP: the files one after the other, uncompressed, each behind a header; then a directory of them ---

const CRC = Uint32Array.from({ length: 256 }, (_, n) => { for (let i = 0; i < 8; i++) n = n & 1 ? (n >>> 1) ^ 0xedb88320 : n >>> 1; return n; });

function crc32(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) crc = CRC[(crc ^ byte) & 0xff] ^ (crc >>> 8);
  return (crc ^ 0xffffffff) >>> 0;
}

// Numbers of two and four bytes, the lowest first: [[size, value], ...].
function packed(fields) {
  const view = new DataView(new ArrayBuffer(d3.sum(fields, ([size]) => size)));
  let at = 0;
  for (const [size, value] of fields) { size === 2 ? view.setUint16(at, value, true) : view.setUint32(at, value, true); at += size; }
  return new Uint8Array(view.buffer);
}

function joined(parts) {
  const whole = new Uint8Array(d3.sum(parts, (part) => part.length));
  let at = 0;
  for (const part of parts) { whole.set(part, at); at += part.length; }
  return whole;
}

function zipped(files) {
  const parts = [], directory = [];
  let offset = 0;
  for (const [name, text] of files) {
    const title = new TextEncoder().encode(name), bytes = new TextEncoder().encode(text);
    const about = [[2, 20], [2, 0], [2, 0], [2, 0], [2, 33], [4, crc32(bytes)], [4, bytes.length], [4, bytes.length], [2, title.length], [2, 0]];
    const header = packed([[4, 0x04034b50], ...about]);
    directory.push(packed([[4, 0x02014b50], [2, 20], ...about, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]]), title);
    parts.push(header, title, bytes);
    offset += header.length + title.length + bytes.length;
  }
  const size = d3.sum(directory, (part) => part.length);
  const end = packed([[4, 0x06054b50], [2, 0], [2, 0], [2, files.length], [2, files.length], [4, size], [4, offset], [2, 0]]);
  return joined([...parts, ...directory, end]);
}
