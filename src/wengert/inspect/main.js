// The page: panes and views, what lights up with what, steps, keys.
"use strict";

const byName = (id) => document.getElementById(id);
const about = {
  pathOf: callsAround, lines: linesOf, far: farOf, room: roomOf, more: moreOf, label: labelOf, title: groupName,
  onPoint: (item) => point(item), onPick: (item) => pickItem(item),
};
const forward = new Pane(byName("forward"), { ...about, kind: (item) => kindOfItem(item, false) });
const backward = new Pane(byName("backward"), { ...about, kind: (item) => kindOfItem(item, true) });
const panes = [forward, backward];
const contents = new Map([[forward, model.forward], [backward, model.backward]]);
const paneOf = (id) => (nodes.get(id)?.cotangents !== undefined ? forward : backward);
let compiler = null, ranks = null, ready = Promise.resolve();

const shownKinds = () => new Set(panes.flatMap((pane) => pane.items.map((item) => item.kind?.split(" ")[0])));
const usedKinds = () => { const shown = shownKinds(); return Object.keys(KIND_NAMES).filter((kind) => shown.has(kind)); };
const help = () => { details.innerHTML = helpHtml(usedKinds()); sliders?.show(byName("sliders")); };

// --- what belongs together ---

const madeBy = d3.group(model.backward.filter((node) => node.rule !== undefined), (node) => node.rule);
const valuesOf = new Map();
for (const node of model.forward) for (const id of node.cotangents) valuesOf.set(id, [...(valuesOf.get(id) ?? []), node.id]);

function related(node) {
  if (node.cotangents) return [...node.cotangents, ...(madeBy.get(node.id) ?? []).map((each) => each.id)];
  return [...new Set([node.at, node.rule, ...(valuesOf.get(node.id) ?? [])])].filter((id) => id !== undefined);
}

function point(item) {
  const kept = nodes.get(state.picked), group = state.group && state.group();
  const members = item ? item.members : kept ? [kept] : group ? group.nodes : [];
  const lit = new Set(members.flatMap(related)), hover = new Set(item ? [item.key] : []);
  panes.forEach((pane) => pane.mark({ lit, hover }));
  if (item && !kept && !group) tell(item.node ?? item.group);
  else if (!item) tell(kept ?? group);
}

function tell(thing) {
  if (!thing) help();
  else details.innerHTML = thing instanceof Group ? groupHtml(thing) : nodeHtml(thing, isLater);
}

function pickItem(item) {
  if (item.node) { pick(item.node.id, true); return; }
  state.picked = null;
  const pane = panes.find((each) => each.placed.has(item.key) || each.framed?.has(item.key));
  state.group = () => pane.tree.groups.get(item.key);
  panes.forEach((each) => each.mark({ picked: new Set([item.key]) }));
  announce(labelOf({ group: item.group, members: item.group.nodes }));
  point(null);
}

// Pick a node, and show it: by a click it is in view already, by a step it may be inside a closed group.
function pick(id, isSeen = false, opens = true) {
  Object.assign(state, { picked: id, group: null });
  panes.forEach((pane) => pane.mark({ picked: new Set(id === null ? [] : [id]) }));
  point(null);
  if (id === null) return ready;
  announce(equation(nodes.get(id)));
  if (isSeen) return ready;
  return (ready = bring(id, opens));
}

async function bring(id, opens) {
  const pane = paneOf(id), hadFocus = document.activeElement?.closest?.(".pane svg");
  if (!pane.isShown) await view(isNarrow.matches || !opens ? (pane === forward ? "forward" : "backward") : "graph");
  if (opens) await pane.reveal(id);
  const key = pane.tree.keyOf(id);
  pane.bringIntoView(key);
  if (hadFocus) pane.painter.focus(key);
}

async function pickGroup(key) {
  const pane = panes.find((each) => treeOf(each).groups.has(key));
  if (!pane) return;
  if (!pane.isShown) await view(isNarrow.matches ? (pane === forward ? "forward" : "backward") : "graph");
  const group = pane.tree.groups.get(key), outer = group.parent;
  if (outer.parent && !pane.tree.open.has(outer.key)) {
    for (let each = outer; each.parent; each = each.parent) pane.tree.open.add(each.key);
    await pane.layout({});
  }
  pickItem({ key, group });
  pane.bringIntoView(pane.placed.has(key) ? key : pane.tree.keyOf(group.nodes[0].id));
}

const announce = (text) => { byName("announced").textContent = text; };

details.addEventListener("click", (event) => {
  const { go: id, toggle: key, group, kernel } = event.target.dataset ?? {};
  if (id !== undefined) pick(+id);
  else if (group !== undefined) ready = pickGroup(group);
  else if (kernel !== undefined) ready = compiler.pickKernel(+kernel);
  else if (key !== undefined) ready = shownPanes().find((pane) => pane.tree.groups.has(key))?.toggle(key);
});

