"""Cleanup: inline checkpoint bodies, eliminate common subexpressions, drop dead code.

`inline` replaces a checkpoint by its body, which is then optimised and fused like everything else. The backward pass
already has its own copy of the body, over `recompute_barrier(x)` for each input x, so the copies stay separate.

`cse` merges equal nodes in a single dictionary pass. Two nodes are equal when they have the same op, sources and type,
and attributes equal in value and type: 1, 1.0 and True differ, so do -1 and -2 (although they hash alike), and 0.0 and
-0.0. Constant arrays are compared by their bytes. Reductions that differ only in `keepdims` become one, reshaped. A
`while_loop` whose values a later loop computes too becomes that loop. Deliberate recomputation (`checkpoint`, `remat`)
starts from `recompute_barrier(x)`, a different node from x, so it survives.

`dce` keeps only nodes that lead to outputs. For ops with a body (`cond`, `scan`, `checkpoint`) it keeps the results
that are read, and removes what computed the others. An unused random draw may be removed: a separate op advances its
counter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from wengert.autodiff.checkpoint import CHECKPOINT
from wengert.autodiff.cond import COND, WHILE, lockstep
from wengert.autodiff.scan import SCAN
from wengert.autodiff.while_gradient import WHILE_GRADIENT, in_lockstep
from wengert.compiler.rewrite import (
    depending,
    made_by,
    over,
    picked,
    rewrite,
    spend,
    with_attrs,
    with_bodies,
    with_sources,
)
from wengert.core.canonical import entries, frozen_attributes
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.dtypes import COMPLEX
from wengert.core.graph import Graph, Node
from wengert.ops import elementwise as e
from wengert.ops.core import CAST, DATA
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import CONCAT, reshape
from wengert.ops.op import PICK, picks
from wengert.ops.random import RANDOM_BITS


def inline(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph without checkpoints, and with the loops that run a `while_loop` backwards.

    Lanes of a loop step together, unless the loop is small enough for a kernel in which each lane ends separately.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> y = wg.checkpoint(lambda x: wg.sin(wg.sin(x)))(wg.Tensor(x)).node
    >>> [node.op.name for node in inline(Graph([x], [y])).nodes]
    ['checkpoint', 'sin', 'sin']
    """
    return _inlined(graph, {})


def _inlined(graph: Graph, done: dict[Graph, Graph]) -> Graph:
    """The graph with its ops inlined, repeated for loops that inlining creates."""
    results: dict[Node, list[Node]] = {}

    def rule(node: Node) -> Node | None:
        if node.op is not PICK or not any(made_by(node.sources[0], op) for op in _INLINED):
            return None
        whole = node.sources[0]
        if whole.op is not CHECKPOINT and (_is_one_loop(whole) or is_small(whole)):
            return None
        if whole not in results:
            results[whole] = _results(whole)
        return results[whole][node.attrs["index"]]

    graph = rewrite(graph, rule)
    if all(whole.op is CHECKPOINT for whole in results):
        return graph
    return with_bodies(graph, lambda body: _everywhere(body, done), done)


def _everywhere(graph: Graph, done: dict[Graph, Graph]) -> Graph:
    return _inlined(with_bodies(graph, lambda body: _everywhere(body, done), done), done)


_INLINED = (CHECKPOINT, WHILE, WHILE_GRADIENT)


def _is_one_loop(node: Node) -> bool:
    return node.op is WHILE and node.attrs["lanes"] is None


SMALL, NODES = 64, 1000
"""Elements of a value, and nodes of a loop over lanes, with which a kernel carries out a lane by itself."""


def is_small(loop: Node) -> bool:
    """Whether a loop's test, step and cotangents are a few arithmetic nodes over few elements."""
    graphs = [loop.attrs[name] for name in ("test", "step", "pulled") if name in loop.attrs]
    nodes = [node for graph in graphs for node in (*graph.inputs, *graph.nodes)]
    return len(nodes) <= NODES and all(map(_is_small_arithmetic, nodes))


def _is_small_arithmetic(node: Node) -> bool:
    op = node.op
    if op in (WHILE, COND, SCAN):
        graphs = [one for value in node.attrs.values() for one in (value if type(value) is tuple else (value,))]
        return all(_is_small_arithmetic(one) for graph in graphs if isinstance(graph, Graph) for one in graph.nodes)
    return op.kind == "tuple" or (node.size <= SMALL and is_arithmetic(node))


def is_arithmetic(node: Node) -> bool:
    """Whether an op (other than a loop or branch) is elementwise arithmetic, which a loop body may write out."""
    op = node.op
    if isinstance(node.dtype, tuple) or node.dtype in COMPLEX:
        return op.kind == "tuple"
    if op.kind == "elementwise":
        return op.c is not None or op is CAST
    return op.kind in ("source", "identity", "movement", "reduction", "tuple") or op in (MATMUL, CONCAT, RANDOM_BITS)


