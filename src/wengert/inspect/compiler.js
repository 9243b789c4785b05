// The compiler's view: the graph after each pass by a slider; at the end its kernels as boxes, with their C or CUDA and times; memory.
"use strict";

function compilerView(compiler) {
  const all = new Map(compiler.nodes.map((node) => [node.id, node]));
  const kernelOf = new Map();
  compiler.kernels.forEach((kernel, i) => kernel.nodes.forEach((id) => kernelOf.has(id) || kernelOf.set(id, i)));
  const slider = document.getElementById("pass");
  slider.max = compiler.passes.length - 1;
  const isFused = () => +slider.value === compiler.passes.length - 1;
  const kernelName = (i) => `kernel ${i}: ${compiler.kernels[i].name}`;
  const pane = new Pane(document.getElementById("compiled"), {
    lines: (node) => [node.op, node.type],
    kind: (node) => ((node.sources.length ? "" : "given ") + (compiler.passes[+slider.value].added?.includes(node.id) ? "added" : "")),
    path: (node) => (!isFused() ? node.module : kernelOf.has(node.id) ? [kernelName(kernelOf.get(node.id))] : undefined),
    onPoint: () => {},
    onPick: (node) => { pane.mark({ picked: new Set([node.id]) }); showKernel(kernelOf.get(node.id), node); },
  });
  const numberOf = (key) => { const match = /^m:kernel (\d+):/.exec(key); return match ? +match[1] : undefined; };
  pane.onCluster = (key) => (numberOf(key) === undefined ? pane.toggle(key) : showKernel(numberOf(key)));
  pane.onGroup = (key) => showKernel(numberOf(key));

  function showKernel(i, node) {
    const head = node ? `<h2>${escaped(node.op)}</h2><p>${escaped(node.type)}</p>` : "";
    if (i === undefined) { details.innerHTML = head || HELP; return; }
    const kernel = compiler.kernels[i];
    const time = kernel.seconds === undefined ? "" : `<p>${(kernel.seconds * 1e3).toFixed(3)} ms in the profiled run</p>`;
    details.innerHTML = `${head}<h2>kernel ${i}</h2><p>${escaped(kernel.name)}</p>${time}<h3>${compiler.language}</h3><pre id="kernel-source">${escaped(kernel.source)}</pre>`;
    memory(i);
  }

  function show(number) {
    slider.value = number;
    const pass = compiler.passes[number];
    const changes = pass.added === undefined ? "" : ` — removed ${pass.removed}, put in ${pass.added.length}`;
    document.getElementById("pass-name").textContent = `${pass.name} (${number + 1} of ${compiler.passes.length}): ${pass.facts}${changes}`;
    pane.marks = {};
    pane.show(pass.nodes.map((id) => all.get(id)));
  }

  function memory(now) {
    const holder = d3.select("#memory"), moments = compiler.memory;
    holder.selectAll("*").remove();
    const most = d3.max(moments, (moment) => moment.live) || 1;
    const said = holder.append("div").text(`memory by step: arena ${compiler.arena}, ${moments.length} steps`);
    const svg = holder.append("svg").attr("viewBox", `0 0 ${Math.max(moments.length, 1)} 100`).attr("preserveAspectRatio", "none");
    svg.selectAll("rect").data(moments).join("rect").attr("x", (_, i) => i).attr("width", 0.9).attr("class", (_, i) => (i === now ? "now" : ""))
      .attr("y", (moment) => 100 - (100 * moment.live) / most).attr("height", (moment) => (100 * moment.live) / most)
      .on("mouseenter", (event, moment) => {
        const largest = moment.values[0] ? `; largest ${moment.values[0][1]}, ${moment.values[0][2]}` : "";
        said.text(`step ${moments.indexOf(moment)}: ${moment.live.toLocaleString("en")} bytes live${largest}`);
      })
      .on("click", (event, moment) => showKernel(moments.indexOf(moment)));
  }

  slider.addEventListener("input", () => show(+slider.value));
  return { pane, show, memory, count: compiler.passes.length, get number() { return +slider.value; } };
}
