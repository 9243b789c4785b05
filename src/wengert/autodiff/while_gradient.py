"""Reverse mode through `while_loop`: the number of steps is known only at the end, and memory is bounded.

In: a loop and the cotangents of the carry that ends it. Out: those of its constants and of the carry it begins with.
The loop runs again and stores carries as it goes, at a fixed distance. When half of the places are taken, every second
one is dropped, and the distance doubles. Then the steps are walked back: the carry before a step is computed from the
last one kept, and on that way others are kept in the free places, where they save most (`treeverse`: with s places and
t repetitions of each step, (s + t)! / (s! t!) steps). So the memory is that of the places and of one step, whatever the
number of steps. With 64 places each of 18,000 steps is computed 3 times on average before its cotangents are, of
200,000 steps 4 times.

The op is closed under differentiation. With F(x) the carry that ends a loop, G = F'(x)^T g and the tangent loop
(x, t) -> (F(x), F'(x) t), a cotangent rule of the tangent loop gives both derivatives of G, so that nothing is ever
differentiated through the stored carries.

Griewank, "Achieving logarithmic growth of temporal and spatial complexity in reverse automatic differentiation", 1992.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from wengert.autodiff import body as bodies
from wengert.autodiff.cond import WhileLoop, cond, record_while, tangent_loop, while_loop
from wengert.autodiff.lanes import apart, over_lanes
from wengert.autodiff.reverse import or_zero, zero_like
from wengert.core.devices import HOST
from wengert.core.dtypes import int64
from wengert.core.graph import Graph, Node
from wengert.ops.core import data, literal, placeholder, to_device
from wengert.ops.elementwise import add, equal, floor_divide, less, logical_and, minimum, multiply, subtract, where
from wengert.ops.gather import index_put, take
from wengert.ops.movement import broadcast_to, expand_dims, reshape
from wengert.ops.op import Op, count_lanes, picks
from wengert.ops.reduce import sum as sum_of
from wengert.tensor import Tensor


def record_gradient(loop: WhileLoop, seeds: Sequence[Node], places: int, lanes: int | None = None) -> list[Node]:
    """The cotangents of a loop's constants and of its initial carry, where they have some; for all lanes together."""
    found = _of_each_lane(loop, seeds, places, lanes)
    return _summed(found, [*loop.constants, *loop.initial], lanes)


def _summed(found: Sequence[Any], sources: Sequence[Node], lanes: int | None) -> list[Node]:
    """Cotangents of all lanes, added for sources that the lanes share."""
    floating = [source for source in sources if bodies.has_tangents(source)]
    return [
        one if lanes is None or source.shape[0] == lanes else sum_of(one, axis=0, keepdims=True)
        for one, source in zip(found, floating)
    ]


def _of_each_lane(loop: WhileLoop, seeds: Sequence[Node], places: int, lanes: int | None) -> list[Node]:
    """The cotangents of a loop's constants and first carry, in each lane."""
    n, count = len(loop.constants), len(loop.constants) + len(loop.initial)
    given = [*loop.constants, *loop.initial, *seeds]
    device = _device_of(given)  # counters of the host's are kept beside the rest
    sources = [to_device(node, device) for node in given]
    if not any(bodies.has_tangents(node) for node in sources[:count]):
        return []
    pulled = bodies.cotangent_body(loop.step)

    def gradient(*leaves: Tensor) -> list[Tensor]:
        nodes = [leaf.node for leaf in leaves]
        inner = WhileLoop(loop.test, loop.step, nodes[:n], nodes[n:count])
        return [Tensor(node) for node in _walked(inner, pulled, nodes[count:], places)]

    one = [Tensor(placeholder(node.shape, node.dtype, device)) for node in pulled.inputs]
    body = bodies.record("while_loop", gradient, one).graph
    graphs = {"test": loop.test, "step": loop.step, "pulled": pulled, "body": body}
    return list(picks(WHILE_GRADIENT(*sources, **graphs, constants=n, checkpoints=places, lanes=lanes)))


# --- the two loops --------------------------------------------------------------------------------------------------


class _Kept:
    """The slots: how many are in use, the steps whose carries they hold, and those carries."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self.used, self.marks, *self.carries = (tensor.node for tensor in tensors)

    def leaves(self) -> list[Tensor]:
        return [Tensor(node) for node in (self.used, self.marks, *self.carries)]

    def top(self) -> tuple[Node, list[Node]]:
        """The last step that is kept, and its carry."""
        last = subtract(self.used, _number(1))
        return take(self.marks, last, axis=0), [take(carry, last, axis=0) for carry in self.carries]

    def with_one(self, mark: Node, carry: Sequence[Node]) -> list[Tensor]:
        """One more place taken."""
        marks = index_put(self.marks, (self.used,), mark)
        held = [index_put(whole, (self.used,), one) for whole, one in zip(self.carries, carry)]
        return [Tensor(node) for node in (add(self.used, _number(1)), marks, *held)]


def _device_of(carry: Sequence[Node]) -> str:
    """The GPU that a loop's values are on, or the host."""
    return next((node.device for node in carry if node.device != HOST), HOST)


