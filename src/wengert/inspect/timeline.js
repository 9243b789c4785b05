// A timeline: lanes of bars over time, which zooms, moves, tells of a bar and colours by module. The lanes are in the
// page already: `.time[data-seconds]` holds `.lane`s, and these `<i>`s at a place and of a width in percent of the time.
// A bar has its words in `title`, and may have `data-module`; then bars have the colours of their modules.
"use strict";

const WIDEST = 500_000; // percent of the window
const byName = (id) => document.getElementById(id);
const time = byName("time"), scroll = time.parentElement, width = byName("width"), ticks = time.querySelector(".ticks");
const seconds = +time.dataset.seconds;
const bars = [...time.querySelectorAll(".lane > i[title]")].map((element, i) => {
  const [start, long] = [element.style.left, element.style.width].map((part) => (parseFloat(part) / 100) * seconds);
  const bar = { element, i, start, seconds: long, module: element.dataset.module, words: element.title };
  element.removeAttribute("title");
  return bar;
});
const barOf = new Map(bars.map((bar) => [bar.element, bar]));
let percent = 100, chosen = null;

// --- the view ---

// Make the lanes wider or narrower; the time under `x`, in pixels from the left of the window, stays there.
function zoom(wanted, x = scroll.clientWidth / 2) {
  const before = (scroll.scrollLeft + x) / time.clientWidth;
  percent = Math.max(100, Math.min(WIDEST, wanted));
  time.style.width = `${percent}%`;
  scroll.scrollLeft = before * time.clientWidth - x;
  width.value = 100 * Math.log10(percent / 100);
  drawTicks();
}

const STEPS = [1, 2, 5];

// The times in view at round numbers, about a hundred pixels apart.
function drawTicks() {
  const perPixel = seconds / time.clientWidth, least = 110 * perPixel;
  const power = 10 ** Math.floor(Math.log10(least)), step = (STEPS.find((n) => n * power >= least) ?? 10) * power;
  const from = Math.floor((scroll.scrollLeft * perPixel) / step);
  const to = Math.ceil(((scroll.scrollLeft + scroll.clientWidth) * perPixel) / step);
  const marks = [];
  for (let k = from; k <= to && k * step < seconds; k++) {
    marks.push(`<span style="left:${(100 * k * step) / seconds}%">${timeText(k * step, step)}</span>`);
  }
  ticks.innerHTML = marks.join("");
}

function timeText(value, step = value) {
  const [unit, scale] = step >= 1 ? ["s", 1] : step >= 1e-3 ? ["ms", 1e3] : ["µs", 1e6];
  return `${+(value * scale).toPrecision(6)} ${unit}`;
}

// --- bars ---

const HELP = "Hover over a bar to see what ran; click to pin it. Scroll to zoom, drag to move.";

function tell(bar) {
  byName("bar").textContent = bar ? `${bar.words}\nfrom ${timeText(bar.start)}` : HELP;
}

function choose(bar) {
  chosen?.element.classList.remove("chosen");
  chosen = bar;
  chosen?.element.classList.add("chosen");
  tell(bar);
  if (!bar) return;
  const at = bar.element.offsetLeft, end = at + bar.element.offsetWidth;
  if (end < scroll.scrollLeft + 20 || at > scroll.scrollLeft + scroll.clientWidth - 20) scroll.scrollLeft = at - scroll.clientWidth / 2;
}

const inOrder = [...bars].sort((a, b) => a.start - b.start || a.i - b.i);

function neighbour(by) {
  const at = chosen ? inOrder.indexOf(chosen) : by > 0 ? -1 : 0;
  choose(inOrder[Math.max(0, Math.min(inOrder.length - 1, at + by))]);
}

// --- modules: a colour each, and their share of the time ---

const modules = new Map();
for (const bar of bars) if (bar.module !== undefined) modules.set(bar.module, (modules.get(bar.module) ?? 0) + bar.seconds);
const ordered = [...modules].sort((a, b) => b[1] - a[1]);
const hue = new Map(ordered.map(([module], i) => [module, Math.round(i * 137.5) % 360])); // by the golden angle, so neighbours differ
const colourOf = (module) => (module ? `hsl(${hue.get(module)} 60% 52%)` : "var(--other)");

function showModules() {
  if (!modules.size) return;
  for (const bar of bars) if (bar.module !== undefined) bar.element.style.background = colourOf(bar.module);
  const total = ordered.reduce((sum, [, spent]) => sum + spent, 0) || 1;
  byName("modules").innerHTML = ordered.map(([module, spent], i) => {
    const share = `<b>${((100 * spent) / total).toFixed(1)}%</b>`, colour = `<i style="background:${colourOf(module)}"></i>`;
    return `<button data-module="${i}">${colour}${escaped(module || "outside of modules")} ${share}</button>`;
  }).join("");
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text) => text.replace(/[&<>"]/g, (c) => ENTITIES[c]);

// Only the bars of a module, or all again.
function only(module) {
  time.classList.toggle("some", module !== undefined);
  for (const bar of bars) bar.element.classList.toggle("kept", bar.module === module);
}

// --- the mouse, fingers and keys ---

scroll.addEventListener("wheel", (event) => {
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return; // moves, as everywhere
  event.preventDefault();
  zoom(percent * 1.0015 ** -event.deltaY, event.clientX - scroll.getBoundingClientRect().left);
}, { passive: false });
scroll.addEventListener("scroll", drawTicks);
let held = null;
scroll.addEventListener("pointerdown", ({ pointerType, clientX }) => {
  if (pointerType === "mouse") held = { x: clientX, left: scroll.scrollLeft, isMoved: false };
});
addEventListener("pointermove", (event) => {
  if (!held) return;
  held.isMoved ||= Math.abs(event.clientX - held.x) > 3;
  scroll.scrollLeft = held.left - (event.clientX - held.x);
});
addEventListener("pointerup", () => setTimeout(() => { held = null; }));
time.addEventListener("mouseover", (event) => { if (!chosen) tell(barOf.get(event.target)); });
time.addEventListener("click", (event) => { if (!held?.isMoved) choose(barOf.get(event.target) ?? null); });
width.addEventListener("input", () => zoom(100 * 10 ** (width.value / 100)));
let alone = null;
byName("modules").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  alone?.removeAttribute("aria-pressed");
  alone = button === alone ? null : button;
  alone?.setAttribute("aria-pressed", "true");
  only(alone ? ordered[alone.dataset.module][0] : undefined);
});
const KEYS = {
  "+": () => zoom(percent * 1.5), "=": () => zoom(percent * 1.5), "-": () => zoom(percent / 1.5), f: () => zoom(100),
  ArrowRight: () => neighbour(1), ArrowLeft: () => neighbour(-1), Escape: () => choose(null),
};
addEventListener("keydown", (event) => {
  if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "INPUT") return;
  event.preventDefault();
  KEYS[event.key]();
});
addEventListener("resize", drawTicks);

showModules();
tell(null);
drawTicks();
window.wengertReady = true;