def _results(whole: Node) -> list[Node]:
    """The results of a body, recorded over the operands of its op."""
    if whole.op is WHILE:
        return lockstep(whole)
    if whole.op is WHILE_GRADIENT:
        return in_lockstep(whole)
    found: list[Node] = whole.attrs["body"].inline(*whole.sources)
    return found


# --- cse ------------------------------------------------------------------------------------------------------------


COMMUTATIVE = frozenset(
    (
        e.add,
        e.multiply,
        e.equal,
        e.not_equal,
        e.logical_and,
        e.logical_or,
        e.logical_xor,
        e.bitwise_and,
        e.bitwise_or,
        e.bitwise_xor,
    )
)
"""Whose operands may change places without changing a bit. Not `maximum`: of 0.0 and -0.0 it takes one."""

BYTES_LIMIT = 1 << 20
"""Bytes up to which two constant arrays are compared."""


def _in_order(sources: tuple[Node, ...]) -> tuple[Node, ...]:
    a, b = sources
    return sources if a.serial <= b.serial else (b, a)


class _Seen:
    """The nodes seen so far, keyed by what they compute."""

    def __init__(self, graph: Graph) -> None:
        self.nodes: dict[Hashable, Node] = {}
        self.constants = _equal_constants(graph)

    def rule(self, node: Node) -> Node | None:
        """An equal node seen before. The first one stays, over the first of equal constants."""
        sources = node.sources
        if self.constants and not self.constants.keys().isdisjoint(sources):
            return with_sources(node, tuple([self.constants.get(source, source) for source in sources]))
        if node.op in COMMUTATIVE:
            sources = _in_order(sources)
        if "keepdims" in node.attrs:
            return self._reduction(node)
        key = (node.op, sources, node.shape, node.dtype, frozen_attributes(node.attrs) if node.attrs else None)
        found = self.nodes.setdefault(key, node)
        return None if found is node or found.device != node.device else found

    def _reduction(self, node: Node) -> Node | None:
        """An equal reduction seen before, reshaped to this one's shape; they may differ only in `keepdims`."""
        attrs = {key: value for key, value in node.attrs.items() if key != "keepdims"}
        found = self.nodes.setdefault((node.op, node.sources, node.dtype, frozen_attributes(attrs)), node)
        if found is node or found.device != node.device:
            return None
        return found if found.shape == node.shape else reshape(found, node.shape)


def _equal_constants(graph: Graph) -> dict[Node, Node]:
    """Constant arrays, mapped to an earlier array with the same contents."""
    first: dict[Hashable, Node] = {}
    equal: dict[Node, Node] = {}
    inputs = frozenset(graph.inputs)
    for node in graph.captured():
        array = node.buffer
        if node.op is not DATA or node in inputs or not isinstance(array, np.ndarray) or array.nbytes > BYTES_LIMIT:
            continue
        found = first.setdefault((node.dtype, node.shape, node.device, array.tobytes()), node)
        if found is not node:
            equal[node] = found
    return equal


def cse(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with each value computed once.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> y = e.exp(x) + e.exp(x)
    >>> [node.op.name for node in cse(Graph([x], [y])).nodes]
    ['exp', 'add']
    """
    graph = rewrite(graph, _Seen(graph).rule)
    return _without_contained_loops(graph)


# A loop that another one contains is an expression that is computed twice. Forward mode makes such pairs: the loop that
# carries tangents along computes the values again. Two programs of one loop may also round differently, and take other
# steps near the limit of rounding; what reads the values of one and the tangents of the other would mix both.


def _without_contained_loops(graph: Graph) -> Graph:
    """The graph in which readers of a contained loop read the containing loop instead."""
    while (found := next(_contained(graph), None)) is not None:
        inner, outer = found
        if not spend(inner, "a loop that another one contains".__str__):
            break
        graph = _read_from(graph, inner, outer)
    return graph


def _contained(graph: Graph) -> Iterator[tuple[Node, Node]]:
    """Pairs of loops: one, and another that contains it and does not depend on it."""
    if sum(node.op is WHILE for node in graph.nodes) < 2:
        return
    only_picked = picked(graph, WHILE)
    loops = [node for node in graph.nodes if node in only_picked]
    for inner in loops:
        after = depending(graph.nodes, [inner])
        for outer in loops:
            if outer is not inner and outer not in after and _contains(outer, inner):
                yield inner, outer


def _contains(outer: Node, inner: Node) -> bool:
    """Whether a loop's first constants and values are exactly those of another loop."""
    n, m = inner.attrs["constants"], outer.attrs["constants"]
    carries = len(inner.sources) - n
    if any(inner.attrs[name] != outer.attrs[name] for name in ("checkpoints", "lanes")):
        return False
    if m < n or len(outer.sources) - m < carries or len(outer.sources) == len(inner.sources):
        return False
    if outer.sources[:n] != inner.sources[:n] or outer.sources[m : m + carries] != inner.sources[n:]:
        return False
    ours, theirs = [*range(n + carries)], [*range(n), *range(m, m + carries)]
    return all(
        _form(inner.attrs[name], ours, count) == _form(outer.attrs[name], theirs, count)
        for name, count in (("test", 1), ("step", carries))
    )


def _form(body: Graph, inputs: list[int], outputs: int) -> Hashable:
    """A structural key of a body's first outputs over these inputs; the body itself if they read other inputs."""
    wanted = body.outputs[:outputs]
    needed = set(wanted)
    for node in reversed(body.nodes):
        if node in needed:
            needed.update(node.sources)
    places: dict[Node, Hashable] = {body.inputs[i]: ("input", k) for k, i in enumerate(inputs)}
    found = entries([node for node in body.nodes if node in needed], places, lambda node: ("other", node))
    return tuple(found), tuple([places.get(node, node) for node in wanted])


def _read_from(graph: Graph, inner: Node, outer: Node) -> Graph:
    """The graph without the inner loop; its readers move behind the outer one."""
    results, late = picks(outer), depending(graph.nodes, [inner])
    replacing: dict[Node, Node] = {}
    early = [node for node in graph.nodes if node is not inner and node not in late]
    nodes = early
    for node in graph.nodes:
        if node not in late or node is inner:
            continue
        if node.op is PICK and node.sources[0] is inner:
            replacing[node] = results[node.attrs["index"]]
            nodes.append(replacing[node])
            continue
        current = over(node, replacing)
        if current is not node:
            replacing[node] = current
        nodes.append(current)
    return Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes)


