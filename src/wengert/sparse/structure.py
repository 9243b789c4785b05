"""Which elements of a graph's outputs depend on which elements of its inputs.

In: a graph, and for each input its dependences: a sparse matrix with a row for each element and a column for each
variable, or None where there are none. Out: the same for each output. Each node's rows are unions of its sources' rows,
and which ones is read off what is known of the op:

    movement, concatenation, gathers     the op is applied to the numbers of the elements
    additions to indexed places,
    custom derivatives                   the derivative rule's own graph is followed
    products with sparse matrices        their own sparsity
    branches, loops, checkpoints         their bodies are; of branches the union, of a `while_loop` until nothing is new
    all others                           the `factors` of the op: axes in common are independent, the others dense

What is not known of an op makes it dense, which costs products and loses nothing. Indices must not depend on the
variables; then the structure is that of all their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.autodiff import body as bodies
from wengert.autodiff.checkpoint import CHECKPOINT
from wengert.autodiff.cond import COND, WHILE
from wengert.autodiff.custom import CUSTOM_JVP, CUSTOM_VJP
from wengert.autodiff.forward import push_forward
from wengert.autodiff.reverse import pull_back
from wengert.autodiff.scan import SCAN
from wengert.core.dtypes import INEXACT
from wengert.core.errors import GradientError
from wengert.core.evaluation import apply_here
from wengert.core.graph import Graph, Node, ancestors, has_array, recorded_as, recording
from wengert.ops.core import PLACEHOLDER
from wengert.ops.factors import factors
from wengert.ops.op import PACK, PICK, Op
from wengert.ops.sparse import CSR_PRODUCT, SAMPLED_PRODUCT, scipy_sparse

Pattern = Any  # a SciPy CSR array of booleans, (elements, variables)


def union(patterns: Sequence[Pattern | None]) -> Pattern | None:
    """The union of several dependency patterns of the same number of elements."""
    found = [p for p in patterns if p is not None]
    total = None
    for pattern in found:
        total = pattern if total is None else total + pattern
    return total


def selected(pattern: Pattern, rows: np.ndarray[Any, Any]) -> Pattern:
    """A pattern whose row i is row rows[i] of another, or empty where rows[i] is -1."""
    sparse = scipy_sparse()
    flat = rows.ravel()
    there = np.flatnonzero(flat >= 0)
    ones = np.ones(there.size, bool)
    choice = sparse.csr_array((ones, (there, flat[there])), shape=(flat.size, pattern.shape[0]))
    return _product(choice, pattern)


def _product(a: Pattern, b: Pattern) -> Pattern:
    found = (a.astype(np.int32) @ b.astype(np.int32)).tocsr()
    return found.astype(bool)


class Walk:
    """A walk through a graph with the dependency patterns of its inputs, and the values of known inputs."""

    def __init__(
        self, graph: Graph, inputs: Sequence[Any], touched: Sequence[bool], values: Sequence[Any] | None = None
    ) -> None:
        self.graph = graph
        self.patterns: dict[Node, Any] = dict(zip(graph.inputs, inputs))
        self.touched = {node for node, flag in zip(graph.inputs, touched) if flag}
        known = [None] * len(graph.inputs) if values is None else values
        self.values: dict[Node, Any] = {n: v for n, v in zip(graph.inputs, known) if v is not None}
        for node in graph.nodes:
            if not self.touched.isdisjoint(node.sources):
                self.touched.add(node)
            found = self._of(node)
            if found is not None:
                self.patterns[node] = found

    def outputs(self) -> list[Pattern | None]:
        """The dependency patterns of the outputs."""
        return [self.patterns.get(node) for node in self.graph.outputs]

    def value(self, node: Node) -> Any:
        """The value of a node that does not depend on the variables."""
        for one in ancestors([node], stop=self.values.keys()):
            if one in self.touched:
                raise GradientError(
                    "the sparsity structure cannot be determined: an index depends on the values of the variables, "
                    "so the structure does too. Pass structure=, valid for all values",
                    node.location,
                )
            if one in self.values:
                continue
            if not has_array(one) and one.op is PLACEHOLDER:
                raise GradientError(
                    "the sparsity structure cannot be determined: an index is not known before the program runs, "
                    "such as the counter of a while_loop. Use scan, or pass structure=",
                    node.location,
                )
            sources = [self.values[s] for s in one.sources]
            self.values[one] = np.asarray(one.buffer) if has_array(one) else apply_here(one, sources)
        return self.values[node]

    def _of(self, node: Node) -> Any:
        own: list[Any] = [self.patterns.get(source) for source in node.sources]
        if all(p is None for p in own) or not node.op.differentiable:
            return None
        if node.op is PICK:
            return own[0][node.attrs["index"]]
        if node.op is PACK:
            return own
        rule = _RULES.get(node.op)
        if rule is not None:
            return rule(self, node, own)
        if node.op.kind == "identity":
            return own[0]
        if node.op.kind == "movement" or (node.op.linear and node.op.moves):
            return self._moved(node, own)
        if node.op.linear and node.op.kind == "opaque" and any(s.dtype not in INEXACT for s in node.sources):
            return self._by_pullback(node, own)  # additions to indexed places: their transposes are gathers
        if node.op.kind == "elementwise":
            own = self._with_derivatives(node, own)
        return _by_factors(node, own) if any(p is not None for p in own) else None

    def _with_derivatives(self, node: Node, own: Sequence[Pattern | None]) -> list[Pattern | None]:
        """The dependences of those operands for which an elementwise op has a derivative: a step has none."""
        with recorded_as(recording.location, True):
            wanted = {s for s, p in zip(node.sources, own) if p is not None}
            found = pull_back(node, bodies.placeholder_like(node), wanted)
        return [None if cotangent is None else p for cotangent, p in zip(found, own)]

    def _moved(self, node: Node, own: Sequence[Pattern | None]) -> Pattern:
        """The op applied to the numbers of its operands' elements; 0 is no element."""
        first, arrays, rows = 1, [], []
        for i, source in enumerate(node.sources):
            if node.op.kind == "movement" or i in node.op.linear:
                arrays.append(np.arange(first, first + source.size).reshape(source.shape))
                rows.append(own[i] if own[i] is not None else _empty(source.size, own))
                first += source.size
            else:
                arrays.append(self.value(source))
        numbers = np.asarray(node.op.numpy(*arrays, **node.attrs))
        together = rows[0] if len(rows) == 1 else scipy_sparse().vstack(rows, format="csr")
        return selected(together, numbers.astype(np.int64) - 1)

    def _by_pullback(self, node: Node, own: Sequence[Any]) -> Any:
        """From the structure of the cotangents by the result's cotangent, transposed."""
        several = isinstance(node.dtype, tuple)
        shapes, dtypes = (node.shape, node.dtype) if several else ((node.shape,), (node.dtype,))
        wanted = {s for s, p in zip(node.sources, own) if p is not None}
        with recorded_as(recording.location, True):
            seeds = [bodies.placeholder(s, d, node.device) for s, d in zip(shapes, dtypes)]
            found = pull_back(node, seeds if several else seeds[0], wanted)
        parts: list[list[Pattern | None]] = [[] for _ in seeds]
        for cotangent, pattern in zip(found, own):
            if cotangent is None or pattern is None:
                continue
            for part, seed in zip(parts, seeds):
                back = self._followed(cotangent, seed)
                part.append(None if back is None else _product(back.T.tocsr(), pattern))
        results = [union(part) for part in parts]
        return results if several else results[0]

    def _by_pushforward(self, node: Node, own: Sequence[Any]) -> Any:
        """From the structure of the tangent by the sources' tangents."""
        with recorded_as(recording.location, True):
            seeds = [bodies.placeholder_like(s) if p is not None else None for s, p in zip(node.sources, own)]
            moved = push_forward(node, seeds)
        several = isinstance(node.dtype, tuple)
        results = []
        tangents: list[Any] = list(moved or ()) if several else [moved]
        for tangent in tangents:
            ways = [
                (self._followed(tangent, s), p) for s, p in zip(seeds, own) if s is not None and tangent is not None
            ]
            results.append(union([None if way is None else _product(way, p) for way, p in ways]))
        return results if several else results[0]

    def _followed(self, node: Node, seed: Node) -> Pattern | None:
        """The structure of a node by a placeholder."""
        order = ancestors([node], since=seed.serial, stop={seed})
        graph = Graph([seed], [node], nodes=[n for n in order if n is not seed and not has_array(n)])
        inner = Walk.__new__(Walk)
        inner.values, inner.touched, inner.graph = self.values, set(self.touched), graph
        inner.patterns = {seed: _unit(seed.size)}
        for one in graph.nodes:
            found = inner._of(one)
            if found is not None:
                inner.patterns[one] = found
        return inner.patterns.get(node)

    def body(self, graph: Graph, inputs: Sequence[Any], touched: Sequence[bool], values: Sequence[Any]) -> Walk:
        """The walk through a body."""
        return Walk(graph, inputs, touched, values)

    def known(self, nodes: Sequence[Node]) -> list[Any]:
        """The values of integers and booleans that do not depend on the variables; None for others."""
        found: list[Any] = []
        for node in nodes:
            wanted = not isinstance(node.dtype, tuple) and node.dtype not in INEXACT and node not in self.touched
            try:
                found.append(self.value(node) if wanted else None)
            except GradientError:
                found.append(None)
        return found


