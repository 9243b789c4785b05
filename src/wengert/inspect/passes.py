"""What the compiler made of a recorded graph, as plain data: the graph after each pass, its kernels, memory, times.

In: a graph as recorded, and its program. Out: dictionaries for the page. Nodes that a pass left alone are the same in
the next graph, so each is described once, and a pass is a list of numbers. The page's `compiler` is

    nodes       id, name (of what was given: `conv1.weight`; else as on the page, `v12`, where it is the same value), op,
                type, sources, [given], [module], [function], [line], [source]
    passes      name, facts, nodes, [added], change: what it did, as a sentence; the last one is the grouping in kernels
    kernels     number, symbol (its function's name in the source), name, nodes, source, [seconds], [module], [line]
    memory      for each step: live (bytes), values ([bytes, what, line]), kernel (its number)
    arena, arena_bytes, peak_bytes, language
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wengert.core.graph import Graph, Node, describe_type
from wengert.inspect.modules import Observed
from wengert.ops.core import LITERAL
from wengert.runtime.debug.explain import StageRow, bytes_text, pass_reports, rows, timeline
from wengert.runtime.debug.profile import described

_AT_PEAK = 12  # values named at each step of the memory's timeline


def as_data(graph: Graph, program: Any, observed: Observed, times: Mapping[int, float]) -> dict[str, Any]:
    """The passes of a program for the page; `times` are the seconds of its steps, where they were measured."""
    graphs = [graph, *[report.graph for report in pass_reports(program)], program.graph]
    by_name = {row.name: row for row in rows(graph, program)}
    numbers: dict[Node, int] = {}
    modules: dict[Node, tuple[str, ...]] = {}
    for each in graphs:
        nodes = [*each.inputs, *each.captured(), *each.nodes]
        modules |= observed.modules_in([node for node in nodes if node not in modules])
        for node in nodes:
            numbers.setdefault(node, len(numbers))
    names = [*list(by_name)[: len(graphs) - 1], "fuse"]  # the graph stays as it is from there on
    found = [_pass(by_name[name], each, numbers) for name, each in zip(names, graphs)]
    return {
        "nodes": [_description(node, numbers, modules[node]) for node in numbers],
        "passes": [_with_changes(before, after) for before, after in zip([None, *found], found)],
        "kernels": [_kernel(program, i, numbers, times.get(i)) for i in range(len(program.steps))],
        "memory": _memory(program),
        "arena": bytes_text(program.plan.arena.size),
        "language": program.language,
    }


def _description(node: Node, numbers: Mapping[Node, int], module: Sequence[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": numbers[node],
        "op": node.op.name,
        "type": describe_type(node),
        "sources": list(dict.fromkeys(numbers[source] for source in node.sources if source in numbers)),
    }
    return entry | ({"module": list(module)} if module else {})


def _pass(row: StageRow, graph: Graph, numbers: Mapping[Node, int]) -> dict[str, Any]:
    nodes = [numbers[node] for node in [*graph.inputs, *graph.captured(), *graph.nodes] if node.op is not LITERAL]
    facts = f"{row.nodes} nodes, {row.kernels} kernels, {bytes_text(row.moved)} moved, peak {bytes_text(row.peak)}"
    return {"name": row.name, "facts": facts, "nodes": list(dict.fromkeys(nodes))}


def _with_changes(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    """A pass with how many nodes it removed and how many it put in."""
    if before is None:
        return after
    then, now = set(before["nodes"]), set(after["nodes"])
    return after | {"removed": len(then - now), "added": sorted(now - then)}


# --- kernels and memory -----------------------------------------------------------------------------------------------


def _kernel(program: Any, i: int, numbers: Mapping[Node, int], seconds: float | None) -> dict[str, Any]:
    group, step = program.plan.groups_of_steps[i], program.steps[i]
    entry = {
        "name": described(group, step),
        "nodes": [numbers[node] for node in inside(program, i) if node in numbers],
        "source": _text(program, i),
    }
    return entry | ({} if seconds is None else {"seconds": seconds})


def inside(program: Any, i: int) -> list[Node]:
    """The values that a kernel computes: its roots, and what it computes where they read it."""
    group, roots, own = program.plan.groups_of_steps[i], program.plan.grouping.roots, set(program.graph.nodes)
    found: dict[Node, None] = {}
    stack = list(group.roots)
    while stack:
        node = stack.pop()
        if node not in found and node in own and (node in group.roots or node not in roots):
            found[node] = None
            stack += () if group.opaque and node is group.roots[0] else node.sources
    return list(found)


def _text(program: Any, i: int) -> str:
    """The C or CUDA of a step."""
    step = program.steps[i]
    if step.does_nothing:
        return "nothing: the value is in its place already"
    return f"no kernel of ours: {step.carrier}" if step.carrier else str(program.text_of(i))


def _memory(program: Any) -> list[dict[str, Any]]:
    """The bytes alive at each step, and the largest values among them."""
    return [
        {"live": moment.live, "values": [[size, what, where] for size, what, where in moment.values[:_AT_PEAK]]}
        for moment in timeline(program)
    ]