// --- steps ---

function go(step) {
  state.step = Math.max(0, Math.min(order.length, step));
  byName("step").textContent = `${state.step} / ${order.length}`;
  panes.forEach((pane) => { if (pane.tree) { pane.painter.rewrite(); pane.mark({ later: isLater }); } });
  const node = state.step < order.length || state.picked !== null ? order[state.step - 1] : null;
  if (node && state.step < order.length) pick(node.id, false, false);
  else point(null);
}

// To the next step in another box: what is inside a closed group is one step then.
function goByBox(by) {
  const keyAt = (step) => { const node = order[step - 1]; return node && paneOf(node.id).tree?.keyOf(node.id); };
  const start = keyAt(state.step);
  let step = state.step + by;
  while (step > 0 && step < order.length && keyAt(step) === start) step += by;
  go(step);
}

// --- views ---

const VIEWS = {
  graph: { title: "both", panes: ["forward-pane", "backward-pane"], fits: () => model.backward.length > 0 },
  forward: { title: "computation", panes: ["forward-pane"], fits: () => true },
  backward: { title: "gradient", panes: ["backward-pane"], fits: () => model.backward.length > 0 },
  rank: { title: "rank", panes: ["ranks-pane"], fits: () => Boolean(model.ranks) },
  compiler: { title: "compiler", panes: ["compiler-pane"], fits: () => Boolean(model.compiler) },
};

async function view(name) {
  state.view = name;
  for (const section of document.querySelectorAll(".pane")) section.hidden = !VIEWS[name].panes.includes(section.id);
  for (const button of document.querySelectorAll("#views button")) button.setAttribute("aria-selected", button.dataset.view === name);
  document.body.dataset.view = name;
  if (name === "compiler") { compiler ??= compilerView(model.compiler); await compiler.begin(); }
  else if (name === "rank") { ranks ??= ranksView(model.ranks); await ranks.show(); help(); }
  else await showGraphs();
}

async function showGraphs() {
  await Promise.all(panes.filter((pane) => pane.isShown).map(begun));
  orient();
  counter(`${state.step} / ${order.length}`);
  point(null);
}

// Both graphs beside each other or one above the other: as shows them larger.
function orient() {
  const sizes = panes.map((pane) => pane.size), { clientWidth: width, clientHeight: height } = byName("panes");
  if (state.view !== "graph" || !sizes.every(Boolean) || !width) return;
  const scales = (w, h) => d3.sum(sizes, (size) => Math.min(LARGEST, w / size.width, (h - 30) / size.height));
  byName("panes").classList.toggle("stacked", scales(width, height / 2) > scales(width / 2, height));
  panes.forEach((pane) => pane.resized());
}

const counter = (text) => { byName("step").textContent = text; };

// A pane is laid out when it is first seen, and fitted again when it is seen in another size. Of the gradient the
// groups are open that are open in the computation.
async function begun(pane) {
  if (pane.tree) { pane.resized(); return; }
  const opens = ({ key, about: { of } }) => forward.tree.open.has(of === undefined ? key : `g:${of}`);
  await pane.show(contents.get(pane), { opens: pane === backward && forward.tree ? opens : null });
  pane.mark({ later: isLater });
}

function shownPanes() {
  if (state.view === "compiler") return [compiler.pane];
  return state.view === "rank" ? [ranks.pane] : panes.filter((pane) => pane.isShown);
}

// The groups of a pane, also of one that was not seen yet.
const treeOf = (pane) => pane.tree ?? (pane.unseen ??= new Tree(contents.get(pane), callsAround));

// Both graphs where they can be read so, else the computation alone.
function firstView() {
  if (!model.backward.length || isNarrow.matches) return "forward";
  const counts = panes.map((pane) => { treeOf(pane).openAtFirst(); return treeOf(pane).visible().items.length; });
  return Math.max(...counts) <= 40 ? "graph" : "forward";
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  shownPanes().forEach((pane) => pane.minimap.mark());
}

// --- keys ---

function neighbour(by) {
  const pane = shownPanes().find((each) => each.svg.node().contains(document.activeElement)) ?? shownPanes()[0];
  if (state.view === "compiler" || state.view === "rank") return;
  const start = state.picked !== null && paneOf(state.picked).isShown ? paneOf(state.picked) : pane;
  const keys = start.items.map((item) => item.key);
  const focused = document.activeElement?.dataset?.key;
  const chosen = focused ?? (state.picked !== null ? start.tree.keyOf(state.picked) : state.group?.().key);
  const at = keys.indexOf(start.placed.has(chosen) ? chosen : start.painter.current);
  const next = start.items[(at + by + keys.length) % keys.length];
  pickItem(next);
  start.painter.focus(next.key);
  start.bringIntoView(next.key);
}

