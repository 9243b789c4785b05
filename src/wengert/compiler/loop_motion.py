"""Loop code motion: work that a step does not need to do itself moves before or after the loop, for all steps at once.

`loop_dce`: removes carries that lead to no result, unread results and duplicate operands. A carry that no step changes
becomes a constant, a number becomes part of the body, and a result that equals a sequence the steps read becomes that
sequence.

`loop_invariants`: computes what is the same in every step once, before a `scan` or `while_loop`. Movement ops stay in
the loop, as index maps are free. An op that may fail moves only out of a loop that has at least one step.

`loop_inputs`: products of the steps' inputs that depend on no carry become one product for all steps before the scan,
together with the elementwise ops on it: an LSTM's `x @ W + b`. If an earlier scan computes the same product in its
steps, that scan stacks it instead: see `loop_kept`.

`loop_outputs`: products that no carry depends on become one product for all steps after the scan. The scan stacks their
operands instead of their results: a readout `h @ W`, or the cotangents of a step's inputs.

A value moved out of a loop is stored for all steps, so the move must be worth it: `INTENSITY` floating-point operations
per additional byte stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from wengert.autodiff.cond import WHILE
from wengert.autodiff.scan import SCAN
from wengert.compiler.cleanup import live
from wengert.compiler.loop_kept import keep_products
from wengert.compiler.loops import (
    INTENSITY,
    OpenScan,
    Stacked,
    base_of,
    bytes_of,
    invariants,
    is_constant,
    leading_to,
    may_be_stacked,
    moves,
    opened,
    placeholder_for,
    replaced,
)
from wengert.compiler.rewrite import depending, for_ops, over, spend
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.graph import Graph, Node
from wengert.ops.core import LITERAL
from wengert.ops.facts import FUNCTION
from wengert.ops.movement import broadcast_to
from wengert.ops.op import picks

# --- dead code ------------------------------------------------------------------------------------------------------


@for_ops(SCAN)
def loop_dce(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with scans that carry, read and stack only what is needed.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = wg.Tensor(placeholder((5, 3), wg.float32))
    >>> (a, dead), _ = wg.scan(lambda c, x: ((c[0] + x, c[1] * x), x), (wg.zeros(3), wg.ones(3)), x)
    >>> [node.attrs["carries"] for node in loop_dce(Graph([x.node], [a.node])).nodes if node.op is SCAN]
    [1]
    """
    return replaced(graph, SCAN, _trimmed)


def _trimmed(node: Node, picked: Collection[int]) -> Sequence[Node | None] | None:
    loop, n = opened(node), node.attrs["carries"]
    before = _size(loop)
    _with_numbers(loop)
    _merge_equal(loop)
    needed = _needed_carries(loop, picked)
    unchanged = {i for i in range(n) if loop.next[i] is loop.carried[i]}
    kept = [i for i in range(n) if i in needed and i not in unchanged]
    results: dict[int, Node | None] = {i: loop.initial[i] for i in unchanged}
    loop.constants += [loop.initial[i] for i in sorted(unchanged)]
    loop.fixed += [loop.carried[i] for i in sorted(unchanged)]
    given = {y: found for y in loop.ys if (found := _given(loop, y)) is not None}
    ys, loop.ys = loop.ys, []
    places = {n + j: loop.stack(y) for j, y in enumerate(ys) if n + j in picked and y not in given}
    loop.initial, loop.carried, loop.next = (
        [part[i] for i in kept] for part in (loop.initial, loop.carried, loop.next)
    )
    loop.drop_unread()
    size = _size(loop)
    if size == before or not spend(node, lambda: f"scan goes from {before} operands and results to {size}"):
        return None
    inputs = [*loop.fixed, *loop.carried, *loop.items]
    body = loop_dce(
        Graph(inputs, [*loop.next, *loop.ys], nodes=loop.nodes), HOST_TARGET
    )  # operands that are no longer used
    loop.nodes, loop.next, loop.ys = list(body.nodes), list(body.outputs[: len(kept)]), list(body.outputs[len(kept) :])
    made = loop.record()
    results |= {i: made[k] for k, i in enumerate(kept)} | {i: made[len(kept) + k] for i, k in places.items()}
    results |= {n + j: given[y]() for j, y in enumerate(ys) if n + j in picked and y in given}
    return [results.get(i) for i in range(n + len(ys))]


