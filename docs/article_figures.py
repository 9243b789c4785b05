"""The pictures of `article.md`, drawn from its own programs and from stored measurements.

In: the names that the page's examples have defined. Out: SVG by file name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import article_tools as tools
from drawing import BLUE, GREEN, GRID, INK, ORANGE, PURPLE, RED, Canvas, bars, curves

from wengert.core.graph import Graph, Node
from wengert.runtime.debug.explain import bytes_text

NAMES = {"wengert": "Wengert", "compile": "torch.compile", "eager": "torch eager", "jax": "JAX jit"}
COLOURS = {"Wengert": GREEN, "torch.compile": BLUE, "torch eager": PURPLE, "JAX jit": ORANGE}


def figures(scope: Mapping[str, Any]) -> dict[str, str]:
    """All pictures by the name of their file."""
    drawn = {
        "closures": closures(scope["loss"]),
        "products": products(),
        "graphs": graphs(scope["value"].graph(), scope["gradient"].graph()),
        "modes": modes(),
        "dynamic": dynamic(),
        "fusion": fusion(scope["chain"]),
        "arena": arena(scope["compiled"]._newest("docs").program.plan),
        "tiles": tiles(),
        "ladder": ladder(),
        "epilogue": epilogue(128, 512),
        "host": host(),
        "rows": rows(),
        "manual": manual(),
    }
    return {f"article-{name}.svg": text for name, text in drawn.items()}


# --- graphs ---------------------------------------------------------------------------------------------------------


def closures(loss: Any) -> str:
    """The tensors behind the loss, and the order in which backward calls their closures."""
    order: list[Any] = []

    def visit(tensor: Any) -> None:
        if tensor not in order:
            for parent in tensor.parents:
                visit(parent)
            order.append(tensor)

    visit(loss)
    names = ["x", "w", "x @ w", "tanh", "sum"]
    canvas = Canvas(760, 190, "the tensors of a loss, and the order of its backward pass")
    places = {0: (20, 22), 1: (20, 112), 2: (190, 67), 3: (380, 67), 4: (570, 67)}
    for number, tensor in enumerate(order):
        x, y = places[number]
        shape = f"{len(tensor.rows)} x {len(tensor.rows[0])}"
        canvas.box(x, y, 120, 46, [names[number], shape], BLUE if tensor.parents else GREEN)
        for parent in tensor.parents:
            px, py = places[order.index(parent)]
            canvas.arrow((px + 122, py + 19), (x - 2, y + 16))
            canvas.arrow((x - 2, y + 32), (px + 122, py + 31), ORANGE)
        if tensor.parents:
            called = len(order) - number
            canvas.text(
                x + 60, y + 64, f"pull_back, called {('first', 'second', 'third')[called - 1]}", "middle", ORANGE, 11
            )
    canvas.text(570, 180, "values", colour=INK, size=11)
    canvas.text(620, 180, "gradients", colour=ORANGE, size=11)
    return canvas.svg()


def graphs(forward: Graph, backward: Graph) -> str:
    """Two graphs from top to bottom, each node below its sources."""
    sides = [(forward, "f", 20), (backward, "the gradient of f with respect to w", 300)]
    layers = [_layers(graph) for graph, _, _ in sides]
    wide = 320 + 124 * max(map(len, layers[1]))
    canvas = Canvas(wide, 46 + 56 * max(map(len, layers)), "a graph and the graph of its gradient")
    for (graph, title, left), levels in zip(sides, layers):
        canvas.text(left, 16, title, bold=True)
        places: dict[Node, tuple[float, float]] = {}
        for depth, level in enumerate(levels):
            for place, node in enumerate(level):
                places[node] = left + 124 * place, 34 + 56 * depth
        for node, (x, y) in places.items():
            for source in node.sources:
                if source in places:
                    sx, sy = places[source]
                    canvas.arrow((sx + 57, sy + 37), (x + 57, y - 1), GRID[:7] + "90")
        for node, (x, y) in places.items():
            colour = GREEN if node in graph.inputs else ORANGE if node in graph.outputs else BLUE
            name = f"x{graph.inputs.index(node)}" if node in graph.inputs else node.op.name
            canvas.box(x, y, 114, 36, [name, str(list(node.shape))], colour)
    return canvas.svg()


def _layers(graph: Graph) -> list[list[Node]]:
    """The nodes by their longest way from an input; inputs and constants stand just above their first readers."""
    depth: dict[Node, int] = {}
    for node in (*graph.inputs, *graph.nodes):
        depth[node] = max((depth.get(source, 0) + 1 for source in node.sources), default=0)
    for node in reversed(list(depth)):
        readers = [depth[reader] for reader in depth if node in reader.sources]
        if not node.sources and readers:
            depth[node] = min(readers) - 1
    return [[node for node in depth if depth[node] == level] for level in range(max(depth.values()) + 1)]


def arena(plan: Any) -> str:
    """The values of a plan as rectangles: steps from left to right, addresses from bottom to top."""
    kept = [value for value in plan.lives if value in plan.arena.offsets]
    steps, size = len(plan.steps), plan.arena.size
    left, top, width, height = 64, 14, 660, 300
    canvas = Canvas(760, 366, "the memory of a training step")
    for share in (0, 0.25, 0.5, 0.75, 1):
        y = top + height * (1 - share)
        canvas.line([(left, y), (left + width, y)], GRID, 1)
        canvas.text(left - 8, y + 4, bytes_text(round(size * share)), "end", size=11)
    is_backward = [any(str(value.location).startswith("Backward") for value in step.writes) for step in plan.steps]
    for value in kept:
        life, offset, held = plan.lives[value], plan.arena.offsets[value], plan.sizes[value]
        x, across = left + life.first / steps * width, (life.last - life.first + 1) / steps * width
        y, tall = top + (1 - (offset + held) / size) * height, held / size * height
        colour = ORANGE if is_backward[life.first] else BLUE
        canvas.rect(x + 1, y + 0.5, across - 2, tall - 1, colour, 0.3)
        if tall > 14 and across > 45:
            canvas.text(x + 6, y + tall / 2 + 4, bytes_text(held), size=11)
    for number in range(steps):
        canvas.text(left + (number + 0.5) / steps * width, top + height + 16, f"{number}", "middle", size=11)
    canvas.text(left + width, top + height + 34, "step", "end", size=11)
    canvas.rect(left, top + height + 26, 10, 10, BLUE, 0.3)
    canvas.text(left + 15, top + height + 35, "forward", size=11)
    canvas.rect(left + 80, top + height + 26, 10, 10, ORANGE, 0.3)
    canvas.text(left + 95, top + height + 35, "backward", size=11)
    return canvas.svg()


# --- measured on a CPU ----------------------------------------------------------------------------------------------


def products() -> str:
    """The arithmetic rate of a square product."""
    lines = {
        name: [(n, 2 * n**3 / t) for n, t in tools.line("products", name).items()]
        for name in ("lists", "NumPy", "Wengert")
    }
    colours = {"lists": RED, "NumPy": BLUE, "Wengert": GREEN}
    return curves("rate of a matrix product", lines, colours, "rows and columns", "FLOP/s", _rate)


def modes() -> str:
    """The time of a gradient over the number of inputs."""
    names = {"value": INK, "reverse mode": GREEN, "forward mode": BLUE, "differences": RED}
    lines = {name: list(tools.line("modes", name).items()) for name in names}
    return curves("time of a gradient", lines, names, "inputs", "seconds", _time)


def dynamic() -> str:
    """The time of a training step over the width of its layers."""
    names = {"node by node": RED, "dynamic": BLUE, "compiled": GREEN}
    lines = {name: list(tools.line("steps", name).items()) for name in names}
    return curves("time of a training step", lines, names, "width of the layers", "seconds", _time)


def fusion(chain: Any) -> str:
    """Time and traffic of a chain before and after fusion."""
    before, after = tools.traffic(chain)
    slow, fast = (tools.cpu("fusion", name, 2048) for name in ("one kernel for each op", "fused"))
    row: list[tuple[str, dict[str, float]]] = [
        ("memory traffic", {"one kernel for each op": 1.0, "fused": after / before}),
        ("time", {"one kernel for each op": 1.0, "fused": fast / slow}),
    ]
    colours = {"one kernel for each op": RED, "fused": GREEN}
    return bars("a chain before and after fusion", row, colours, lambda share: f"{share:.0%}", "of unfused")


def manual() -> str:
    """Steps with gradients by hand and automatic."""
    kinds = {"by hand": ORANGE, "automatic": GREEN}
    found = []
    for network, results in tools.stored("manual-automatic-cpu-*.json")["results"].items():
        for library, end in (("NumPy", ""), ("Wengert", ""), ("Wengert", ", compiled"), ("PyTorch", "")):
            group = {kind: results[name]["best"] for kind in kinds if (name := f"{library} {kind}{end}") in results}
            if group:
                found.append((f"{network}: {library}{end or (', dynamic' if library == 'Wengert' else '')}", group))
    return bars("gradients by hand and automatic", found, kinds, _time, "a step", log=True)


# --- on a GPU -------------------------------------------------------------------------------------------------------


def tiles() -> str:
    """What one block or thread reads for its sums, on three rungs."""
    canvas = Canvas(760, 250, "tiles of a matrix product")
    rungs = (
        ("naive", "each number read", "is used once", 1, 1, False),
        ("tiled", "a tile in shared memory:", "used 32 times", 4, 4, False),
        ("registers", "8 x 8 sums a thread:", "16 loads, 64 multiply-adds", 4, 4, True),
    )
    for number, (name, first, second, high, wide, has_threads) in enumerate(rungs):
        left, top, cell, side = 20 + 250 * number, 78, 11, 11
        canvas.text(left, 16, name, bold=True)
        for x, y, across, down, colour in (
            (left, top, 4, side, BLUE),
            (left + 5 * cell, top - 5 * cell, side, 4, ORANGE),
            (left + 5 * cell, top, side, side, GREEN),
        ):
            canvas.rect(x, y, across * cell, down * cell, colour, 0.1, 0)
        row, column = 4, 4
        canvas.rect(left, top + row * cell, 4 * cell, high * cell, BLUE, 0.55, 0)
        canvas.rect(left + (5 + column) * cell, top - 5 * cell, wide * cell, 4 * cell, ORANGE, 0.55, 0)
        canvas.rect(left + (5 + column) * cell, top + row * cell, wide * cell, high * cell, GREEN, 0.6, 0)
        if has_threads:
            for i in range(1, 4):
                x, y = left + (5 + column + i) * cell, top + (row + i) * cell
                canvas.line([(x, top + row * cell), (x, top + (row + high) * cell)], INK, 0.8)
                canvas.line([(left + (5 + column) * cell, y), (left + (5 + column + wide) * cell, y)], INK, 0.8)
        canvas.text(left, 222, first, size=12)
        canvas.text(left, 239, second, size=12)
    return canvas.svg()


def ladder() -> str:
    """The rate of each rung."""
    order = ("naive", "tiled", "fma", "mma", "wgmma", "cuBLAS")
    found = tools.rungs()
    kinds = {"float32": PURPLE, "tf32": BLUE, "bfloat16": GREEN}
    groups = [(rung, {dtype: found[dtype][rung] for dtype in kinds if rung in found[dtype]}) for rung in order]
    return bars("rates of the rungs", groups, kinds, lambda rate: f"{rate:g}", "TFLOP/s", log=True)


def epilogue(rows: int, columns: int) -> str:
    """The passes over a layer's result, with separate kernels and with an epilogue."""
    size = 4 * rows * columns
    canvas = Canvas(760, 220, "a linear layer as three kernels and as one")
    for top, title, kernels in (
        (28, f"three kernels: {bytes_text(5 * size)} to and from memory", ("product", "+ bias", "relu")),
        (136, f"one kernel with an epilogue: {bytes_text(size)}", ("product + bias, relu",)),
    ):
        canvas.text(20, top - 10, title, bold=True)
        for number, name in enumerate(kernels):
            x, width = 20 + 250 * number, 130 if len(kernels) > 1 else 170
            canvas.box(x, top, width, 44, [name], GREEN)
            canvas.arrow((x + width + 3, top + 22), (x + width + 40, top + 22), RED)
            canvas.box(x + width + 43, top + 4, 64, 36, ["memory", bytes_text(size)], RED)
            if number + 1 < len(kernels):
                canvas.arrow((x + width + 109, top + 22), (x + 248, top + 22), RED)
    return canvas.svg()


def host() -> str:
    """The host's time of a replayed step, and the GPU's."""
    kinds = {"host": ORANGE, "GPU": GREEN}
    results = tools.stored(tools.GPU)["results"]
    groups = [
        (tools.ROWS[row], {"host": r["wengert"]["host"][0], "GPU": r["wengert"]["median"]})
        for row, r in results.items()
    ]
    return bars("host and GPU time of a step", groups, kinds, _time, "a step", log=True)


def rows() -> str:
    """All contenders on an H200."""
    results = tools.stored(tools.GPU)["results"]
    groups = [
        (tools.ROWS[row], {name: r[key]["median"] for key, name in NAMES.items() if "median" in r.get(key, {})})
        for row, r in results.items()
    ]
    return bars("seventeen rows on an H200", groups, COLOURS, _time, "a step", log=True)


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= unit * 0.9995:
            return f"{tools.short(seconds / unit)} {name}"
    return f"{tools.short(seconds * 1e9)} ns"


def _rate(flops: float) -> str:
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if flops >= unit * 0.9995:
            return f"{flops / unit:.3g} {name}"
    return f"{flops / 1e3:.3g} k"
