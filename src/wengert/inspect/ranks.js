// The rank's view: the graph of one rank of a mesh, and a table of its collectives, with ranks, bytes and lines.
"use strict";

function ranksView(ranks) {
  const all = new Map(ranks.nodes.map((node) => [node.id, node]));
  const pane = new Pane(document.getElementById("ranked"), {
    lines: (node) => [node.op, node.collective ? `${node.collective.size} over ${node.collective.group}` : grown(node)],
    kind: (node) => (node.collective ? "collective" : node.sources.length ? "" : "given"),
    path: (node) => node.module,
    onPoint: () => {},
    onPick: (node) => pick(node.id),
  });
  const rows = ranks.collectives.map((id) => all.get(id));
  let at = -1;
  const table = document.getElementById("collectives");

  function nodeText(node) {
    const found = [["op", node.op], ["type", node.type]];
    if (node.collective) found.push(["group", node.collective.group], ["ranks", node.collective.ranks.join(", ")], ["bytes", `${node.collective.size} (${node.collective.bytes.toLocaleString("en")}) of each rank`]);
    if (node.accumulates) found.push(["AccumulateGrad", `${node.accumulates}.grad`]);
    if (node.module) found.push(["module", node.module.join(".")]);
    if (node.line) found.push(["line", node.line]);
    const cells = found.map(([name, text]) => `<tr><td>${name}</td><td>${escaped(text)}</td></tr>`).join("");
    return `<h2>${escaped(node.op)}</h2><table>${cells}</table>` + (node.source ? `<pre>${escaped(node.source)}</pre>` : "");
  }

  function pick(id, moves = false) {
    if (moves) pane.reveal(id);
    pane.mark({ picked: new Set([id]) });
    details.innerHTML = nodeText(all.get(id));
  }

  function show() {
    const count = rows.length;
    document.getElementById("rank-title").textContent =
      `rank ${ranks.rank} of ${ranks.size}, ${ranks.mesh}: ${ranks.nodes.length} nodes, ${count} collective${count === 1 ? "" : "s"} of ${ranks.bytes}`;
    const head = "<tr><th>#</th><th>op</th><th>group</th><th>ranks</th><th>bytes</th><th>line</th></tr>";
    const lines = rows.map((node, i) => `<tr data-id="${node.id}"><td>${i}</td><td>${escaped(node.op)}</td><td>${escaped(node.collective.group)}</td>`
      + `<td>${node.collective.ranks.join(", ")}</td><td>${node.collective.size}</td><td>${escaped([node.line, node.source].filter(Boolean).join(": "))}</td></tr>`);
    const gathered = ranks.gathered.map((text) => `<p>gathered for ${escaped(text)}</p>`);
    table.innerHTML = `<table>${head}${lines.join("")}</table>${gathered.join("")}`;
    pane.show(ranks.nodes);
  }

  // Go to the next collective, or the one before.
  function step(by) {
    at = Math.max(0, Math.min(rows.length - 1, at + by));
    if (rows.length) pick(rows[at].id, true);
  }

  table.addEventListener("click", (event) => { const row = event.target.closest("tr[data-id]"); if (row) pick(+row.dataset.id, true); });
  return { pane, show, step };
}
