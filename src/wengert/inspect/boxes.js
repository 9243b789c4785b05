// What boxes of the computation and of its gradient say: lines, colours, and words for screen readers.
"use strict";

const SHORT = 16; // characters that fit into a box seen from afar

const order = [...model.forward, ...model.backward].filter((node) => !node.given && node.value);
const rank = new Map(order.map((node, i) => [node.id, i + 1]));
const state = { step: order.length, picked: null, view: "" };
const isLater = (node) => (node.given ? false : !rank.has(node.id) || rank.get(node.id) > state.step);
const outputs = new Set(model.outputs);

const adjointNode = (node) => nodes.get(node.adjoint?.node ?? node.cotangents?.[0]);
const adjointName = (node) => node.adjoint?.name ?? adjointNode(node)?.name;

// `7.39 | v̄3 1`: a number and its adjoint, each once it is computed.
function numbersOf(node) {
  const value = scalarOf(node);
  if (value === undefined || isLater(node)) return undefined;
  const holder = adjointNode(node);
  const adjoint = node.adjoint?.scalar ?? scalarOf(holder);
  return holder && adjoint !== undefined && !isLater(holder) ? `${value} | ${adjointName(node)} ${adjoint}` : value;
}

function nodeLines(node) {
  const first = node.given ? givenText(node) : `${node.name} = ${node.text}`;
  if (node.accumulates) return [first, `AccumulateGrad ${node.accumulates}`];
  return [first, numbersOf(node) ?? (scalarOf(node) === undefined ? shapeOf(node) : "not computed yet")];
}

const groupName = ({ label, about }) => (about.class && about.class !== label ? `${label} · ${about.class}` : label);

// What comes out of a group, where that is one number: a loss.
function resultOf({ about, nodes: inside }) {
  const last = inside.at(-1), isNumber = /^\w+\[\]$/.test([about.output].flat().join());
  return isNumber && last && scalarOf(last) !== undefined ? numbersOf(last) : undefined;
}

const outputOf = (about) => (about.output === undefined ? undefined : [about.output].flat().map(shapeText).join(", "));

// The parameters of a group and its time: `9,408 param.`, `9.41 k p · 310 µs`.
function costsOf({ parameters, seconds }) {
  const count = parameters > 0 ? `${countText(parameters)} ${seconds === undefined ? "param." : "p"}` : "";
  const costs = [count, seconds === undefined ? "" : timeText(seconds)].filter(Boolean);
  return costs.length ? [costs.join(" · ")] : [];
}

const computedIn = (group) => group.nodes.filter((node) => !node.given);
const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

function groupLines(group) {
  const output = resultOf(group) ?? outputOf(group.about) ?? counted(computedIn(group).length, "op");
  return [groupName(group), output, ...costsOf(group.about)];
}

const linesOf = (item) => (item.group ? groupLines(item.group) : nodeLines(item.node));

// The lines for which a box is laid out: a number has room for its adjoint and for other numbers, which it has later.
function roomOf(item) {
  const lines = linesOf(item);
  if (!item.node || scalarOf(item.node) === undefined) return lines;
  const holder = adjointNode(item.node);
  return [lines[0], "0".repeat(model.formulas ? 12 : 8) + (holder ? "0".repeat(12) : "")];
}

// Seen from afar a box says only what it is: a group its name and class, on one line if that is short.
function farOf({ group, node }) {
  if (!group && scalarOf(node) !== undefined) return nodeLines(node);
  if (!group) return [node.given ? node.label ?? node.name : node.op, nodeLines(node)[1]];
  const { label, about } = group, both = about.class && about.class !== label ? `${label} ${about.class}` : label;
  const names = both.length <= SHORT ? [both] : [label, about.class];
  return [...names, resultOf(group) ?? outputOf(about), ...costsOf(about)].filter(Boolean);
}

// What a box says besides when it is seen from near.
function moreOf(item) {
  if (item.group) {
    const { about } = item.group, computed = computedIn(item.group);
    const inputs = about.inputs?.length ? `in ${[about.inputs].flat().map(shapeText).join(", ")}` : "";
    const ops = [...new Set(computed.map((node) => node.op))].join(", ");
    return [inputs, `${counted(computed.length, "op")}: ${ops}`, about.line ?? ""].filter(Boolean);
  }
  const { node } = item, isKnown = node.value && !isLater(node);
  const holder = adjointNode(node);
  return [
    scalarOf(node) !== undefined ? node.type : isKnown && !node.value.parts ? `value ${brief(node.value)}` : "",
    isKnown && scalarOf(node) === undefined && node.value.mean !== undefined ? `mean ${node.value.mean}` : "",
    holder?.value && scalarOf(holder) === undefined && !isLater(holder) ? `${holder.name} ${brief(holder.value)}` : "",
    node.line ?? "", node.source ?? "",
  ].filter(Boolean);
}

function kindOfItem(item, isGradient) {
  const kind = item.group ? kindOfGroup(item.group) : kindOfNode(item.node);
  const isOutput = item.members.some((node) => outputs.has(node.id)), isSum = item.node?.role === "accumulation";
  const words = [kind, item.group && "group", isGradient && "gradient", isOutput && "output", isSum && "accumulation"];
  return words.filter(Boolean).join(" ");
}

function labelOf(item) {
  if (item.group) return `${groupLines(item.group).join(", ")}; a group of ${counted(item.members.length, "node")}, Enter opens it`;
  const { node } = item, value = scalarOf(node), adjoint = node.adjoint?.scalar ?? scalarOf(adjointNode(node));
  const numbers = [value !== undefined && `value ${value}`, adjoint !== undefined && `adjoint ${adjoint}`];
  return [equation(node), node.type, ...numbers, node.line].filter(Boolean).join(", ");
}
