// The tree of groups over the nodes of a graph: calls of modules and functions, or kernels. It knows which of them are
// open, which boxes are to be seen therefore, and which edges run between those.
"use strict";

const FIRST_SIGHT = 80, ALL_AT_ONCE = 28, LONG_LEVEL = 150, CHUNK = 40;

class Group {
  constructor(key, label, about, parent) {
    Object.assign(this, { key, label, about, parent, children: [], nodes: [], depth: parent ? parent.depth + 1 : 0 });
    this.path = parent?.parent ? [...parent.path, label] : [label];
  }

  get groups() { return this.children.filter((child) => child instanceof Group); }

  get isLeaf() { return this.about.leaf ?? !this.groups.some((child) => child.about.kind === "module"); }
}

class Tree {
  // `pathOf(node)` are the groups around a node, outermost first: { key, label, ...about }.
  constructor(nodes, pathOf) {
    this.nodes = nodes;
    this.byId = new Map(nodes.map((node) => [node.id, node]));
    this.root = new Group("", "", {}, null);
    this.groups = new Map();
    this.around = new Map(); // the innermost group of each node
    for (const node of nodes) this.add(node, pathOf(node) ?? []);
    [this.root, ...this.groups.values()].forEach((group) => this.divide(group));
    this.open = new Set();
  }

  add(node, path) {
    let group = this.root;
    for (const { key, label, ...about } of path) {
      if (!this.groups.has(key)) {
        this.groups.set(key, new Group(key, label, about, group));
        group.children.push(this.groups.get(key));
      }
      group = this.groups.get(key);
      group.nodes.push(node);
    }
    group.children.push(node);
    this.around.set(node.id, group);
  }

  // A level of hundreds of boxes, such as an optimizer's, is cut into stretches, in the order of computing.
  divide(group) {
    if (group.children.length <= LONG_LEVEL) return;
    const children = group.children;
    group.children = [];
    for (let start = 0; start < children.length; start += CHUNK) {
      const some = children.slice(start, start + CHUNK), members = some.flatMap((child) => child.nodes ?? [child]);
      const label = `${nameOf(members[0])} … ${nameOf(members.at(-1))}`;
      const part = new Group(`${group.key}#${start}`, label, { kind: "part" }, group);
      Object.assign(part, { children: some, nodes: members });
      some.forEach((child) => (child instanceof Group ? (child.parent = part) : this.around.set(child.id, part)));
      this.groups.set(part.key, part);
      group.children.push(part);
    }
  }

  // --- what is open ---

  groupsAround(id) {
    const found = [];
    for (let group = this.around.get(id); group?.parent; group = group.parent) found.unshift(group);
    return found;
  }

  keyOf(id) {
    return this.groupsAround(id).find((group) => !this.open.has(group.key))?.key ?? `n:${id}`;
  }

  // A whole depth of modules is opened at a time, while the boxes can be taken in; small graphs are opened entirely.
  openAtFirst() {
    this.open = new Set();
    if (this.nodes.length <= ALL_AT_ONCE) return this.openAll();
    for (;;) {
      const visible = this.visible().items.filter((item) => item.group);
      const next = visible.filter(({ group }) => !group.isLeaf || this.visible().items.length === 1);
      if (!next.length) return;
      const depth = Math.min(...next.map(({ group }) => group.depth));
      const opened = next.filter(({ group }) => group.depth === depth).map(({ key }) => key);
      opened.forEach((key) => this.open.add(key));
      const count = this.visible().items.length;
      if (count > FIRST_SIGHT && visible.length > 1) { opened.forEach((key) => this.open.delete(key)); return; }
    }
  }

  openWhere(fits) { this.open = new Set([...this.groups.values()].filter(fits).map((group) => group.key)); }

  openAll() { this.open = new Set(this.groups.keys()); }

  closeAll() { this.open = new Set(); }

  // To open a group whose only content is another opens that too.
  expand(key) {
    const only = (group) => (group.children.length === 1 ? group.groups[0] : null);
    for (let group = this.groups.get(key); group; group = only(group)) this.open.add(group.key);
  }

  collapse(key) {
    const close = (group) => { this.open.delete(group.key); group.groups.forEach(close); };
    close(this.groups.get(key));
  }

  reveal(id) {
    const closed = this.groupsAround(id).filter((group) => !this.open.has(group.key));
    closed.forEach((group) => this.open.add(group.key));
    return closed.length > 0;
  }

  // --- what is to be seen ---

  visible() {
    const items = [], groups = [];
    const walk = (group) => {
      for (const child of group.children) {
        const parent = group.key;
        if (!(child instanceof Group)) items.push({ key: `n:${child.id}`, parent, node: child, members: [child] });
        else if (!this.open.has(child.key)) items.push({ key: child.key, parent, group: child, members: child.nodes });
        else { groups.push({ key: child.key, parent, group: child }); walk(child); }
      }
    };
    walk(this.root);
    return { items, groups };
  }

  // The edges between what is to be seen, each with the nodes whose values it carries.
  edges(items) {
    const keys = new Map(items.flatMap((item) => item.members.map((node) => [node.id, item.key])));
    const found = new Map();
    for (const node of this.nodes) for (const id of node.sources) {
      const from = keys.get(id), to = keys.get(node.id);
      if (from === undefined || from === to) continue;
      const name = `${from}\t${to}`;
      if (!found.has(name)) found.set(name, { from, to, carries: new Set() });
      found.get(name).carries.add(this.byId.get(id));
    }
    return [...found.values()];
  }
}

const nameOf = (node) => node.name ?? node.op;

// --- the groups around a node ---

const calls = new Map((model.groups ?? []).map((group) => [group.id, group]));

// By the calls of modules and functions that recorded it; of what was recorded before anything watched, by its module.
function callsAround(node) {
  if (node.group === undefined) return model.groups?.length ? [] : modulesAround(node);
  const found = [];
  for (let call = calls.get(node.group); call; call = calls.get(call.parent)) found.unshift({ ...call, key: `g:${call.id}` });
  return found;
}

function modulesAround(node) {
  return (node.module ?? []).map((label, i, path) => ({ key: `m:${path.slice(0, i + 1).join("/")}`, label, kind: "module" }));
}