function toGradient() {
  const node = nodes.get(state.picked), group = state.group?.();
  const other = node && related(node)[0];
  if (other !== undefined) pick(other);
  else if (group) details.querySelector("[data-group]")?.click();
}

function stepBy(by, isByBox = false) {
  if (state.view === "compiler") compiler.go(compiler.number + by);
  else if (state.view === "rank") ranks.step(by);
  else if (isByBox) goByBox(by);
  else go(state.step + by);
}

const zoomBy = (factor) => shownPanes().forEach((pane) => pane.svg.call(pane.zoom.scaleBy, factor));

function goToEnd(isLast) {
  if (state.view === "compiler") compiler.go(isLast ? compiler.count - 1 : 0);
  else if (state.view === "rank") ranks.step(isLast ? Infinity : -Infinity);
  else go(isLast ? order.length : 0);
}

const foldAll = (isOpen) => { ready = Promise.all(shownPanes().map((pane) => pane.fold(isOpen))); };
const fitAll = () => { orient(); shownPanes().forEach((pane) => pane.fit()); };
const toggleTheme = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

const KEYS = {
  ArrowRight: (event) => stepBy(1, event?.shiftKey), ArrowLeft: (event) => stepBy(-1, event?.shiftKey),
  Home: () => goToEnd(false), End: () => goToEnd(true),
  ArrowDown: () => neighbour(1), ArrowUp: () => neighbour(-1), g: toGradient,
  e: () => foldAll(true), c: () => foldAll(false), f: fitAll, s: () => save(), p: () => savePng(), a: () => saveSteps(),
  Escape: () => pick(null), "?": () => help(), d: toggleTheme, "/": () => byName("search").focus(),
  "+": () => zoomBy(1.3), "=": () => zoomBy(1.3), "-": () => zoomBy(1 / 1.3),
};

document.addEventListener("keydown", (event) => {
  if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (KEYS[event.key]) { KEYS[event.key](event); event.preventDefault(); }
});

// --- the beginning ---

const searching = new Search({
  entries: () => {
    const groups = panes.flatMap((pane) => [...treeOf(pane).groups.values()]);
    return [...[...nodes.values()].map((node) => (node.entry ??= entryOf(node))), ...groups.map((group) => (group.entry ??= entryOfGroup(group)))];
  },
  onGo: (entry) => { ready = entry.group ? pickGroup(entry.group) : pick(entry.id); },
  onFound: (hits) => panes.forEach((pane) => pane.mark({ found: new Set(hits.map((hit) => hit.group ?? hit.id)) })),
});

function bar() {
  const views = Object.entries(VIEWS).filter(([, { fits }]) => fits());
  for (const [name, { title }] of views.length > 1 ? views : []) {
    const button = document.createElement("button");
    Object.assign(button, { textContent: title, onclick: () => { ready = view(name); } });
    button.dataset.view = name;
    button.setAttribute("role", "tab");
    byName("views").append(button);
  }
  const clicks = { first: KEYS.Home, back: () => stepBy(-1), next: () => stepBy(1), last: KEYS.End, expand: KEYS.e, collapse: KEYS.c, fit: KEYS.f,
    save: KEYS.s, png: KEYS.p, all: KEYS.a, theme: KEYS.d, help: () => (pick(null), help()) };
  for (const [id, action] of Object.entries(clicks)) byName(id).addEventListener("click", () => action());
  document.addEventListener("click", (event) => document.querySelectorAll("details.menu[open]").forEach((menu) => {
    if (!menu.contains(event.target) || event.target.tagName === "BUTTON") menu.open = false;
  }));
}

// Fit again, once a frame, while the window changes its size.
function followSize() {
  let waiting = 0;
  const fitted = () => { orient(); shownPanes().forEach((pane) => pane?.resized()); };
  new ResizeObserver(() => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(fitted); }).observe(byName("main"));
}

async function begin() {
  theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  Object.assign(byName("title"), { textContent: shownTitle, title: model.title });
  byName("forward-title").textContent = `computation: ${model.forward.length} nodes`;
  byName("backward-title").textContent = `gradient: ${model.backward.length} nodes` + (model.differentiated ? "" : ", not computed yet");
  bar();
  followSize();
  isNarrow.addEventListener("change", () => { if (isNarrow.matches && state.view === "graph") ready = view("forward"); });
  await view(firstView());
  help();
  performance.mark("first-paint");
  window.wengertReady = true;
}

begin();
