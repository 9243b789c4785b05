"""What the compiler did to a program: a table of its passes and plan stages, the graph or plan after each, its memory.

In: a recorded graph and its compiled program, whose plan has the reports of all passes and stages. Out: text, from
counts and never from estimates: kernels, bytes between memory and kernels, floating-point operations, memory.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from wengert.compiler.memory import Life, live, lives, storage
from wengert.compiler.passes import PassReport
from wengert.core.code import describe, source_line
from wengert.core.errors import ArgumentError
from wengert.core.formatting import folded_html, table_html
from wengert.core.graph import Graph, Node, as_python
from wengert.plan.describe import described
from wengert.plan.plan import Plan
from wengert.runtime.config import config

IMPORTS = "import wengert as wg\nfrom wengert.ops import registry as ops\n\n"


class Printed(str):
    """Text that was already printed; an interactive prompt does not print it again."""

    def __repr__(self) -> str:
        return f"<printed, {len(self.splitlines())} lines>"


def text_of(graph: Graph, program: Any, name: str | None = None) -> str:
    """The text of `explain(name)`: the table, the graph after a pass, or why groups were not merged."""
    if name == "recorded":
        return IMPORTS + as_python(graph)
    if not is_compiled(program):
        return _interpreted(graph, name)
    return table(graph, program) if name is None else after(program, name)


def is_compiled(program: Any) -> bool:
    """Whether a program was compiled (for the CPU or a GPU) rather than interpreted."""
    return bool(program.is_compiled)


def compiled_program(program: Any, asked: str) -> Any:
    """The program, if it was compiled; otherwise an error says why not."""
    if not is_compiled(program):
        raise ArgumentError(f"{asked}: the program is interpreted, {_why_interpreted()}, so there is nothing to show")
    return program


def _interpreted(graph: Graph, name: str | None) -> str:
    if name is not None:
        why = _why_interpreted()
        raise ArgumentError(
            f"explain: the program is interpreted, {why}, so only 'recorded' is available, not {name!r}"
        )
    return f"interpreted, {_why_interpreted()}: {len(graph.nodes)} nodes, run one by one by their NumPy references"


def _why_interpreted() -> str:
    if config.tier == "interpret":
        return 'because of wg.config.tier = "interpret"'
    return "because there is no C compiler, or because the function was recorded too often to build each recording"


# --- the table ------------------------------------------------------------------------------------------------------


class StageRow(NamedTuple):
    """A line of the table."""

    name: str
    nodes: int
    kernels: int
    moved: int
    flops: int
    peak: int
    seconds: float


def size_of(node: Node) -> int:
    """The bytes of a value."""
    if isinstance(node.dtype, tuple):
        return sum(math.prod(s) * d.itemsize for s, d in zip(node.shape, node.dtype))
    return int(node.size * node.dtype.itemsize)


def flops(node: Node) -> int:
    """The floating-point operations of a node; 0 for data movement."""
    return node.op.flops(node)


def rows(graph: Graph, program: Any) -> list[StageRow]:
    """The rows for the recorded graph, the passes, the stages of the plan, and the build."""
    found = [_graph_row("recorded", graph, 0.0)]
    for name, report in named_reports(program):
        is_pass = isinstance(report, PassReport)
        found.append(
            (_graph_row if is_pass else _plan_row)(name, report.graph if is_pass else report.plan, report.seconds)
        )
    return [*found, found[-1]._replace(name="build", seconds=program.seconds)]


def _graph_row(name: str, graph: Graph, seconds: float) -> StageRow:
    return StageRow(name, len(graph.nodes), *_counts(graph), _peak_unfused(graph), seconds)


def _plan_row(name: str, plan: Plan, seconds: float) -> StageRow:
    """Before groups exist, kernels, bytes and memory are those of running one op at a time."""
    if not plan.grouping.groups:
        return _graph_row(name, plan.graph, seconds)
    total = sum(flops(node) for node in plan.graph.nodes)
    touched = _touched(plan)
    moved = sum(size_of(node) for reads, writes in touched for node in (*reads, *writes))
    kernels = sum(not step.does_nothing for step in plan.steps) if plan.steps else len(plan.grouping.groups)
    peak = plan.arena.size if plan.arena.offsets else max(_live_bytes(_in_arena(plan, touched)), default=0)
    return StageRow(name, len(plan.graph.nodes), kernels, moved, total, peak, seconds)


def _touched(plan: Plan) -> list[tuple[Sequence[Node], Sequence[Node]]]:
    """What each step, or each group where there are no steps yet, reads and writes."""
    if plan.steps:
        return [(step.reads, step.writes) for step in plan.steps]
    found: list[tuple[Sequence[Node], Sequence[Node]]] = []
    for group in plan.grouping.groups:
        own = set(group.roots)
        reads = dict.fromkeys(storage(read.leaf) for read in group.reads if read.leaf not in own)
        found.append((list(reads), group.stored))
    return found


def named_reports(program: Any) -> list[tuple[str, Any]]:
    """The reports of passes and stages in order, by name; a repeated name becomes `simplify 2`."""
    times: dict[str, int] = {}
    found = []
    for report in program.plan.reports:
        times[report.name] = times.get(report.name, 0) + 1
        number = f" {times[report.name]}" if times[report.name] > 1 else ""
        found.append((report.name + number, report))
    return found


def pass_reports(program: Any) -> list[PassReport]:
    """The reports of the graph passes."""
    return [report for report in program.plan.reports if isinstance(report, PassReport)]


def kernels_of(program: Any) -> list[Any]:
    """The steps that do any work; a pick whose value is already in place does not."""
    return [step for step in program.steps if not step.does_nothing]


def _counts(graph: Graph) -> tuple[int, int, int]:
    """Kernels, bytes and operations if every op were a separate kernel."""
    kernels = [node for node in graph.nodes if not node.op.free]
    moved = sum(size_of(node) + sum(size_of(source) for source in node.sources) for node in kernels)
    return len(kernels), moved, sum(flops(node) for node in kernels)


def _peak_unfused(graph: Graph) -> int:
    """The peak memory of intermediate values if every op stores its result."""
    own = {node for node in graph.nodes if not node.op.free}
    steps = [([s for s in node.sources if s in own], [node]) for node in graph.nodes if node in own]
    return max(_live_bytes(steps), default=0)


def _in_arena(
    plan: Plan, touched: Sequence[tuple[Sequence[Node], Sequence[Node]]]
) -> list[tuple[list[Node], list[Node]]]:
    """What each step reads from and writes to the arena; values that share memory go by one name."""
    slots = plan.buffers.slots
    given = {*plan.graph.inputs, *plan.graph.captured(), *map(storage, plan.graph.outputs)}

    def placed(nodes: Sequence[Node]) -> list[Node]:
        own = [node for node in nodes if node not in slots and node not in given and not isinstance(node.dtype, tuple)]
        return [plan.aliases.get(node, node) for node in own]

    return [(placed(reads), placed(writes)) for reads, writes in touched]


def _live_bytes(steps: Sequence[tuple[Sequence[Node], Sequence[Node]]]) -> list[int]:
    alive = lives(steps)
    return live(alive, {node: size_of(node) for node in alive})


def moved_by(step: Any) -> int:
    """The bytes that a step reads and writes, each value counted once."""
    return sum(size_of(node) for node in (*step.reads, *step.writes))


def bytes_text(count: int) -> str:
    """A number of bytes for reading: 1.5 MB."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:.2f} GB"