def _with_numbers(loop: OpenScan) -> None:
    """Put literals that the body (or an inner scan) reads into the body, where they can be folded."""
    numbers = {given: source for given, source in zip(loop.fixed, loop.constants) if source.op is LITERAL}
    if not numbers:
        return
    replacing = {given: LITERAL(dtype=source.dtype, value=source.attrs["value"]) for given, source in numbers.items()}
    nodes = list(replacing.values())
    for node in loop.nodes:
        current = over(node, replacing)
        if current.op is SCAN and current is not node and current.shape:
            inner = opened(current)
            _with_numbers(inner)
            current = inner.record()[0].sources[0]
        if current is not node:
            replacing[node] = current
        nodes.append(current)
    loop.nodes = nodes
    loop.next = [replacing.get(node, node) for node in loop.next]
    loop.ys = [replacing.get(node, node) for node in loop.ys]
    loop.drop_unread()


def _given(loop: OpenScan, y: Node) -> Callable[[], Node] | None:
    """A replacement for a stacked output that no step computes, if there is one."""
    if y in loop.items:
        whole = loop.xs[loop.items.index(y)]
        return lambda: whole
    if y in loop.fixed or (y not in loop.computed and is_constant(y)):
        once = loop.constants[loop.fixed.index(y)] if y in loop.fixed else y
        return lambda: broadcast_to(once, (loop.steps, *once.shape))
    return None


def _size(loop: OpenScan) -> int:
    return len(loop.constants) + 2 * len(loop.initial) + len(loop.xs) + len(loop.ys)


def _merge_equal(loop: OpenScan) -> None:
    """Let the body read each operand through a single input."""
    replacing: dict[Node, Node] = {}
    for sources, inputs in ((loop.constants, loop.fixed), (loop.xs, loop.items)):
        first: dict[Node, Node] = {}
        for source, given in zip(sources, inputs):
            if first.setdefault(source, given) is not given:
                replacing[given] = first[source]
    if replacing:
        loop.replace(replacing)


def _needed_carries(loop: OpenScan, picked: Collection[int]) -> set[int]:
    """The carries that lead to results that are read, through any number of steps."""
    n = len(loop.next)
    needed = {i for i in picked if i < n}
    while True:
        wanted = [*[loop.next[i] for i in needed], *[y for j, y in enumerate(loop.ys) if n + j in picked]]
        reached = leading_to(loop.nodes, wanted)
        more = needed | {i for i in range(n) if loop.carried[i] in reached}
        if more == needed:
            return needed
        needed = more


# --- the same in every step -----------------------------------------------------------------------------------------


