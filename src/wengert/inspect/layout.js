// Where boxes go. Every open group is laid out by itself, as a small graph, and is then one box of the graph around it,
// so a change inside one group moves its surroundings and lays out nothing else again: the rest comes from the cache.
// This file runs in a worker, without a page: it knows sizes and edges, and nothing of what they mean.
"use strict";

const SPACE = { pad: 10, title: 25, rank: 22, node: 14, aspect: 0.9 };

// In: { items: [{ key, parent, width, height }], groups: [{ key, parent, title }], edges: [[from, to]], tallest, view,
// [columns] }.
// Out: { width, height, boxes: { key: [x, y] }, groups: { key: [x, y, width, height] }, edges: [{ from, to, points }],
// columns }.
// Boxes are given by their centres. `tallest` is how high a group may be before its chain goes on in other columns, so
// many as make it largest in a `view` of { width, height }; `columns` are the boxes that begin a column, by group. If they
// are given, chains are cut there and nowhere else: what is open already keeps its form while something else opens.
function layOut(request, cache = new Map()) {
  const levels = levelsOf(request);
  const placed = new Map();
  place("", levels, placed, cache, request);
  const at = absolute(levels, placed);
  const { width, height } = placed.get("");
  const edges = levels.get("").routes.map(({ from, to, parts }) => ({ from, to, points: route(parts, placed, at, levels) }));
  const columns = Object.fromEntries([...placed].map(([key, found]) => [key, found.columns]));
  return { width, height, boxes: at.boxes, groups: at.groups, edges, columns };
}

// --- levels: the content of each open group, with ports where edges enter and leave it ---

function levelsOf({ items, groups, edges }) {
  const levels = new Map([["", newLevel()]]), parents = new Map();
  for (const group of groups) { levels.set(group.key, newLevel(group.title)); parents.set(group.key, group.parent); }
  for (const group of groups) levels.get(group.parent).children.set(group.key, null);
  for (const item of items) {
    parents.set(item.key, item.parent);
    levels.get(item.parent).children.set(item.key, { width: item.width, height: item.height });
  }
  levels.get("").routes = edges.map(([from, to]) => ({ from, to, parts: partsOf(from, to, parents, levels) }));
  return levels;
}

const newLevel = (title = 0) => ({ title, children: new Map(), edges: new Map(), ports: new Map(), routes: [] });

// An edge goes up through the groups around its source, across their common surroundings, and down to its target.
function partsOf(from, to, parents, levels) {
  const around = (key) => {
    const found = [];
    for (let parent = parents.get(key); parent !== undefined; parent = parents.get(parent)) found.push(parent);
    return found;
  };
  const up = around(from), down = around(to), inside = new Set(down);
  const common = up.find((key) => inside.has(key));
  const parts = [], rest = [];
  let source = from, target = to;
  for (const key of up.slice(0, up.indexOf(common))) {
    parts.push(connect(levels, key, source, port(levels, key, "out", from)));
    source = key;
  }
  for (const key of down.slice(0, down.indexOf(common))) {
    rest.unshift(connect(levels, key, port(levels, key, "in", from), target));
    target = key;
  }
  return [...parts, connect(levels, common, source, target), ...rest];
}

function port(levels, key, side, from) {
  const name = `${side}:${from}`;
  levels.get(key).ports.set(name, side);
  return name;
}

function connect(levels, key, source, target) {
  const name = `${source}\t${target}`;
  levels.get(key).edges.set(name, [source, target]);
  return { level: key, source, target, name };
}

// --- one level ---

function place(key, levels, placed, cache, request) {
  const level = levels.get(key), sizes = new Map();
  for (const [child, size] of level.children) {
    if (size === null) place(child, levels, placed, cache, request);
    sizes.set(child, size ?? outside(placed.get(child), levels.get(child)));
  }
  const { tallest, view, columns } = request;
  placed.set(key, known(level, sizes, { tallest: tallest ?? Infinity, view, columns: columns?.[key] }, cache));
}