def table(graph: Graph, program: Any) -> str:
    """The table of all passes and stages. Before `fuse`, kernels, bytes and memory are those of running one op at a
    time."""
    lines = ["pass or stage       nodes  kernels  bytes moved      MFLOP  peak memory       time"]
    for row in rows(graph, program):
        taken = f"{row.seconds * 1e3:>7.1f} ms" if row.name != "recorded" else ""
        lines.append(
            f"{row.name:<18} {row.nodes:>6} {row.kernels:>8} {bytes_text(row.moved):>12} {row.flops / 1e6:>10.2f} "
            f"{bytes_text(row.peak):>12} {taken}".rstrip()
        )
    return "\n".join([*lines, *program.described().splitlines()])


def notebook_html(graph: Graph, program: Any) -> str:
    """The table and the fused graph for a notebook; of a program that is not compiled, its text."""
    if not is_compiled(program):
        return f"<pre>{html.escape(text_of(graph, program))}</pre>"
    head = ["pass or stage", "nodes", "kernels", "bytes moved", "MFLOP", "peak memory", "ms"]
    cells = [
        [row.name, str(row.nodes), str(row.kernels), bytes_text(row.moved), f"{row.flops / 1e6:.2f}"]
        + [bytes_text(row.peak), "" if row.name == "recorded" else f"{row.seconds * 1e3:.1f}"]
        for row in rows(graph, program)
    ]
    first, last = cells[0], cells[-1]
    kernels = "1 kernel" if last[2] == "1" else f"{last[2]} kernels"
    told = f"{first[1]} nodes recorded, {kernels}, {last[3]} moved, peak memory {last[5]}"
    notes = f"<pre>{html.escape(program.described())}</pre>"
    fused_graph = folded_html("the kernels, as Python", f"<pre>{html.escape(fused(program))}</pre>")
    return f"<p>{told}</p>{folded_html('passes and stages', table_html(head, cells) + notes)}{fused_graph}"