def _unit(n: int) -> Pattern:
    return scipy_sparse().identity(n, dtype=bool, format="csr")


def _empty(rows: int, own: Sequence[Pattern | None]) -> Pattern:
    columns = next(p.shape[1] for p in own if p is not None)
    return scipy_sparse().csr_array((rows, columns), dtype=bool)


# --- by axes --------------------------------------------------------------------------------------------------------


def _by_factors(node: Node, own: Sequence[Any]) -> Any:
    """Elements with the same place along the axes that a source and a result have in common depend on each other."""
    several = isinstance(node.dtype, tuple)
    shapes = node.shape if several else (node.shape,)
    found = factors(node)
    results = []
    for shape, labels in zip(shapes, found.results):
        parts = [
            _grouped(pattern, source.shape, mine, shape, labels, found.divisors)
            for source, mine, pattern in zip(node.sources, found.sources, own)
            if pattern is not None
        ]
        results.append(union(parts))
    return results if several else results[0]


def _grouped(pattern: Pattern, source: Any, mine: Any, shape: Any, labels: Any, divisors: Any) -> Pattern:
    sizes: dict[Any, int] = {}
    for label, n in zip(mine, source):
        same = label is not None and label in labels and shape[labels.index(label)] == n
        if same and divisors.get(label, n) % n == 0 and label not in sizes:
            sizes[label] = n
    if len(sizes) == len(source) == len(shape) and tuple(mine) == tuple(labels):
        return pattern
    into, out = _keys(source, mine, sizes), _keys(shape, labels, sizes)
    count = int(np.prod([*sizes.values()], dtype=np.int64))
    if count == into.size:  # each element of the source is a group of its own
        return selected(selected(pattern, np.argsort(into)), out)
    ones = np.ones(into.size, bool)
    sums = scipy_sparse().csr_array((ones, (into, np.arange(into.size))), shape=(count, into.size))
    return selected(_product(sums, pattern), out)


