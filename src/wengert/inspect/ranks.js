// The rank's view: the graph of one rank of a mesh, and a table of its collectives, with ranks, bytes and lines.
"use strict";

function ranksView(ranks) {
  const all = new Map(ranks.nodes.map((node) => [node.id, node]));
  const second = ({ collective, accumulates, type }) => {
    if (collective) return `${collective.size} over ${collective.group}`;
    return accumulates ? `AccumulateGrad ${accumulates}` : shapeText(type);
  };
  const lines = (item) => (item.group ? [item.group.label, `${item.members.length} nodes`] : [item.node.op, second(item.node)]);
  const isWire = (item) => item.members.some((node) => node.collective);
  const pane = new Pane(document.getElementById("ranked"), {
    pathOf: modulesAround, lines,
    kind: (item) => (isWire(item) ? "collective" : item.group ? kindOfGroup(item.group) : item.node.sources.length ? kindOfNode(item.node) : "given")
      + (item.group ? " group" : ""),
    label: (item) => lines(item).join(", "),
    onPick: (item) => { if (item.node) pick(item.node.id); else pane.mark({ picked: new Set([item.key]) }); },
  });
  const rows = ranks.collectives.map((id) => all.get(id));
  const holder = document.getElementById("collectives");
  let at = -1, isBegun = false;

  function nodeText(node) {
    const wire = node.collective;
    const found = [
      ["op", escaped(node.op)], ["type", escaped(node.type)],
      wire && ["group", escaped(wire.group)], wire && ["ranks", wire.ranks.join(", ")],
      wire && ["bytes", `${wire.size} (${wire.bytes.toLocaleString("en")}) from each rank`],
      node.accumulates && ["AccumulateGrad", escaped(`${node.accumulates}.grad`)],
      node.module && ["module", escaped(node.module.join("."))],
    ];
    return `<h2>${escaped(node.op)}</h2>${table(found)}${codeAt(node.line, node.source)}`;
  }

  async function pick(id, moves = false) {
    if (moves) await pane.reveal(id);
    pane.mark({ picked: new Set([id]) });
    details.innerHTML = nodeText(all.get(id));
  }

  async function show() {
    counter(`${Math.max(0, at + 1)} / ${rows.length}`);
    if (isBegun) { pane.resized(); return; }
    isBegun = true;
    const whose = ranks.schedule ? "all stages" : `rank ${ranks.rank} of ${ranks.size}`;
    document.getElementById("rank-title").textContent =
      `${whose}, ${ranks.mesh}: ${ranks.nodes.length} nodes, ${counted(rows.length, "collective")} of ${ranks.bytes}`;
    const head = "<tr><th>#</th><th>op</th><th>group</th><th>ranks</th><th>bytes</th><th>line</th></tr>";
    const body = rows.map(({ id, op, collective, line, source }, i) => {
      const where = [line, source].filter(Boolean).join(": ");
      const cells = [i, op, collective.group, collective.ranks.join(", "), collective.size, where];
      return `<tr data-id="${id}" tabindex="0">${cells.map((cell) => `<td>${escaped(cell)}</td>`).join("")}</tr>`;
    });
    const gathered = ranks.gathered.map((text) => `<p>gathered for ${escaped(text)}</p>`);
    const schedule = ranks.schedule ? `<p>schedule: a row per rank, a column per tick</p><pre>${escaped(ranks.schedule)}</pre>` : "";
    holder.innerHTML = `<table>${head}${body.join("")}</table>${gathered.join("")}${schedule}`;
    await pane.show(ranks.nodes);
  }

  // Go to the next collective, or to the one before.
  function step(by) {
    at = Math.max(0, Math.min(rows.length - 1, at + by));
    counter(`${at + 1} / ${rows.length}`);
    if (rows.length) ready = pick(rows[at].id, true);
  }

  const open = (event) => { const row = event.target.closest("tr[data-id]"); if (row) ready = pick(+row.dataset.id, true); };
  holder.addEventListener("click", open);
  holder.addEventListener("keydown", (event) => { if (event.key === "Enter") open(event); });
  return { pane, show, step };
}