// The arrangement of a level, remembered by its form: twelve equal blocks, or a group opened again, are laid out once.
function known(level, sizes, wanted, cache) {
  const names = [...sizes.keys(), ...level.ports.keys()], numbers = new Map(names.map((name, i) => [name, String(i)]));
  const edges = [...level.edges.values()].map(([a, b]) => [numbers.get(a), numbers.get(b)]);
  const ports = [...level.ports].map(([name, side]) => [numbers.get(name), side]);
  const room = { ...wanted, columns: wanted.columns?.map((name) => numbers.get(name)).filter(Boolean) };
  const form = JSON.stringify([[...sizes.values()].map(({ width, height }) => [width, height]), ports, edges, room]);
  if (!cache.has(form)) {
    const plain = { edges: new Map(edges.map((edge, i) => [i, edge])), ports: new Map(ports) };
    cache.set(form, arrange(plain, new Map([...sizes].map(([name, size]) => [numbers.get(name), size])), room));
  }
  const { boxes, edges: lines, width, height, columns } = cache.get(form);
  return {
    width, height, columns: columns.map((number) => names[number]),
    boxes: new Map(names.map((name) => [name, boxes.get(numbers.get(name))])),
    edges: new Map([...level.edges.keys()].map((name, i) => [name, lines.get(i)])),
  };
}

// The size of an open group seen from outside: its content, a frame and a title.
function outside(content, level) {
  return { width: Math.max(content.width + 2 * SPACE.pad, level.title), height: content.height + SPACE.pad + SPACE.title };
}

// The parts of a level that hang together are laid out one by one, and then set in rows beside each other.
function arrange(level, sizes, room) {
  const parts = connected(level, sizes).map((part) => folded(layered(part, sizes), room, sizes));
  const area = parts.reduce((sum, part) => sum + (part.width + SPACE.node) * (part.height + SPACE.rank), 0);
  const widest = Math.max(...parts.map((part) => part.width), Math.sqrt(area * SPACE.aspect * 1.6));
  const all = { boxes: new Map(), edges: new Map(), width: 0, height: 0, columns: parts.flatMap((part) => part.columns ?? []) };
  let x = 0, y = 0, row = 0;
  for (const part of parts) {
    if (x > 0 && x + part.width > widest) { x = 0; y += row + SPACE.rank; row = 0; }
    for (const [key, [a, b]] of part.boxes) all.boxes.set(key, [a + x, b + y]);
    for (const [name, points] of part.edges) all.edges.set(name, points.map(([a, b]) => [a + x, b + y]));
    all.width = Math.max(all.width, x + part.width);
    row = Math.max(row, part.height);
    all.height = Math.max(all.height, y + row);
    x += part.width + SPACE.node;
  }
  atBorders(level, all);
  for (const [name, [source, target]] of level.edges) {
    if (!all.edges.has(name)) all.edges.set(name, straight(all, sizes, source, target));
  }
  return all;
}

// Sets of children that edges connect. A port joins nothing: it goes with the first part that it leads to.
function connected(level, sizes) {
  const parent = new Map([...sizes.keys()].map((key) => [key, key]));
  const root = (key) => {
    while (parent.get(key) !== key) { parent.set(key, parent.get(parent.get(key))); key = parent.get(key); }
    return key;
  };
  for (const [a, b] of level.edges.values()) if (parent.has(a) && parent.has(b)) parent.set(root(b), root(a));
  const parts = new Map();
  for (const key of sizes.keys()) {
    const top = root(key);
    if (!parts.has(top)) parts.set(top, { keys: [], edges: [], ports: new Map() });
    parts.get(top).keys.push(key);
  }
  const homes = new Map();
  for (const [name, [a, b]] of level.edges) {
    const inner = parent.has(a) ? a : b, outer = inner === a ? b : a;
    if (!parent.has(inner)) continue;
    const part = parts.get(root(inner));
    if (level.ports.has(outer)) {
      if (!homes.has(outer)) { homes.set(outer, part); part.ports.set(outer, level.ports.get(outer)); }
      if (homes.get(outer) !== part) continue;
    }
    part.edges.push([name, a, b]);
  }
  return [...parts.values()].sort((a, b) => b.keys.length - a.keys.length);
}

