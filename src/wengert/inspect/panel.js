// The panel beside the graphs: what is known of a node or a group, in words and numbers.
"use strict";

const details = document.getElementById("details");
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ENTITIES[c]);
const nodes = new Map([...model.forward, ...model.backward].map((node) => [node.id, node]));
const link = (what, value, text) => `<button class="link" data-${what}="${escaped(value)}">${escaped(text)}</button>`;
const linkTo = (id, text = nodes.get(id)?.name) => (nodes.has(id) ? link("go", id, text) : escaped(text ?? ""));
const row = ([name, html]) => `<tr><td>${name}</td><td>${html}</td></tr>`;
const table = (rows) => `<table>${rows.filter(Boolean).map(row).join("")}</table>`;
const codeAt = (line, source) => (line ? `<p class="line">${escaped(line)}</p>` : "") + (source ? `<pre>${escaped(source)}</pre>` : "");
const NOT_YET = '<p class="none">not computed yet</p>';

// The number of a value of one element.
function scalarOf(thing) {
  if (!thing || thing.scalar !== undefined) return thing?.scalar;
  return thing.value?.shown?.length === 1 && /\[\]$/.test(thing.type ?? "[]") ? thing.value.shown[0] : undefined;
}

function summaryHtml(value) {
  if (value.parts) return value.parts.map(summaryHtml).join("<hr>");
  const isNumber = value.shown?.length === 1;
  const rows = [
    value.shown && ["value", isNumber ? escaped(value.shown[0]) : escaped(`[${value.shown.join(", ")}]`)],
    value.min !== undefined && !isNumber && ["range", `${escaped(value.min)} … ${escaped(value.max)}`],
    value.min !== undefined && !isNumber && ["mean", escaped(value.mean)],
    value.nan > 0 && ["NaN", `<b class="bad">${value.nan}</b>`],
    value.inf > 0 && ["infinite", `<b class="bad">${value.inf}</b>`],
  ];
  if (!value.histogram?.length || isNumber) return table(rows);
  const most = Math.max(...value.histogram);
  const bars = value.histogram.map((count) => `<i style="height:${(100 * count) / most}%" title="${count}"></i>`).join("");
  const ends = `<div class="ends"><span>${escaped(value.min)}</span><span>${escaped(value.max)}</span></div>`;
  const label = `histogram from ${escaped(value.min)} to ${escaped(value.max)}`;
  return `${table(rows)}<div class="histogram" role="img" aria-label="${label}">${bars}</div>${ends}`;
}

function brief(value) {
  if (!value || value.parts) return "";
  if (value.shown?.length === 1) return value.shown[0];
  if (value.min === undefined || value.min === value.max) return value.min ?? "";
  return `${value.min} … ${value.max}`;
}

// --- derivatives ---

function derivativesHtml(node, isLater) {
  if (!node.derivatives?.length) return node.given ? "" : `<h3>local derivative</h3><p class="none">none: no gradient passes here</p>`;
  const rows = node.derivatives.map((d) => {
    const numbers = d.local && !isLater(node) ? d.scalar ?? brief(d.value) : "";
    const of = d.local ? `∂${escaped(node.name)}/∂${linkTo(d.of)}` : `adjoint of ${linkTo(d.of)}`;
    return [of, `<code>${escaped(d.symbols)}</code>${numbers ? ` = <b>${escaped(numbers)}</b>` : ""}`];
  });
  return `<h3>local derivative</h3>${table(rows)}`;
}

// The adjoint of a value: the sum, over the ops that read it, of their adjoints times their derivatives.
function adjointHtml(node, isLater) {
  const { adjoint } = node;
  if (!adjoint) return "";
  const holder = nodes.get(adjoint.node ?? node.cotangents[0]), isKnown = holder && !isLater(holder);
  const same = adjoint.same_as ? ` = ${escaped(adjoint.same_as)}` : "";
  const head = `<h3>adjoint ${holder ? linkTo(holder.id, adjoint.name) : escaped(adjoint.name)}${same}</h3>`;
  const terms = adjoint.terms ?? [], isSum = terms.length > 1;
  const value = isKnown && holder.value ? summaryHtml(holder.value) : NOT_YET;
  if (!terms.length) return `${head}${adjoint.seed ? "<p>the seed of the backward pass: 1</p>" : ""}${value}`;
  const rows = terms.map((term) => [`${isSum ? "path through" : "from"} ${linkTo(term.reader)}`, termHtml(term, isKnown)]);
  if (!isSum) return `${head}${table(rows)}${value}`;
  const sum = isKnown && adjoint.sum ? `: <b>${escaped(adjoint.sum)}</b>` : "";
  return `${head}${table(rows)}<p class="sum">the sum over ${terms.length} paths${sum}</p>${sum ? "" : value}`;
}