# --- dce ------------------------------------------------------------------------------------------------------------


_CARRIES_BODY = frozenset((CHECKPOINT, COND, SCAN))


def dce(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph without nodes that its outputs do not need.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> y, unused = x + 1.0, x * 2.0
    >>> whole = Graph([x], [y, unused])
    >>> [node.op.name for node in dce(Graph([x], [y], nodes=whole.nodes)).nodes]
    ['literal', 'add']
    """
    graph = live(graph)
    if any(node.op in _CARRIES_BODY for node in graph.nodes):
        return live(_narrowed(graph))
    return graph


def live(graph: Graph) -> Graph:
    """The graph with only the nodes that lead to its outputs."""
    needed = set(graph.outputs)
    kept = []
    for node in reversed(graph.nodes):
        if node in needed:
            kept.append(node)
            needed.update(node.sources)
    if len(kept) == len(graph.nodes):
        return graph
    kept.reverse()
    return Graph(graph.inputs, graph.outputs, nodes=kept)


# --- results nobody picks -------------------------------------------------------------------------------------------


def _picked(graph: Graph) -> dict[Node, set[int]]:
    """For each op with a body, which of its results are read; ops that are needed as a whole are left out."""
    picked: dict[Node, set[int]] = {node: set() for node in graph.nodes if node.op in _CARRIES_BODY}
    for node in graph.nodes:
        for source in node.sources:
            if source in picked:
                if node.op is PICK:
                    picked[source].add(node.attrs["index"])
                else:
                    del picked[source]
    for node in graph.outputs:
        picked.pop(node, None)
    return picked


def _narrowed(graph: Graph) -> Graph:
    """The graph with those ops computing only the results that are read."""
    picked = _picked(graph)
    replacing: dict[Node, Node] = {}
    kept: dict[Node, list[int]] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        current = over(node, replacing)
        if node in picked:
            indices = _results_to_keep(node, picked[node])
            if len(indices) < len(node.shape) and _narrows(node, indices):
                current = _with_results(current, indices)
                kept[node] = indices
        elif node.op is PICK and node.sources[0] in kept:
            index = kept[node.sources[0]].index(node.attrs["index"])
            current = with_attrs(current, {"index": index})
        if current is not node:
            replacing[node] = current
        nodes.append(current)
    return Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes)


def _narrows(node: Node, indices: list[int]) -> bool:
    return spend(node, lambda: f"{node.op.name} keeps {len(indices)} of its {len(node.shape)} results")


def _results_to_keep(node: Node, picked: set[int]) -> list[int]:
    """A scan needs its carries from step to step, even if nothing reads their final values."""
    carries = node.attrs["carries"] if node.op is SCAN else 0
    return [i for i in range(len(node.shape)) if i < carries or i in picked]


def _with_results(node: Node, indices: list[int]) -> Node:
    attrs = {key: _body_with(value, indices) for key, value in node.attrs.items()}
    if node.op is SCAN:
        results = len(node.shape) - node.attrs["saved"]
        attrs["saved"] = sum(i >= results for i in indices)
    shape, dtype = tuple(node.shape[i] for i in indices), tuple(node.dtype[i] for i in indices)
    return Node(node.op, node.sources, attrs, shape, dtype, node.device, node.tracked, node.location)


def _body_with(value: Any, indices: list[int]) -> Any:
    if isinstance(value, Graph):
        return dce(Graph(value.inputs, [value.outputs[i] for i in indices], nodes=value.nodes))
    if isinstance(value, tuple) and value and isinstance(value[0], Graph):
        return tuple(_body_with(graph, indices) for graph in value)
    return value