def _number(value: int, device: str = HOST) -> Node:
    return literal(value, int64, device)


def _places(count: int, carry: Sequence[Node], device: str) -> list[Tensor]:
    whole = [broadcast_to(expand_dims(zero_like(one), 0), (count, *one.shape)) for one in carry]
    marks = broadcast_to(_number(0, device), (count,))
    return [Tensor(node) for node in (_number(0, device), marks, *whole)]


def _walked(loop: WhileLoop, pulled: Graph, seeds: Sequence[Node], places: int) -> list[Node]:
    steps, kept = _run_keeping(loop, places)
    floating = [bodies.has_tangents(node) for node in loop.constants]
    totals = [zero_like(node) for node, has in zip(loop.constants, floating) if has]
    start = (Tensor(steps), kept, [Tensor(s) for s in seeds], [Tensor(t) for t in totals])

    def back(state: Any) -> Any:
        left, kept, seeds, totals = state
        before = subtract(left.node, _number(1))
        kept, carry = _reached(loop, kept, before, places)
        found = pulled.inline(*loop.constants, *carry, *[seed.node for seed in seeds])
        more, through = found[: len(totals)], found[len(totals) :]
        held = _Kept(kept)
        used = subtract(held.used, where(equal(held.top()[0], before), _number(1), _number(0)))
        sums = [Tensor(add(total.node, one)) for total, one in zip(totals, more)]
        return Tensor(before), [Tensor(used), *kept[1:]], [Tensor(node) for node in through], sums

    _, _, through, totals = while_loop(lambda state: state[0] > 0, back, start)
    return [*[total.node for total in totals], *[one.node for one in through]]


def _run_keeping(loop: WhileLoop, places: int) -> tuple[Node, list[Tensor]]:
    """The number of steps of a loop, and the carries that were kept: at most every second slot is used."""
    most = places // 2

    def goes_on(carry: Sequence[Tensor]) -> Tensor:
        return Tensor(loop.test.inline(*loop.constants, *[one.node for one in carry])[0])

    def stretch(state: Any) -> Any:
        """Keep a carry and go on to the next that may be kept."""
        carry, count, distance, kept = state
        full = equal(kept[0].node, _number(most))
        distance = Tensor(where(full, multiply(distance.node, _number(2)), distance.node))
        kept = cond(Tensor(full), lambda *kept: _every_second(kept), lambda *kept: list(kept), *kept)
        kept = _Kept(kept).with_one(count.node, [one.node for one in carry])
        until = add(count.node, distance.node)
        carry, count = while_loop(
            lambda now: Tensor(logical_and(goes_on(now[0]).node, less(now[1].node, until))),
            lambda now: _stepped(loop, now),
            (carry, count),
        )
        return carry, count, distance, kept

    carry = [Tensor(node) for node in loop.initial]
    device = _device_of(loop.initial)
    start = (carry, Tensor(_number(0, device)), Tensor(_number(1, device)), _places(places, loop.initial, device))
    _, count, _, kept = while_loop(lambda state: goes_on(state[0]), stretch, start)
    return count.node, kept


def _stepped(loop: WhileLoop, now: Any) -> Any:
    carry, count = now
    after = loop.step.inline(*loop.constants, *[one.node for one in carry])
    return [Tensor(node) for node in after], Tensor(add(count.node, _number(1)))


def _every_second(kept: Sequence[Tensor]) -> list[Tensor]:
    used, *rest = (one.node for one in kept)
    places = rest[0].shape[0]
    order = data(np.minimum(2 * np.arange(places), places - 1))
    thinned = [take(whole, order, axis=0) for whole in rest]
    return [Tensor(node) for node in (floor_divide(used, _number(2)), *thinned)]


def _reached(loop: WhileLoop, kept: Sequence[Tensor], goal: Node, places: int) -> tuple[Sequence[Tensor], list[Node]]:
    """The carry before a step, computed from the last one kept, and the carries kept on the way."""

    def onwards(state: Any) -> Any:
        kept, mark, carry = state
        free = subtract(_number(places), kept[0].node)
        left = subtract(goal, mark.node)
        until = add(mark.node, _next(left, free, places))
        carry, mark = while_loop(
            lambda now: Tensor(less(now[1].node, until)), lambda now: _stepped(loop, now), (carry, mark)
        )
        keeps = logical_and(less(_number(0), free), less(mark.node, goal))
        kept = cond(
            Tensor(keeps),
            lambda mark, carry, *kept: _Kept(kept).with_one(mark.node, [one.node for one in carry]),
            lambda mark, carry, *kept: list(kept),
            *(mark, carry, *kept),
        )
        return kept, mark, carry

    mark, carry = _Kept(kept).top()
    start = (list(kept), Tensor(mark), [Tensor(node) for node in carry])
    kept, _, found = while_loop(lambda state: Tensor(less(state[1].node, goal)), onwards, start)
    return kept, [one.node for one in found]