// `v̄6 * ∂v6/∂v2 = -1 * 0.283662 = -0.283662`, and the derivative in symbols.
function termHtml({ text, symbols, numbers, scalar }, isKnown) {
  const known = isKnown && scalar !== undefined ? ` = ${numbers ? `${escaped(numbers)} = ` : ""}<b>${escaped(scalar)}</b>` : "";
  return `<code>${escaped(text)}</code>${known}${symbols && symbols !== text ? `<br><code>${escaped(symbols)}</code>` : ""}`;
}

// Of a node of the gradient: the adjoints that it is, and the path whose term it is where several are added.
const termsOf = new Map();
for (const node of model.forward) {
  const terms = node.adjoint?.terms ?? [];
  for (const term of terms.length > 1 ? terms : []) termsOf.set(term.node, [...(termsOf.get(term.node) ?? []), { node, term }]);
}

function roleHtml(node, isLater) {
  const adjoints = (node.adjoint_of ?? []).map((id) => adjointHtml(nodes.get(id), isLater));
  const terms = (termsOf.get(node.id) ?? []).map(({ node: at, term }) =>
    `<h3>a term of ${escaped(at.adjoint.name)}</h3>${table([[`path through ${linkTo(term.reader)}`, termHtml(term, !isLater(node))]])}`);
  return [...adjoints, ...terms].join("");
}

function accumulationHtml(node, isLater) {
  if (node.role !== "accumulation") return "";
  const at = nodes.get(node.at);
  const sum = !isLater(node) && at?.adjoint?.sum ? `<p class="sum">${escaped(node.name)} = <b>${escaped(at.adjoint.sum)}</b></p>` : "";
  return `<p>The accumulation at ${linkTo(node.at)}: the adjoint is the sum over the paths that lead from it.</p>${sum}`;
}

// --- a node, a group ---

const GIVEN_AS = { argument: "argument", parameter: "parameter", buffer: "buffer", constant: "constant" };
const givenText = ({ name, label }) => (label && label !== name ? `${name} = ${label}` : name);
const equation = (node) => (node.given ? `${givenText(node)} (${GIVEN_AS[node.role] ?? "input"})` : `${node.name} = ${node.text}`);

function nodeHtml(node, isLater) {
  const isForward = node.cotangents !== undefined;
  const adjoints = (node.adjoint_of ?? []).map((id) => linkTo(id));
  const rows = [
    !node.given && ["op", escaped(node.op)],
    ["type", escaped(node.type)],
    node.function && ["function", escaped(node.function)],
    node.sources.length > 0 && ["inputs", node.sources.map((id) => linkTo(id)).join(", ")],
    node.module && ["module", escaped(Array.isArray(node.module) ? node.module.join(".") : node.module)],
    ...Object.entries(node.attrs ?? {}).map(([name, text]) => [escaped(name), escaped(text)]),
    node.accumulates && ["AccumulateGrad", escaped(`${node.accumulates}.grad`)],
    adjoints.length > 0 && ["adjoint of", adjoints.join(", ")],
    !isForward && node.role === "seed" && ["role", "the seed, where the backward pass begins"],
    node.rule !== undefined && node.role !== "accumulation" && ["rule of", linkTo(node.rule)],
  ];
  const value = node.value && !isLater(node) ? summaryHtml(node.value) : NOT_YET;
  return `<h2>${escaped(equation(node))}</h2>${accumulationHtml(node, isLater)}${table(rows)}${codeAt(node.line, node.source)}<h3>value</h3>${value}`
    + (isForward ? derivativesHtml(node, isLater) + adjointHtml(node, isLater) : roleHtml(node, isLater));
}

// A number with the first unit that it reaches, to three figures: [[1e6, "MB"], ...].
function scaled(number, units) {
  const [size, unit] = units.find(([least]) => number >= least) ?? units.at(-1);
  return `${(number / size).toPrecision(3)} ${unit}`;
}

