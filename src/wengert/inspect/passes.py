"""What the compiler made of a recorded graph, as plain data: the graph after each pass, its kernels, memory, times.

In: a graph as recorded, and its program. Out: dictionaries for the page. Nodes that a pass left alone are the same in
the next graph, so each is described once, and a pass is a list of numbers. The page's `compiler` is

    nodes       id, op, type, sources, [name] (of an input `v1 = x`, of a parameter `fc.bias`; of a recorded node as
                elsewhere on the page, `v12`), [given], [module], [function], [line], [source]
    passes      name, facts, nodes, [added], change: what it did, as a sentence; the last one is the grouping in kernels
    kernels     number, symbol (its function's name in the source), name, nodes, source (C or CUDA), [seconds],
                [module], [function], [line], [code] (the user's line)
    memory      for each step: live (bytes), values ([bytes, what, line]), kernel (its number)
    arena, arena_bytes, peak_bytes, language
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from wengert.core.devices import on_host
from wengert.core.graph import Graph, Node, describe_type, has_array
from wengert.inspect.adjoints import scalar
from wengert.inspect.calls import Observed, WatchedCall
from wengert.inspect.lines import line_of
from wengert.inspect.recorded import is_given
from wengert.inspect.symbols import literal_text
from wengert.ops.core import LITERAL
from wengert.runtime.debug.explain import StageRow, bytes_text, pass_reports, rows, timeline
from wengert.runtime.debug.profile import described

_CALLED = re.compile(r"\b(?:kernel\d+|wg_\w+|loop\d+)(?=\()")
_AT_PEAK = 12  # values named at each step of the memory's timeline


def as_data(
    graph: Graph, program: Any, observed: Observed, times: Mapping[int, float], names: Mapping[Node, str]
) -> dict[str, Any]:
    """The passes of a program for the page; `times` are the seconds of its steps, where they were measured, `names`
    those of the recorded nodes.
    """
    graphs = [graph, *[report.graph for report in pass_reports(program)], program.graph]
    by_name = {row.name: row for row in rows(graph, program)}
    numbers: dict[Node, int] = {}
    calls: dict[Node, WatchedCall | None] = {}
    for i, each in enumerate(graphs):
        nodes = [*each.inputs, *each.captured(), *each.nodes]
        calls |= observed.calls_in([node for node in nodes if node not in calls], i > 0, calls)
        for node in nodes:
            numbers.setdefault(node, len(numbers))
    stages = [*list(by_name)[: len(graphs) - 1], "fuse"]  # the graph stays as it is from there on
    found = [_pass(by_name[name], each, numbers) for name, each in zip(stages, graphs)]
    kernels = [_kernel(program, i, numbers, times.get(i), calls) for i in range(len(program.steps))]
    changed = [_with_changes(before, after) for before, after in zip([None, *found], found)]
    changed[-1]["change"] = _fused(found[-1], kernels)
    return {
        "nodes": [_description(node, numbers, calls[node], names) for node in numbers],
        "passes": changed,
        "kernels": kernels,
        **_memory(program),
        "language": program.language,
    }


def _description(
    node: Node, numbers: Mapping[Node, int], call: WatchedCall | None, names: Mapping[Node, str]
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": numbers[node],
        "op": node.op.name,
        "type": describe_type(node),
        "sources": list(dict.fromkeys(numbers[source] for source in node.sources if source in numbers)),
    }
    if is_given(node) and not entry["sources"]:
        entry |= {"given": True, "name": names.get(node) or _constant_name(node)}
    elif node in names:
        entry["name"] = names[node]
    if call is not None and call.path:
        entry["module"] = list(call.path)
    if call is not None and call.function:
        entry["function"] = call.function
    return entry | line_of(node.location)


def _constant_name(node: Node) -> str:
    return literal_text(node) if not has_array(node) else scalar(on_host(node.buffer)).get("scalar", "constant")


def _pass(row: StageRow, graph: Graph, numbers: Mapping[Node, int]) -> dict[str, Any]:
    nodes = [numbers[node] for node in [*graph.inputs, *graph.captured(), *graph.nodes] if node.op is not LITERAL]
    facts = f"{row.nodes} nodes, {row.kernels} kernels, {bytes_text(row.moved)} moved, peak {bytes_text(row.peak)}"
    return {"name": row.name, "facts": facts, "nodes": list(dict.fromkeys(nodes))}


def _with_changes(before: dict[str, Any] | None, after: dict[str, Any]) -> dict[str, Any]:
    """A pass with what it changed."""
    if before is None:
        return after | {"change": "the graph as it was recorded"}
    then, now = set(before["nodes"]), set(after["nodes"])
    removed, added = len(then - now), sorted(now - then)
    change = f"removed {_count(removed, 'node')}, added {len(added)}" if removed or added else "no change"
    return after | {"removed": removed, "added": added, "change": change}


def _fused(last: Mapping[str, Any], kernels: Sequence[Mapping[str, Any]]) -> str:
    computed = len({node for kernel in kernels for node in kernel["nodes"]})
    return f"grouped {_count(computed, 'node')} into {_count(len(kernels), 'kernel')}"


def _count(number: int, noun: str) -> str:
    """A number of things.

    >>> _count(1, "node"), _count(3, "node")
    ('1 node', '3 nodes')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


# --- kernels and memory -----------------------------------------------------------------------------------------------


def _kernel(
    program: Any,
    i: int,
    numbers: Mapping[Node, int],
    seconds: float | None,
    calls: Mapping[Node, WatchedCall | None],
) -> dict[str, Any]:
    group, step = program.plan.groups_of_steps[i], program.steps[i]
    root = group.roots[0 if group.opaque else -1]
    text = _text(program, i)
    entry: dict[str, Any] = {
        "number": i,
        "symbol": _symbol(step, text),
        "name": described(group, step),
        "nodes": [numbers[node] for node in inside(program, i) if node in numbers],
        "source": text,
    }
    call = calls.get(root)
    if call is not None and call.path:
        entry["module"] = ".".join(call.path)
    if call is not None and call.function:
        entry["function"] = call.function
    told = line_of(root.location)
    entry |= {key: told[own] for key, own in (("line", "line"), ("code", "source")) if own in told}
    return entry | ({} if seconds is None else {"seconds": seconds})


def _symbol(step: Any, text: str) -> str:
    """The name of the function that a step calls first, as it is in its source."""
    if step.does_nothing or step.carrier:
        return str(step.carrier or "nothing")
    launches = getattr(step, "launches", ())
    if launches:
        return str(launches[0].entry)
    found = _CALLED.search(text)
    return found[0] if found is not None else "inline"


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


def _memory(program: Any) -> dict[str, Any]:
    """The bytes alive at each step, and the largest values among them."""
    moments = timeline(program)
    steps = [
        {
            "live": moment.live,
            "kernel": k,
            "values": [[size, what, line] for size, what, line in moment.values[:_AT_PEAK]],
        }
        for k, moment in enumerate(moments)
    ]
    arena = program.plan.arena.size
    peak = max((moment.live for moment in moments), default=0)
    return {"memory": steps, "arena": bytes_text(arena), "arena_bytes": arena, "peak_bytes": peak}