def _keys(shape: Any, labels: Any, sizes: dict[Any, int]) -> np.ndarray[Any, Any]:
    """For each element the number of its group: its place along the shared axes."""
    keys = np.zeros(shape, np.int64)
    stride = 1
    for label, n in sizes.items():
        axis = list(labels).index(label)
        keys += np.arange(n).reshape([n if i == axis else 1 for i in range(len(shape))]) * stride
        stride *= n
    return keys.ravel()


# --- bodies ---------------------------------------------------------------------------------------------------------


def _cond(walk: Walk, node: Node, own: Sequence[Any]) -> Any:
    sources, patterns = node.sources[1:], own[1:]
    touched, values = [s in walk.touched for s in sources], walk.known(sources)
    found = [walk.body(b, patterns, touched, values).outputs() for b in node.attrs["branches"]]
    return [union(both) for both in zip(*found)]


def _checkpoint(walk: Walk, node: Node, own: Sequence[Any]) -> Any:
    return walk.body(
        node.attrs["body"], own, [s in walk.touched for s in node.sources], walk.known(node.sources)
    ).outputs()


def _while(walk: Walk, node: Node, own: Sequence[Any]) -> Any:
    if node.attrs["lanes"] is not None:
        return _by_factors(node, own)
    n = node.attrs["constants"]
    touched = [s in walk.touched for s in node.sources]
    values = [*walk.known(node.sources[:n]), *[None] * (len(own) - n)]
    fixed, carry = own[:n], list(own[n:])
    while True:
        inner = walk.body(node.attrs["step"], [*fixed, *carry], touched, values)
        after = [union(both) for both in zip(carry, inner.outputs())]
        moved = [flag or o in inner.touched for flag, o in zip(touched[n:], inner.graph.outputs)]
        if [_count(p) for p in after] == [_count(p) for p in carry] and moved == touched[n:]:
            return after
        carry, touched = after, [*touched[:n], *moved]


def _count(pattern: Pattern | None) -> int:
    return -1 if pattern is None else pattern.nnz


