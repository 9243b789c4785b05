// What is shown as an SVG, and the SVGs of all steps as one ZIP file, for slides.
"use strict";

const STYLED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "font", "text-anchor", "rx"];

function asSvg() {
  let left = 0;
  const parts = shownPanes().filter((pane) => pane.nodes.length).map((pane) => {
    const copy = pane.root.node().cloneNode(true);
    const from = pane.root.node().querySelectorAll("*"), to = copy.querySelectorAll("*");
    from.forEach((element, i) => { const style = getComputedStyle(element); to[i].setAttribute("style", STYLED.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";")); });
    copy.setAttribute("transform", `translate(${left},0)`);
    left += pane.size.width + 30;
    return copy.outerHTML + pane.svg.select("defs").node().outerHTML.replaceAll("var(--faint)", "#888");
  });
  const height = Math.max(...shownPanes().map((pane) => pane.size?.height || 0));
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left} ${height}" width="${left}" height="${height}">${parts.join("")}</svg>`;
}

function download(name, type, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

const stepName = (step) => `step-${String(step).padStart(3, "0")}.svg`;
const passName = (number) => `pass-${number + 1}.svg`;

const shownName = () => (state.view === "compiler" ? passName(compiler.number) : state.view === "rank" ? "rank.svg" : stepName(state.step));

function save() {
  download(shownName(), "image/svg+xml", asSvg());
}

// The SVG of every step of the computation, or of the graph after every pass.
function allSteps() {
  if (state.view === "rank") return [[shownName(), asSvg()]];
  const ofPasses = state.view === "compiler";
  const kept = ofPasses ? compiler.number : state.step, picked = state.picked;
  const show = ofPasses ? compiler.show : go;
  const numbers = d3.range(0, ofPasses ? compiler.count : order.length + 1);
  const files = numbers.map((number) => { show(number); return [ofPasses ? passName(number) : stepName(number), asSvg()]; });
  show(kept);
  if (!ofPasses) pick(picked);
  return files;
}

function saveSteps() {
  download(`${model.title.replace(/\W+/g, "-")}.zip`, "application/zip", zipped(allSteps()));
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
