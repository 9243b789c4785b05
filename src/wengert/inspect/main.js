// The page: two graphs side by side, what lights up with what, steps, search, keys.
"use strict";

const byName = (id) => document.getElementById(id);
const order = [...model.forward, ...model.backward].filter((node) => !node.given && node.value);
const rank = new Map(order.map((node, i) => [node.id, i + 1]));
const state = { step: order.length, picked: null, hits: [], hit: -1, view: "graph" };
const isLater = (node) => (node.given ? false : !rank.has(node.id) || rank.get(node.id) > state.step);
const isOutput = new Set(model.outputs);

const reactions = { onPoint: (item) => point(item), onPick: (node) => pick(node.id, true) };
const lines = (node) => [node.given ? node.name : `${node.name} = ${node.text}`, grown(node)];
const path = (node) => node.module;
const forward = new Pane(byName("forward"), { lines, path, ...reactions, kind: (node) => (node.given ? "given" : "") + (isOutput.has(node.id) ? " output" : "") });
const backward = new Pane(byName("backward"), { lines, path, ...reactions, kind: () => "gradient" });
const panes = [forward, backward];
const paneOf = (id) => (forward.byId.has(id) ? forward : backward);
let compiler = null, ranks = null;

// --- what belongs together ---

function related(node) {
  if (node.cotangents) return [...node.cotangents, ...model.backward.filter((each) => each.rule === node.id).map((each) => each.id)];
  const values = model.forward.filter((each) => each.cotangents.includes(node.id)).map((each) => each.id);
  return node.rule === undefined ? values : [node.rule, ...values];
}

function light(items) {
  const lit = new Set(items.flatMap(related));
  panes.forEach((pane) => pane.mark({ lit }));
}

function point(item) {
  const kept = nodes.get(state.picked);
  light(item ? item.members : kept ? [kept] : []);
  if (item?.node) details.innerHTML = nodeHtml(item.node, isLater);
  else details.innerHTML = kept ? nodeHtml(kept, isLater) : HELP;
}

function pick(id, isClicked = false) {
  state.picked = id;
  const picked = new Set(id === null ? [] : [id]);
  if (id !== null && !isClicked) paneOf(id).reveal(id);
  panes.forEach((pane) => pane.mark({ picked }));
  point(null);
}

details.addEventListener("click", (event) => { const id = event.target.dataset?.go; if (id !== undefined) pick(+id); });

// --- steps ---

function go(step) {
  state.step = Math.max(0, Math.min(order.length, step));
  byName("step").textContent = `${state.step} / ${order.length}`;
  panes.forEach((pane) => pane.mark({ later: isLater }));
  const node = state.step < order.length || state.picked !== null ? order[state.step - 1] : null;
  if (node && state.step < order.length) pick(node.id);
  else point(null);
}

// --- search ---

function search(words) {
  const wanted = words.trim().toLowerCase();
  const text = (node) => [node.name, node.text, node.op, node.type, node.line, node.source, (node.module ?? []).join(".")].join(" ").toLowerCase();
  state.hits = wanted ? [...nodes.values()].filter((node) => text(node).includes(wanted)).map((node) => node.id) : [];
  state.hit = -1;
  byName("found").textContent = wanted ? `${state.hits.length} found` : "";
  panes.forEach((pane) => pane.mark({ found: new Set(state.hits) }));
}

function nextHit() {
  if (!state.hits.length) return;
  state.hit = (state.hit + 1) % state.hits.length;
  pick(state.hits[state.hit]);
}

// --- views, theme ---

function view(name) {
  state.view = name;
  byName("forward-pane").hidden = byName("backward-pane").hidden = name !== "graph";
  byName("compiler-pane").hidden = name !== "compiler";
  byName("ranks-pane").hidden = name !== "rank";
  document.querySelectorAll("#views button").forEach((button) => button.setAttribute("aria-selected", button.dataset.view === name));
  if (name === "compiler") { compiler ??= compilerView(model.compiler); compiler.memory(); compiler.show(compiler.number); details.innerHTML = HELP; }
  else if (name === "rank") { ranks ??= ranksView(model.ranks); ranks.show(); details.innerHTML = HELP; }
  else panes.forEach((pane) => pane.fit());
}

const shownPanes = () => (state.view === "compiler" ? [compiler.pane] : state.view === "rank" ? [ranks.pane] : panes);

function theme(name) {
  document.documentElement.dataset.theme = name;
}

function fold(isOpen) {
  for (const pane of shownPanes()) { pane.open = isOpen ? pane.allGroups() : new Set(); pane.layout(); }
}

// --- keys ---

function neighbour(by) {
  const all = [...nodes.keys()], place = all.indexOf(state.picked);
  pick(all[(place + by + all.length) % all.length]);
}

function toGradient() {
  const node = nodes.get(state.picked);
  const other = node && related(node)[0];
  if (other !== undefined) pick(other);
}

function stepBy(by) {
  if (state.view === "compiler") compiler.show(Math.max(0, Math.min(compiler.count - 1, compiler.number + by)));
  else if (state.view === "rank") ranks.step(by);
  else go(state.step + by);
}

const KEYS = {
  ArrowRight: () => stepBy(1), ArrowLeft: () => stepBy(-1), Home: () => go(0), End: () => go(order.length),
  ArrowDown: () => neighbour(1), ArrowUp: () => neighbour(-1), g: toGradient, e: () => fold(true), c: () => fold(false),
  f: () => shownPanes().forEach((pane) => pane.fit()), s: save, a: saveSteps, Escape: () => pick(null),
  d: () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"), "/": () => byName("search").focus(),
};

document.addEventListener("keydown", (event) => {
  if (event.target.tagName === "INPUT") {
    if (event.key === "Enter") nextHit();
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (KEYS[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) { KEYS[event.key](); event.preventDefault(); }
});

// --- the beginning ---

function begin() {
  theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  byName("title").textContent = model.title;
  byName("forward-title").textContent = `computation: ${model.forward.length} nodes`;
  byName("backward-title").textContent = `gradient: ${model.backward.length} nodes` + (model.differentiated ? "" : ", not computed yet");
  const views = ["graph", ...(model.ranks ? ["rank"] : []), ...(model.compiler ? ["compiler"] : [])];
  for (const name of views.length > 1 ? views : []) {
    const button = document.createElement("button");
    Object.assign(button, { textContent: name, onclick: () => view(name) });
    button.dataset.view = name;
    byName("views").append(button);
  }
  const clicks = { first: KEYS.Home, back: KEYS.ArrowLeft, next: KEYS.ArrowRight, last: KEYS.End, expand: KEYS.e, collapse: KEYS.c, fit: KEYS.f, save, all: saveSteps, theme: KEYS.d };
  for (const [id, action] of Object.entries(clicks)) byName(id).addEventListener("click", action);
  byName("search").addEventListener("input", (event) => search(event.target.value));
  if (!model.backward.length) byName("backward-pane").hidden = true;
  forward.show(model.forward);
  backward.show(model.backward);
  go(order.length);
  window.wengertReady = true;
}

begin();
