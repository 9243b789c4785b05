// The compiler's view: the graph after each pass by a slider; at the end its kernels as boxes, with their C or CUDA and
// times; and the memory by step.
"use strict";

const KEYS_OF_PASSES = [
  ["← →", "the pass before, the next pass"], ["Home End", "as recorded, as fused"], ["Enter ⇧Enter", "into a group, out of it"],
  ["e c f", "expand all, collapse, fit"], ["s p a", "save as SVG, as PNG, all passes as a ZIP"], ["d", "toggle dark mode"],
];

const MANY_KERNELS = 60;

function compilerView(compiler) {
  const all = new Map(compiler.nodes.map((node) => [node.id, node]));
  const kernelOf = new Map();
  compiler.kernels.forEach((kernel, i) => kernel.nodes.forEach((id) => kernelOf.has(id) || kernelOf.set(id, i)));
  const slider = document.getElementById("pass");
  slider.max = compiler.passes.length - 1;
  let shownPass = -1, chosen;
  const isFused = (number = +slider.value) => number === compiler.passes.length - 1;
  const added = () => new Set(compiler.passes[+slider.value].added);
  let fresh = new Set();
  const numberOf = (item) => (item.group ? item.group.about.kernel : kernelOf.get(item.node.id));
  const stepName = (i) => `${i}: ${compiler.kernels[i].symbol}`; // the function of the C or CUDA; equal kernels share one
  const givenName = (node) => node.name ?? node.label ?? node.op;
  const isGiven = (node) => node.given ?? !node.sources.length;

  // The kernels of a large program come in stretches of steps; inputs and views with the first step that reads them.
  const readers = new Map(), count = compiler.kernels.length, length = Math.max(20, Math.ceil(count / 16));
  for (const id of [...compiler.passes.at(-1).nodes].reverse()) {
    const step = kernelOf.get(id) ?? readers.get(id);
    if (step !== undefined) for (const source of all.get(id).sources) readers.set(source, Math.min(step, readers.get(source) ?? step));
  }

  function stretch(i) {
    if (count <= MANY_KERNELS || i === undefined) return [];
    const first = Math.floor(i / length) * length, last = Math.min(first + length, count) - 1;
    const seconds = d3.sum(compiler.kernels.slice(first, last + 1), (kernel) => kernel.seconds) || undefined;
    return [{ key: `s:${first}`, label: `steps ${first} … ${last}`, kind: "steps", leaf: true, first, last, seconds,
      modules: modulesFrom(first, last) }];
  }

  // `GPT.transformer.h.3 … h.5`: where the values of a stretch come from.
  function modulesFrom(first, last) {
    const names = compiler.kernels.slice(first, last + 1).map((kernel) => kernel.module).filter(Boolean);
    if (!names.length) return "outside of modules";
    const paths = [names[0], names.at(-1)].map((name) => name.split("."));
    const shared = paths[0].findIndex((part, k) => part !== paths[1][k]);
    return shared < 0 ? names[0] : `${names[0]} … ${paths[1].slice(shared).join(".")}`;
  }

  const pane = new Pane(document.getElementById("compiled"), {
    pathOf: (node) => {
      if (!isFused()) return modulesAround(node);
      const i = kernelOf.get(node.id);
      if (i === undefined) return stretch(readers.get(node.id));
      const { name, seconds } = compiler.kernels[i];
      const own = { key: `k:${i}`, label: stepName(i), kind: "kernel", leaf: true, kernel: i, function: name, name, seconds };
      return [...stretch(i), own];
    },
    lines: textOf,
    title: (group) => (group.about.name ? `${group.label}: ${group.about.name}` : group.label),
    kind: (item) => {
      const kind = item.group ? kindOfGroup(item.group) : isGiven(item.node) ? "given" : kindOfNode(item.node);
      return [kind, item.group && "group", item.members.some((node) => fresh.has(node.id)) && "added"].filter(Boolean).join(" ");
    },
    label: (item) => textOf(item).join(", "),
    onPick: (item) => {
      pane.mark({ picked: new Set([item.key]) });
      if (item.group?.about.kind === "steps") tellSteps(item.group);
      else choose(numberOf(item), item.node);
    },
  });

  const nodeName = (node) => (isGiven(node) ? givenName(node) : node.op);

  function textOf({ group, node }) {
    return group ? groupText(group) : [nodeName(node), shapeOf(node)];
  }

  function groupText({ label, about, nodes }) {
    const time = about.seconds === undefined ? [] : [timeText(about.seconds)];
    if (about.kind === "steps") return [label, about.modules, ...time];
    if (about.kind !== "kernel") return [label, `${nodes.length} nodes`];
    return [label, about.name, ...time];
  }

  // --- the panel ---

  function tellPass() {
    const pass = compiler.passes[+slider.value];
    const number = `${+slider.value + 1} of ${compiler.passes.length}`;
    const rows = [["pass", `${number}: ${escaped(pass.name)}`], ["graph", escaped(pass.facts)], ["change", escaped(pass.change)]];
    const last = `Each box is a step of the program, named after its kernel; click it to read its ${escaped(compiler.language)}.
      Open it to see the values it computes.`;
    details.innerHTML = `<h2>what the compiler did</h2>${table(rows)}<p>The slider goes from the graph as it was recorded, over
      each pass, to the kernels. Nodes that a pass added have a green frame.
      ${isFused() ? last : "At the end, the boxes are kernels."}
      Below is the memory in use at each step of the program.</p>${keysHtml(KEYS_OF_PASSES)}`;
  }

  function tellSteps({ label, about: { first, last, modules, seconds } }) {
    const rows = [["from", escaped(modules)], seconds !== undefined && ["time", timeText(seconds)]];
    const kernels = d3.range(first, last + 1).map((i) => `<li>${link("kernel", i, stepName(i))} ${escaped(compiler.kernels[i].name)}</li>`);
    details.innerHTML = `<h2>${escaped(label)}</h2>${table(rows)}<ul class="inside">${kernels.join("")}</ul>`;
  }

  // Show a kernel where it is, in a stretch of steps that may be closed.
  async function pickKernel(i) {
    const key = `k:${i}`, around = pane.tree.groups.get(key)?.parent;
    if (around?.parent && !pane.tree.open.has(around.key)) await pane.expand(around.key);
    pane.mark({ picked: new Set([key]) });
    pane.bringIntoView(key);
    choose(i);
  }

  function choose(i, node) {
    chosen = i;
    const head = node ? `<h2>${escaped(nodeName(node))}</h2><p>${escaped(node.type)}</p>` : "";
    memory();
    if (i === undefined) { if (head) details.innerHTML = head; else tellPass(); return; }
    const kernel = compiler.kernels[i], moment = compiler.memory[i];
    const rows = [["step", `${i} of the program, of ${compiler.kernels.length}`], ["computes", escaped(kernel.name)],
      kernel.function && ["function", escaped(kernel.function)], kernel.module && ["module", escaped(kernel.module)],
      kernel.seconds !== undefined && ["time", `${timeText(kernel.seconds)} in the profiled run`],
      moment && ["memory", `${bytesText(moment.live)} in use at this step`]];
    const source = `<h3>${compiler.language}</h3><pre id="kernel-source">${escaped(kernel.source)}</pre>`;
    details.innerHTML = `${head}<h2>${escaped(kernel.symbol)}</h2>${table(rows)}${codeAt(kernel.line, kernel.code)}${source}`;
  }

  // --- the passes ---

  async function show(number) {
    const wasFused = shownPass >= 0 && isFused(shownPass), isFirst = shownPass < 0;
    slider.value = number;
    const pass = compiler.passes[number];
    fresh = added();
    document.getElementById("pass-name").textContent = `${pass.name}: ${pass.facts}`;
    counter(`pass ${number + 1} / ${compiler.passes.length}`);
    if (number !== shownPass) {
      shownPass = number;
      chosen = undefined;
      pane.marks = {};
      await pane.show(pass.nodes.map((id) => all.get(id)), { keeps: !isFirst && wasFused === isFused() });
    }
    memory();
    tellPass();
  }

  const go = (number) => (ready = show(Math.max(0, Math.min(compiler.passes.length - 1, number))));

  async function begin() {
    if (shownPass < 0) return show(compiler.passes.length - 1);
    pane.resized();
    return show(shownPass);
  }

  // --- memory: bars by step, with an axis ---

  function memory() {
    const holder = d3.select("#memory"), moments = compiler.memory;
    holder.selectAll("*").remove();
    const most = d3.max(moments, (moment) => moment.live) || 1;
    const peak = moments.findIndex((moment) => moment.live === most);
    const said = holder.append("p").attr("role", "status");
    const tell = (i) => {
      if (i === undefined) {
        said.text(`memory by step: at most ${bytesText(most)}, at step ${peak}; arena ${compiler.arena}; ${moments.length} steps`);
        return;
      }
      const largest = moments[i].values[0] ? `; largest: ${moments[i].values[0][1]}, ${moments[i].values[0][2]}` : "";
      said.text(`step ${i}: ${bytesText(moments[i].live)} in use${largest}`);
    };
    const width = holder.node().clientWidth - 20 || 600, height = 92, left = 62, bottom = 20, top = 6;
    const svg = holder.append("svg").attr("width", width).attr("height", height).attr("role", "img").attr("aria-label", said.text());
    const x = d3.scaleLinear([0, Math.max(1, moments.length)], [left, width - 4]);
    const y = d3.scaleLinear([0, most], [height - bottom, top]);
    const ticks = y.ticks(2).filter((tick) => tick > 0);
    svg.append("g").attr("class", "axis").selectAll("g").data([0, ...ticks]).join("g").attr("transform", (tick) => `translate(0,${y(tick)})`)
      .call((g) => g.append("line").attr("x1", left).attr("x2", width - 4))
      .call((g) => g.append("text").attr("x", left - 5).attr("y", 4).attr("text-anchor", "end").text(bytesText));
    const every = Math.max(1, Math.ceil(moments.length / Math.max(2, Math.floor(width / 70))));
    svg.append("g").attr("class", "axis").selectAll("text").data(d3.range(0, moments.length, every)).join("text")
      .attr("x", (i) => x(i + 0.5)).attr("y", height - 5).attr("text-anchor", "middle").text((i) => (i ? i : "step 0"));
    svg.append("g").selectAll("rect").data(moments).join("rect")
      .attr("x", (_, i) => x(i)).attr("width", Math.max(1, x(1) - x(0) - 1))
      .attr("y", (moment) => y(moment.live)).attr("height", (moment) => y(0) - y(moment.live))
      .attr("class", (_, i) => (i === chosen ? "now" : ""))
      .on("mouseenter", (event, moment) => tell(moments.indexOf(moment))).on("mouseleave", () => tell(chosen))
      .on("click", (event, moment) => {
        const i = moments.indexOf(moment);
        if (isFused()) ready = pickKernel(i); else choose(i);
      });
    tell(chosen);
  }

  slider.addEventListener("input", () => go(+slider.value));
  return { pane, begin, show, go, memory, pickKernel, count: compiler.passes.length, get number() { return +slider.value; } };
}