// One connected part in layers, by dagre. Ports are held at the top and at the bottom by edges that pull hard.
function layered(part, sizes) {
  if (part.keys.length === 1 && !part.edges.length) return single(part.keys[0], sizes);
  const graph = new dagre.graphlib.Graph().setGraph({ ranksep: SPACE.rank, nodesep: SPACE.node, edgesep: 12 });
  for (const key of part.keys) graph.setNode(key, { ...sizes.get(key) });
  for (const key of part.ports.keys()) graph.setNode(key, { width: 1, height: 0 });
  for (const [, a, b] of part.edges) graph.setEdge(a, b, { weight: 1 });
  const ends = [["in", "\ttop", (key) => graph.predecessors(key)], ["out", "\tbottom", (key) => graph.successors(key)]];
  for (const [side, end, beyond] of ends) {
    const ports = [...part.ports].filter(([, where]) => where === side).map(([key]) => key);
    if (!ports.length) continue;
    const loose = part.keys.filter((key) => !beyond(key).length);
    graph.setNode(end, { width: 0, height: 0 });
    const tie = (key, weight, minlen) => graph.setEdge(...(side === "in" ? [end, key] : [key, end]), { weight, minlen });
    ports.forEach((key) => tie(key, 40, 1));
    loose.forEach((key) => tie(key, 0, 2));
  }
  dagre.layout(graph);
  const boxes = new Map([...part.keys, ...part.ports.keys()].map((key) => [key, [graph.node(key).x, graph.node(key).y]]));
  const edges = new Map(part.edges.map(([name, a, b]) => [name, graph.edge(a, b).points.map(({ x, y }) => [x, y])]));
  return cropped(inOrder({ boxes, edges }, part.keys), part.keys, sizes);
}

// What comes first stands on the left: mirrored if the layers begin the other way around, as x2, x1.
function inOrder({ boxes, edges }, keys) {
  const top = Math.min(...keys.map((key) => boxes.get(key)[1])) + 1;
  const first = keys.filter((key) => boxes.get(key)[1] <= top).map((key) => boxes.get(key)[0]);
  const mean = (first.length - 1) / 2;
  if (first.reduce((sum, x, i) => sum + x * (i - mean), 0) >= 0) return { boxes, edges };
  const mirrored = ([x, y]) => [-x, y];
  return {
    boxes: new Map([...boxes].map(([key, point]) => [key, mirrored(point)])),
    edges: new Map([...edges].map(([name, points]) => [name, points.map(mirrored)])),
  };
}

function single(key, sizes) {
  const { width, height } = sizes.get(key);
  return { boxes: new Map([[key, [width / 2, height / 2]]]), edges: new Map(), width, height };
}

// Move a part to the origin; its height is that of its boxes, for ports stand on the border.
function cropped({ boxes, edges }, keys, sizes) {
  const sides = keys.map((key) => sidesOf(boxes.get(key), sizes.get(key)));
  const least = (values) => values.reduce((a, b) => Math.min(a, b)), most = (values) => values.reduce((a, b) => Math.max(a, b));
  const top = least(sides.map((box) => box.top)), bottom = most(sides.map((box) => box.bottom));
  const bends = [...edges.values()].flat().map(([x]) => x);
  const left = least([...bends, ...sides.map((box) => box.left)]), right = most([...bends, ...sides.map((box) => box.right)]);
  const moved = ([x, y]) => [x - left, Math.min(Math.max(y, top - 4), bottom + 4) - top];
  return {
    boxes: new Map([...boxes].map(([key, point]) => [key, moved(point)])),
    edges: new Map([...edges].map(([name, points]) => [name, points.map(moved)])),
    width: right - left, height: bottom - top,
  };
}