# --- a pass ---------------------------------------------------------------------------------------------------------


def after(program: Any, name: str) -> str:
    """The graph after a pass as runnable Python, or the plan after a stage."""
    reports = dict(named_reports(program))
    others: dict[str, Callable[[Any], str]] = {
        "fuse": fused,
        "refusals": refusals,
        "memory": memory_text,
        "build": lambda program: str(program.source),
    }
    if program.tuning() is not None:
        others["tuning"] = lambda program: str(program.tuning())
    if name in others:
        return others[name](program)
    if name not in reports:
        known = ", ".join(dict.fromkeys(["recorded", *reports, *others]))
        raise ArgumentError(f"explain: there is no pass or stage {name!r}; choose one of {known}")
    report = reports[name]
    return IMPORTS + as_python(report.graph) if isinstance(report, PassReport) else described(report.plan)


def fused(program: Any) -> str:
    """The kernels, and the graph with the kernel of each stored value noted."""
    parts = []
    notes: dict[Node, str] = {}
    for number, (group, step) in enumerate(zip(program.plan.groups_of_steps, program.steps)):
        notes.update((root, f"kernel {number}") for root in group.roots)
        kind = "a call" if group.opaque else f"over {group.space}" + (f" reducing {group.axes}" if group.axes else "")
        names = ", ".join(f"{root.op.name} {_shapes(root)}" for root in group.roots)
        where = "; ".join(dict.fromkeys(describe(root.location) for root in group.roots))
        parts.append(f"# kernel {number}: {kind}: {names}\n#   stores {len(step.writes)}, from {where}")
    parts.append("# a value without a kernel is computed where it is read")
    return "\n".join(parts) + "\n" + IMPORTS + as_python(program.graph, notes=notes)


def _shapes(node: Node) -> str:
    return ", ".join(str(list(s)) for s in node.shape) if isinstance(node.dtype, tuple) else str(list(node.shape))


def refusals(program: Any) -> str:
    """Why groups that read each other were not merged into one kernel, each reason once."""
    found = list(dict.fromkeys(program.plan.grouping.refusals))
    return "\n".join(found) if found else "no merge of two groups was refused"


# --- memory ---------------------------------------------------------------------------------------------------------


class Moment(NamedTuple):
    """What is alive in the arena at a step."""

    step: int
    live: int
    values: list[tuple[int, str, str]]  # bytes, op and shape, the user's line


class Timeline(list[Moment]):
    """The moments of a program; its text was already printed."""

    def __repr__(self) -> str:
        return f"<timeline, {len(self)} steps>"


def timeline(program: Any) -> Timeline:
    """Memory step by step: how much is live, and which values."""
    alive = lives(_in_arena(program.plan, _touched(program.plan)))
    return Timeline(_moment(number, alive) for number in range(len(program.steps)))


def fullest(program: Any) -> Moment | None:
    """The step at which the most memory is live; None if there are no steps."""
    needed = _in_arena(program.plan, _touched(program.plan))
    held = _live_bytes(needed)
    return _moment(held.index(max(held)), lives(needed)) if held else None


def _moment(number: int, alive: Mapping[Node, Life]) -> Moment:
    held = [node for node, life in alive.items() if life.first <= number <= life.last]
    values = [(size_of(n), f"{n.op.name} {_shapes(n)}", _line(n)) for n in held]
    return Moment(number, sum(v[0] for v in values), sorted(values, reverse=True))


def _line(node: Node) -> str:
    line = source_line(node.location)
    return describe(node.location) + (f": {line}" if line else "")


def memory_text(program: Any, top: int = 3) -> str:
    """The timeline as text, with the largest values at its peak."""
    moments = timeline(program)
    if not moments:
        return "nothing is computed"
    peak = max(moments, key=lambda moment: moment.live)
    width = max(peak.live, 1)
    lines = [f"arena {bytes_text(program.plan.arena.size)}, peak {bytes_text(peak.live)} at step {peak.step}"]
    for moment in moments:
        bar = "#" * round(40 * moment.live / width)
        lines.append(f"{moment.step:>4} {bytes_text(moment.live):>10} {bar}".rstrip())
    lines += [f"  {bytes_text(size):>10}  {what}  {where}" for size, what, where in peak.values[:top]]
    return "\n".join(lines)