const countText = (count) => (count < 1e4 ? count.toLocaleString("en") : scaled(count, [[1e9, "G"], [1e6, "M"], [1e3, "k"]]));
const timeText = (seconds) => scaled(seconds, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]);
const bytesText = (bytes) => (bytes < 1e3 ? `${bytes} B` : scaled(bytes, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]));

function groupHtml(group) {
  const { about, label } = group;
  const computed = group.nodes.filter((node) => !node.given).length;
  const isGradient = about.of !== undefined;
  const other = [...calls.values()].find((call) => (isGradient ? call.id === about.of : call.of === about.id && call.side === "backward"));
  const rows = [
    about.class && ["class", escaped(about.class)],
    about.function && ["function", escaped(about.function)],
    about.module && ["module", escaped(Array.isArray(about.module) ? about.module.join(".") : about.module)],
    about.inputs?.length && ["input", [about.inputs].flat().map(escaped).join("<br>")],
    about.output && ["output", [about.output].flat().map(escaped).join("<br>")],
    about.parameters > 0 && ["parameters", about.parameters.toLocaleString("en")],
    about.seconds !== undefined && ["time", timeText(about.seconds)],
    ["ops", String(computed)],
    other && about.id !== undefined && [isGradient ? "gradient of" : "gradient", link("group", `g:${other.id}`, other.label)],
  ];
  const text = (node) => (nodes.has(node.id) ? equation(node) : nameOf(node));
  const first = group.nodes.slice(0, 60).map((node) => `<li>${linkTo(node.id, text(node))}</li>`);
  const rest = group.nodes.length > 60 ? `<li>and ${group.nodes.length - 60} more</li>` : "";
  return `<h2>${escaped(label)}</h2>${table(rows)}${codeAt(about.line, about.source)}<h3>inside</h3>
    <p><button data-toggle="${escaped(group.key)}">open or close</button></p><ul class="inside">${first.join("")}${rest}</ul>`;
}

// --- help ---

const shownTitle = model.title.replace(/\S*<locals>\./, ""); // of a function inside another its own name

const isNarrow = matchMedia("(max-width: 60rem)"), isTouched = matchMedia("(pointer: coarse)");
const isWithoutKeys = () => isTouched.matches || isNarrow.matches; // a phone
const keyed = (keys) => keys.split(" ").map((key) => `<kbd>${key}</kbd>`).join(" ");
const keysHtml = (rows) => (isWithoutKeys() ? "" : `<h3>keys</h3>${table(rows.map(([keys, text]) => [keyed(keys), text]))}`);

const swatch = (kind) => `<li><i class="swatch ${kind}"></i>${KIND_NAMES[kind]}</li>`;
const legendHtml = (kinds) => `<h3>colours</h3><ul class="legend">${kinds.map(swatch).join("")}</ul>`;

const TOUCH_HELP = `<p>Tap a box to see what is known of it. Tap it twice, or tap its +, to open a group; tap − to close it.
  Drag to move, pinch to zoom. ◀ ▶ step through the computation.</p>`;
const MOUSE_HELP = `<p>Hover over a node to highlight its gradient and source line; click to pin it. Double-click a group, or
  click its +, to open it. Scroll to zoom, drag to move: the nearer you are, the more a box says.</p>`;

const GRAPH_KEYS = [
  ["← →", "one op back, one op on"], ["⇧← ⇧→", "one box back, one box on"], ["Home End", "the beginning, the end"],
  ["↑ ↓", "the node before, the next one"], ["g", "from a value to its adjoint and back"], ["Enter ⇧Enter", "into a group, out of it"],
  ["/", "search"], ["e c f", "expand all, collapse, fit"], ["+ −", "zoom in, zoom out"],
  ["s p a", "save as SVG, as PNG, all steps as a ZIP"], ["d Esc", "toggle dark mode, clear the selection"],
];

function helpHtml(kinds) {
  const counts = `${model.forward.length} nodes` + (model.backward.length ? `, ${model.backward.length} more in the gradient` : "");
  const lacks = [
    !model.backward.length && "There is no gradient: nothing here requires one.",
    !model.differentiated && "The gradients are not computed yet: call backward(retain_graph=True) first.",
  ].filter(Boolean).map((text) => `<p class="none">${text}</p>`);
  return `<h2>${escaped(shownTitle)}</h2><p>${counts}.</p>${isWithoutKeys() ? TOUCH_HELP : MOUSE_HELP}${lacks.join("")}
    <div id="sliders"></div>${legendHtml(kinds)}${keysHtml(GRAPH_KEYS)}`;
}