// Ports end on the border of their group.
function atBorders(level, all) {
  for (const [name, side] of level.ports) {
    const y = side === "in" ? -SPACE.title : all.height + SPACE.pad;
    const x = all.boxes.get(name)?.[0] ?? all.width / 2;
    all.boxes.set(name, [x, y]);
  }
  for (const [name, [source, target]] of level.edges) {
    const points = all.edges.get(name);
    if (!points) continue;
    if (level.ports.has(source)) points.splice(0, 1, all.boxes.get(source));
    if (level.ports.has(target)) points.splice(-1, 1, all.boxes.get(target));
  }
}

// An edge that dagre did not see: from a port that belongs to another part.
function straight(all, sizes, source, target) {
  const [ax, ay] = all.boxes.get(source), [bx, by] = all.boxes.get(target);
  return [[ax, ay + (sizes.get(source)?.height ?? 0) / 2], [bx, by - (sizes.get(target)?.height ?? 0) / 2]];
}

// --- from levels to the whole ---

function absolute(levels, placed) {
  const boxes = {}, groups = {}, origins = new Map();
  const visit = (key, left, top) => {
    const level = levels.get(key), found = placed.get(key);
    origins.set(key, [left, top]);
    for (const [child, size] of level.children) {
      const [x, y] = found.boxes.get(child), center = [x + left, y + top];
      if (size) { boxes[child] = center; continue; }
      const { width, height } = outside(placed.get(child), levels.get(child));
      groups[child] = [center[0] - width / 2, center[1] - height / 2, width, height];
      visit(child, center[0] - placed.get(child).width / 2, center[1] - height / 2 + SPACE.title);
    }
  };
  visit("", 0, 0);
  return { boxes, groups, origins };
}

// An edge through all its levels. At the frame of an open group its port takes the place of the point on the frame, and
// an edge of one layer goes there straight down and across, for dagre aimed at the middle of the group.
function route(parts, placed, at, levels) {
  const legs = parts.map(({ level, source, target, name }) => {
    const [left, top] = at.origins.get(level);
    const own = placed.get(level).edges.get(name).map(([x, y]) => [x + left, y + top]);
    const leaves = Boolean(at.groups[source]), enters = Boolean(at.groups[target]);
    if (!leaves && !enters) return { own };
    if (own.length > 3) return { own: own.slice(leaves ? 1 : 0, enters ? -1 : undefined) };
    const end = (key, side) => [at.boxes[key][0], at.boxes[key][1] + (side * levels.get(level).children.get(key).height) / 2];
    const known = (key, side, port) => (at.boxes[key] ? end(key, side) : port);
    return { own: [], from: leaves ? null : known(source, 1, own[0]), to: enters ? null : known(target, -1, own.at(-1)) };
  });
  return legs.flatMap(({ own, from, to }, i) => {
    if (from === undefined) return own;
    const before = legs[i - 1], after = legs[i + 1];
    const start = from ?? before.to ?? before.own.at(-1), finish = to ?? after.from ?? after.own[0];
    const middle = (start[1] + finish[1]) / 2;
    const bends = Math.abs(start[0] - finish[0]) > 1 ? [[start[0], middle], [finish[0], middle]] : [];
    return [...(from ? [from] : []), ...bends, ...(to ? [to] : [])];
  });
}

// --- the worker's side: requests come with a number and the name of what they are for ---

if (typeof WorkerGlobalScope !== "undefined") {
  const caches = new Map();
  self.onmessage = ({ data: { number, subject, request } }) => {
    if (!caches.has(subject)) caches.set(subject, new Map());
    try { self.postMessage({ number, found: layOut(request, caches.get(subject)) }); }
    catch (error) { self.postMessage({ number, error: String(error.stack ?? error) }); }
  };
}