@for_ops(SCAN, WHILE)
def loop_invariants(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with loop-invariant values computed before their loops.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x, w = (wg.Tensor(placeholder((3,), wg.float32)) for _ in range(2))
    >>> last, _ = wg.scan(lambda c, _: (c * wg.exp(w), None), x, length=5)
    >>> [node.op.name for node in loop_invariants(Graph([x.node, w.node], [last.node])).nodes]
    ['exp', 'scan', 'pick']
    """
    return replaced(replaced(graph, SCAN, _out_of_scan), WHILE, _out_of_while)


def _out_of_scan(node: Node, picked: Collection[int]) -> Sequence[Node] | None:
    loop = opened(node)
    found = _worth_moving(loop.nodes, loop.fixed, [*loop.next, *loop.ys], may_fail=True)
    if not found or not loop.steps or not spend(node, lambda: f"{_names(found)} leaves a scan"):
        return None
    outside = Stacked(zip(loop.fixed, loop.constants))
    outside.record(_cone(loop.nodes, found))
    loop.constants += [outside.once[one] for one in found]
    inside = {one: placeholder_for(one) for one in found}
    loop.fixed += inside.values()
    loop.replace(inside)
    return loop.record()


def _out_of_while(node: Node, picked: Collection[int]) -> Sequence[Node] | None:
    if node.attrs["lanes"] is not None:
        return None  # its graphs describe one lane
    n = node.attrs["constants"]
    graphs = {name: node.attrs[name] for name in ("test", "step")}
    found = {k: _worth_moving(g.nodes, g.inputs[:n], g.outputs, may_fail=False) for k, g in graphs.items()}
    every = [one for values in found.values() for one in values]
    if not every or not spend(node, lambda: f"{_names(every)} leaves a while_loop"):
        return None
    moved: list[Node] = []
    for name, body in graphs.items():
        outside = Stacked(zip(body.inputs[:n], node.sources[:n]))
        outside.record(_cone(body.nodes, found[name]))
        moved += [outside.once[one] for one in found[name]]
    attrs = {name: _reading(body, n, every, found[name]) for name, body in graphs.items()}
    constants = n + len(every)
    return picks(WHILE(*node.sources[:n], *moved, *node.sources[n:], **{**node.attrs, **attrs, "constants": constants}))


def _reading(body: Graph, n: int, values: Sequence[Node], own: Collection[Node]) -> Graph:
    """A body that takes values as additional constants, including some that it used to compute."""
    inputs = [placeholder_for(value) for value in values]
    replacing = {value: given for value, given in zip(values, inputs) if value in own}
    nodes = []
    for node in body.nodes:
        if node not in replacing:
            current = over(node, replacing)
            if current is not node:
                replacing[node] = current
            nodes.append(current)
    outputs = [replacing.get(node, node) for node in body.outputs]
    return live(Graph([*body.inputs[:n], *inputs, *body.inputs[n:]], outputs, nodes=nodes))


def _worth_moving(nodes: Sequence[Node], fixed: Sequence[Node], outputs: Sequence[Node], may_fail: bool) -> list[Node]:
    """The invariant values that cost something and are read by values that vary."""
    same = invariants([node for node in nodes if may_fail or not node.op.can_fail], fixed)
    worth = {node for node in nodes if node in same and _costs(node)}
    moved = leading_to(nodes, worth)
    read = {source for node in nodes if node not in moved for source in node.sources}.union(outputs)
    return [node for node in nodes if node in worth and node in read]


def _costs(node: Node) -> bool:
    """Whether a value needs arithmetic, and is either no larger than its operands or expensive."""
    if type(node.dtype) is tuple or not node.sources:
        return False
    if node.op.kind == "elementwise":
        return node.op.cost >= FUNCTION or node.size <= max(source.size for source in node.sources)
    return node.op.kind in ("reduction", "opaque", "tuple")


def _cone(nodes: Sequence[Node], values: Sequence[Node]) -> list[Node]:
    """These values and all nodes that they are computed from."""
    needed = leading_to(nodes, values)
    return [node for node in nodes if node in needed]


def _names(nodes: Sequence[Node]) -> str:
    return ", ".join(node.op.name for node in nodes)


# --- before the steps -----------------------------------------------------------------------------------------------


@for_ops(SCAN)
def loop_inputs(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with products of the steps' inputs computed for all steps, before their scans.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x, w = (wg.Tensor(placeholder(shape, wg.float32)) for shape in ((9, 4, 64), (64, 64)))
    >>> last, _ = wg.scan(lambda h, x: (wg.tanh(h + x @ w), None), wg.zeros((4, 64)), x)
    >>> [node.op.name for node in loop_inputs(Graph([x.node, w.node], [last.node])).nodes if node.sources]
    ['broadcast_to', 'matmul', 'scan', 'pick']
    """
    if target.budget is None:
        graph = keep_products(graph, _input_products)
    return replaced(graph, SCAN, _before_scan)


def _input_products(loop: OpenScan) -> set[Node]:
    """The products of the sequences stepped over, and the elementwise ops that follow them."""
    known = invariants([one for one in loop.nodes if moves(one) or not one.sources], [*loop.fixed, *loop.items])
    stepwise = depending(loop.nodes, loop.items) & known
    chosen: set[Node] = set()
    for one in loop.nodes:
        if one in stepwise and (_is_product(one) or _follows(one, chosen)):
            chosen.add(one)
    return chosen


def _before_scan(node: Node, picked: Collection[int]) -> Sequence[Node] | None:
    loop = opened(node)
    chosen = _input_products(loop)
    moved = leading_to(loop.nodes, chosen)
    read = {source for one in loop.nodes if one not in moved for source in one.sources}.union(loop.next, loop.ys)
    found = [one for one in loop.nodes if one in chosen and one in read]
    if not found or not loop.steps or not spend(node, lambda: f"{_names(found)} of all steps stands before a scan"):
        return None
    outside = Stacked(zip(loop.fixed, loop.constants), zip(loop.items, loop.xs))
    outside.record(_cone(loop.nodes, found))
    loop.xs += [outside.whole[one] for one in found]
    inside = {one: placeholder_for(one) for one in found}
    loop.items += inside.values()
    loop.replace(inside)
    return loop.record()


def _is_product(node: Node) -> bool:
    """Whether an op does enough work per byte of its result to be worth storing."""
    if node.op.kind != "opaque" or type(node.dtype) is tuple:
        return False
    return node.op.flops(node) >= INTENSITY * bytes_of(node)


def _follows(node: Node, chosen: Collection[Node]) -> bool:
    """Whether an elementwise op can be applied to a product of all steps without taking more memory."""
    if node.op.kind != "elementwise":
        return False
    sizes = [source.size * source.dtype.itemsize for source in node.sources if source in chosen]
    return bool(sizes) and bytes_of(node) <= max(sizes)


# --- after the steps ------------------------------------------------------------------------------------------------


@for_ops(SCAN)
def loop_outputs(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with products that no later step reads computed for all steps, after their scans.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x, w = (wg.Tensor(placeholder(shape, wg.float32)) for shape in ((9, 4, 64), (64, 64)))
    >>> _, ys = wg.scan(lambda h, x: ((h := wg.tanh(h + x)), h @ w), wg.zeros((4, 64)), x)
    >>> [node.op.name for node in loop_outputs(Graph([x.node, w.node], [ys.node])).nodes if node.sources]
    ['broadcast_to', 'scan', 'pick', 'matmul']
    """
    return replaced(graph, SCAN, _after_scan)


def _after_scan(node: Node, picked: Collection[int]) -> Sequence[Node | None] | None:
    loop, n = opened(node), node.attrs["carries"]
    if not loop.steps:
        return None
    same = invariants(loop.nodes, loop.fixed)
    early = leading_to(loop.nodes, loop.next)
    late = [one for one in loop.nodes if one not in same and one not in early]
    sunk: set[Node] = set()
    for one in late:
        if one.op.kind == "opaque" and one not in sunk:
            more = sunk | depending(loop.nodes, [one])
            if all(moves(each) and type(each.dtype) is not tuple for each in more) and _pays(loop, more, same):
                sunk = more
    if not sunk or not spend(
        node, lambda: f"{_names([o for o in late if o in sunk])} of all steps stands after a scan"
    ):
        return None
    values, paths = _read_by(loop, sunk, same)
    ys = loop.ys
    loop.ys = [y for y in ys if y not in sunk]
    stacked = {value: loop.stack(value) for value in values if value not in loop.items}
    made, carries = loop.record(), len(loop.next)
    outside = Stacked(zip(loop.fixed, loop.constants), zip(loop.items, loop.xs))
    outside.whole |= {value: made[carries + place] for value, place in stacked.items()}
    needed = leading_to([one for one in loop.nodes if one in same], {s for one in sunk | paths for s in one.sources})
    outside.record(one for one in loop.nodes if one in sunk or one in paths or (one in same and one in needed))
    rest = [outside.whole[y] if y in sunk else made[carries + loop.stack(y)] for y in ys]
    return [*made[:n], *rest]


def _read_by(loop: OpenScan, sunk: Collection[Node], same: Collection[Node]) -> tuple[list[Node], set[Node]]:
    """What a loop must stack for nodes that leave it, and the movement ops that leave with them."""
    values: dict[Node, None] = {}
    paths: set[Node] = set()
    for node in loop.nodes:
        for source in node.sources if node in sunk else ():
            if source not in sunk and source not in same and not is_constant(source):
                base, path = base_of(source, loop.computed)
                values[base] = None
                paths.update(path)
    return list(values), paths


def _pays(loop: OpenScan, sunk: set[Node], same: Collection[Node]) -> bool:
    """Whether the work of nodes that leave a loop justifies what is stacked for them in addition."""
    values, _ = _read_by(loop, sunk, same)
    left = set(loop.ys) - sunk
    if not all(may_be_stacked(value) for value in values if value not in left):
        return False
    more = sum(bytes_of(value) for value in values if value not in loop.items and value not in left)
    less = sum(bytes_of(y) for y in set(loop.ys) & sunk)
    work = sum(node.op.flops(node) for node in sunk if node.op.kind == "opaque")
    return work >= INTENSITY * max(more - less, 1)