def _scan(walk: Walk, node: Node, own: Sequence[Any]) -> Any:
    a = node.attrs
    n, m, body = a["constants"], a["constants"] + a["carries"], a["body"]
    touched, values = [s in walk.touched for s in node.sources], walk.known(node.sources)
    carry, flags, held = list(own[n:m]), touched[n:m], values[n:m]
    stacked: list[list[Any]] = [[None] * a["steps"] for _ in body.outputs[a["carries"] :]]
    for i in reversed(range(a["steps"])) if a["reverse"] else range(a["steps"]):
        xs = [None if p is None else _row(p, i, a["steps"]) for p in own[m:]]
        seen = [None if v is None else v[i] for v in values[m:]]
        inner = walk.body(
            body, [*own[:n], *carry, *xs], [*touched[:n], *flags, *touched[m:]], [*values[:n], *held, *seen]
        )
        found = inner.outputs()
        carry, flags = found[: a["carries"]], [o in inner.touched for o in body.outputs[: a["carries"]]]
        held = inner.known(body.outputs[: a["carries"]])
        for column, pattern in zip(stacked, found[a["carries"] :]):
            column[i] = pattern
    return [*carry, *[_stacked(c, o.size, own) for c, o in zip(stacked, body.outputs[a["carries"] :])]]


def _row(pattern: Pattern, i: int, steps: int) -> Pattern:
    size = pattern.shape[0] // steps
    return pattern[i * size : (i + 1) * size]


def _stacked(column: Sequence[Any], size: int, own: Sequence[Any]) -> Pattern | None:
    if all(p is None for p in column):
        return None
    return scipy_sparse().vstack([_empty(size, own) if p is None else p for p in column], format="csr")


def _custom_vjp(walk: Walk, node: Node, own: Sequence[Any]) -> Any:
    """What either mode gives: reverse mode by the rule, forward mode through the results that it was given with."""
    return [union(both) for both in zip(walk._by_pullback(node, own), own)]


def _csr_product(walk: Walk, node: Node, own: Sequence[Any]) -> Any:
    """Row i of the result reads row j of the dense operand where (i, j) is an entry, and the values of that row."""
    sparsity, columns, transposed = node.attrs["sparsity"], node.sources[1].shape[1], node.attrs["transposed"]
    ones, sparse = np.ones(sparsity.count, bool), scipy_sparse()
    matrix = sparsity.matrix(ones)
    reads = sparse.kron((matrix.T if transposed else matrix), sparse.identity(columns, dtype=bool), format="csr")
    rows = sparsity.columns if transposed else sparsity.rows
    of_row = sparse.csr_array((ones, (rows, np.arange(sparsity.count))), shape=(node.shape[0], sparsity.count))
    of_element = sparse.kron(of_row, np.ones((columns, 1), bool), format="csr")
    ways = zip((of_element, reads), own)
    return union([None if p is None else _product(sparse.csr_array(way), p) for way, p in ways])


def _sampled_product(walk: Walk, node: Node, own: Sequence[Any]) -> Any:
    """An entry (i, j) reads row i of the first operand and row j of the second."""
    sparsity, sparse = node.attrs["sparsity"], scipy_sparse()
    parts: list[Pattern | None] = []
    for places, source, pattern in zip((sparsity.rows, sparsity.columns), node.sources, own):
        k = source.shape[1]
        elements = (places[:, None].astype(np.int64) * k + np.arange(k)).ravel()
        starts = np.arange(0, elements.size + 1, k) if k else np.zeros(sparsity.count + 1, np.int64)
        reads = sparse.csr_array((np.ones(elements.size, bool), elements, starts), shape=(sparsity.count, source.size))
        parts.append(None if pattern is None else _product(reads, pattern))
    return union(parts)


_RULES: dict[Op, Callable[[Walk, Node, Sequence[Any]], Any]] = {
    COND: _cond,
    CHECKPOINT: _checkpoint,
    WHILE: _while,
    SCAN: _scan,
    CSR_PRODUCT: _csr_product,
    SAMPLED_PRODUCT: _sampled_product,
    CUSTOM_VJP: _custom_vjp,
    CUSTOM_JVP: Walk._by_pushforward,
}


def structure_of(graph: Graph, values: Sequence[Any]) -> Pattern:
    """The sparsity pattern of a graph's only output with respect to its last input, both vectors; `values` are the
    others."""
    n = graph.inputs[-1].size
    inputs = [None] * len(values)
    walk = Walk(graph, [*inputs, _unit(n)], [*[False] * len(values), True], [*values, None])
    found = walk.outputs()[0]
    rows = graph.outputs[0].size
    result = scipy_sparse().csr_array((rows, n), dtype=bool) if found is None else scipy_sparse().csr_array(found)
    result.sum_duplicates()
    result.sort_indices()
    return result