_REPETITIONS = 64


def _next(left: Node, free: Node, places: int) -> Node:
    """The distance to the next carry to keep, for this many steps and free slots."""
    table = np.array([[_reversible(s, t) for t in range(1, _REPETITIONS + 1)] for s in range(places + 1)])
    fewer = less(take(data(table), free, axis=0), add(left, _number(1)))
    repetitions = minimum(add(sum_of(where(fewer, _number(1), _number(0)), axis=0), _number(1)), _number(_REPETITIONS))
    both = add(repetitions, free)
    # the share of the way is repetitions / (repetitions + places), rounded up; products of both stay below 2**63
    return floor_divide(subtract(add(multiply(left, repetitions), both), _number(1)), both)


def _reversible(places: int, repetitions: int) -> int:
    """The number of steps that can be walked back with this many slots, computing each at most this many times."""
    return min(math.comb(places + repetitions, places), 2**62)


# --- the op ---------------------------------------------------------------------------------------------------------


def _infer(*sources: Node, body: Graph, lanes: int | None, **attrs: Any) -> Any:
    lead = () if lanes is None else (lanes,)
    return tuple((*lead, *n.shape) for n in body.outputs), tuple(n.dtype for n in body.outputs)


def _numpy(*arrays: Any, body: Graph, lanes: int | None, **attrs: Any) -> Any:
    if lanes is not None:
        flags = tuple(array.shape[0] == lanes for array in arrays)
        arrays = tuple(array if flag else array[0] for array, flag in zip(arrays, flags))
        body = _over_lanes(body, lanes, flags)
    return tuple(body(*arrays))


@lru_cache(maxsize=64)
def _over_lanes(body: Graph, lanes: int, flags: tuple[bool, ...]) -> Graph:
    return bodies.batched_body(body, lanes, flags, [True] * len(body.outputs))[0]


def in_lockstep(y: Node) -> list[Node]:
    """The cotangents of a loop; for a loop over lanes, by loops that step all lanes at once."""
    body, lanes, sources = y.attrs["body"], y.attrs["lanes"], list(y.sources)
    if lanes is not None:
        flags = [source.shape[0] == lanes for source in sources]
        sources = [one if flag else reshape(one, one.shape[1:]) for one, flag in zip(sources, flags)]
        body = bodies.batched_body(body, lanes, flags, [True] * len(body.outputs))[0]
    return list(body.inline(*sources))


def _parts(y: Node, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """The results for the constants and the first carry, and those for the cotangents."""
    count = len(y.attrs["step"].inputs)
    return values[:count], values[count:]


def _with_tangents(y: Node, tangents: Sequence[Node | None], seeds: Sequence[Node | None]) -> list[Node | None]:
    """The cotangents of a loop's values in the tangent loop; `seeds` are those of its final values."""
    sources, given = _parts(y, y.sources)
    attrs = y.attrs
    n = attrs["constants"]
    moving = [s for s in sources if bodies.has_tangents(s)]
    loop = tangent_loop(attrs["test"], attrs["step"], n, sources, tangents)
    every = [*[or_zero(s, g) for s, g in zip(seeds, given)], *given]
    found = _of_each_lane(loop, every, attrs["checkpoints"], attrs["lanes"])
    first = sum(bodies.has_tangents(s) for s in sources[:n])
    return [*found[:first], *found[2 * first : first + len(moving)]]


def _jvp(tangents: Sequence[Node | None], y: Node, *sources: Node) -> list[Node | None]:
    moved, seeds = _parts(y, tangents)
    return _with_tangents(y, moved, seeds)


def _vjp(g: Sequence[Node | None], y: Node) -> list[Node | None]:
    sources, given = _parts(y, y.sources)
    attrs = y.attrs
    n, found = attrs["constants"], iter(g)
    along = [next(found) if bodies.has_tangents(s) else None for s in sources]
    by_source = iter(_summed(_with_tangents(y, along, [None] * len(given)), sources, attrs["lanes"]))
    loop = tangent_loop(attrs["test"], attrs["step"], n, sources, along)
    by_seed = record_while(*loop, attrs["checkpoints"], attrs["lanes"])[len(sources) - n :]
    return [*[next(by_source) if bodies.has_tangents(s) else None for s in sources], *by_seed]


def _batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    lanes, inner = count_lanes(sources, batched), y.attrs["lanes"]
    values = over_lanes(sources, batched, lanes, inner, range(y.attrs["constants"]))
    every = lanes if inner is None else lanes * inner
    return apart(WHILE_GRADIENT(*values, **{**y.attrs, "lanes": every}), lanes, inner)


WHILE_GRADIENT = Op(
    "while_gradient",
    infer=_infer,
    numpy=_numpy,
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    expensive=True,
    kind="function",
)
