// The panel beside the graphs: what is known of a node, in words and numbers.
"use strict";

const details = document.getElementById("details");
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const nodes = new Map([...model.forward, ...model.backward].map((node) => [node.id, node]));
const readers = new Map(model.forward.map((node) => [node.id, []]));
for (const node of model.forward) for (const id of node.sources) readers.get(id)?.push(node);
const linkTo = (id) => `<span class="link" data-go="${id}">${escaped(nodes.get(id).name)}</span>`;
// The second line of a box: the type, or the tensor whose gradient the value becomes.
const grown = (node) => (node.accumulates ? `AccumulateGrad ${node.accumulates}` : node.type);
const NOT_YET = '<span class="none">not computed yet</span>';

function summaryHtml(value) {
  if (value.parts) return value.parts.map(summaryHtml).join("<hr>");
  const rows = [];
  if (value.shown) rows.push(["value", value.shown.length === 1 ? value.shown[0] : `[${value.shown.join(", ")}]`]);
  if (value.min !== undefined && value.shown?.length !== 1) rows.push(["range", `${value.min} … ${value.max}`], ["mean", value.mean]);
  if (value.nan !== undefined) rows.push(["NaN", value.nan + (value.inf ? `, infinite ${value.inf}` : "")]);
  const table = `<table>${rows.map(([name, text]) => `<tr><td>${name}</td><td>${escaped(text)}</td></tr>`).join("")}</table>`;
  if (!value.histogram?.length) return table;
  const most = Math.max(...value.histogram);
  const bars = value.histogram.map((count) => `<i style="height:${(100 * count) / most}%" title="${count}"></i>`).join("");
  return `${table}<div class="histogram" title="from ${escaped(value.min)} to ${escaped(value.max)}">${bars}</div>`;
}

const brief = (value) => (!value || value.parts ? "" : value.shown?.length === 1 ? value.shown[0] : `${value.min} … ${value.max}`);

function derivativesHtml(node, isLater) {
  if (!node.derivatives) return node.given ? "" : `<h3>derivative</h3><p class="none">none: no gradient passes here</p>`;
  const rows = node.derivatives.map((d) => {
    const numbers = d.local && !isLater(node) ? brief(d.value) : "";
    const of = d.local ? `∂${escaped(node.name)}/∂${linkTo(d.of)}` : `ḡ to ${linkTo(d.of)}`;
    return `<tr><td>${of}</td><td><code>${escaped(d.symbols)}</code>${numbers ? ` = ${escaped(numbers)}` : ""}</td></tr>`;
  });
  return `<h3>local derivative</h3><table>${rows.join("")}</table>`;
}

// The sum over the readers of a node of their cotangent times their derivative by it.
function chainHtml(node, isLater) {
  const terms = [], numbers = [];
  for (const reader of readers.get(node.id) ?? []) for (const d of reader.derivatives ?? []) {
    const cotangent = nodes.get(reader.cotangents[0]);
    if (d.of !== node.id || !cotangent) continue;
    terms.push(d.local ? `${linkTo(cotangent.id)} · ∂${escaped(reader.name)}/∂${escaped(node.name)}` : escaped(d.symbols).replaceAll("ḡ", linkTo(cotangent.id)));
    if (d.local && cotangent.value?.shown?.length === 1 && d.value?.shown?.length === 1) numbers.push(`${cotangent.value.shown[0]} · ${d.value.shown[0]}`);
  }
  const gradient = nodes.get(node.cotangents?.[0]);
  if (!gradient) return "";
  const computed = gradient.value && !isLater(gradient);
  const known = computed && terms.length && numbers.length === terms.length ? `<br>= ${escaped(numbers.join(" + "))} = ${escaped(brief(gradient.value))}` : "";
  const product = terms.length ? terms.join(" + ") : "1, where the way back begins";
  return `<h3>gradient ${linkTo(gradient.id)}</h3><p>by the chain rule: ${product}${known}</p>` + (computed ? summaryHtml(gradient.value) : NOT_YET);
}

function nodeHtml(node, isLater) {
  const value = node.value && !isLater(node) ? summaryHtml(node.value) : NOT_YET;
  const rows = [["op", escaped(node.op)], ["type", escaped(node.type)]];
  if (node.sources.length) rows.push(["from", node.sources.map(linkTo).join(", ")]);
  if (node.module) rows.push(["module", escaped(node.module.join("."))]);
  for (const [name, text] of Object.entries(node.attrs ?? {})) rows.push([name, escaped(text)]);
  if (node.accumulates) rows.push(["AccumulateGrad", escaped(`${node.accumulates}.grad`)]);
  if (node.rule !== undefined) rows.push(["rule of", linkTo(node.rule)]);
  if (node.line) rows.push(["line", escaped(node.line)]);
  const source = node.source ? `<pre>${escaped(node.source)}</pre>` : "";
  const table = `<table>${rows.map(([name, text]) => `<tr><td>${name}</td><td>${text}</td></tr>`).join("")}</table>`;
  const isForward = node.cotangents !== undefined;
  return `<h2>${escaped(node.name)} = ${escaped(node.text)}</h2>${table}${source}<h3>value</h3>${value}`
    + (isForward ? derivativesHtml(node, isLater) + chainHtml(node, isLater) : "");
}

const HELP = `<h2>${escaped(model.title)}</h2>
<p>${model.forward.length} nodes, ${model.backward.length} of the gradient. Point at a node to see its gradient and its line light up; click to keep it.
Boxes with a dashed border are modules: click to open, click their frame to close.</p>
<table>
<tr><td><kbd>←</kbd> <kbd>→</kbd></td><td>step by step, one op at a time; <kbd>Home</kbd> <kbd>End</kbd></td></tr>
<tr><td><kbd>↑</kbd> <kbd>↓</kbd></td><td>the node before, the next</td></tr>
<tr><td><kbd>g</kbd></td><td>from a value to its gradient, and back</td></tr>
<tr><td><kbd>/</kbd></td><td>search; <kbd>Enter</kbd> goes through what is found</td></tr>
<tr><td><kbd>e</kbd> <kbd>c</kbd> <kbd>f</kbd></td><td>expand, collapse, fit</td></tr>
<tr><td><kbd>s</kbd> <kbd>a</kbd></td><td>save as SVG: what is shown; every step, in a ZIP file</td></tr>
<tr><td><kbd>d</kbd> <kbd>Esc</kbd></td><td>light or dark, let go</td></tr>
</table>` + (model.backward.length ? "" : `<p class="none">There is no gradient: nothing here requires one.</p>`)
  + (model.differentiated ? "" : `<p class="none">The gradients are not computed yet: call backward(retain_graph=True) first.</p>`);
