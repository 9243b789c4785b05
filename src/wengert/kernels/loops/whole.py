"""A loop or branch for one lane, from its first step to its last: run by a GPU thread, or by an iteration of a C loop.

In: the loop, its lanes, and the names of its buffers. Out: lines of code, in which `lane` is the lane's number. Each
step reads its elements of sequences and writes its elements of stacked outputs. A `while_loop` over lanes has graphs of
a single lane: each lane continues until it ends separately.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from wengert.autodiff.cond import COND, WHILE
from wengert.autodiff.scan import SCAN
from wengert.autodiff.while_gradient import WHILE_GRADIENT
from wengert.compiler.loop_lanes import NO_LANES, LaneAxes, bodies_of, ends_by_itself, lanes_of_function
from wengert.core.graph import Node
from wengert.kernels.ir.loops import DType
from wengert.kernels.loops.elements import Language, Straight
from wengert.kernels.loops.limits import LARGE, large_carries, why_not
from wengert.kernels.loops.values import Elements, InArray, array_of, places_of
from wengert.kernels.loops.walk_back import place_bytes
from wengert.kernels.writer import Page, narrowed, widened
from wengert.ops.core import LITERAL, placeholder
from wengert.ops.movement import BROADCAST, RESHAPE


def known_number(node: Node) -> Node | None:
    """The number that every element of a value is, if it is one that the text may hold."""
    while node.op in (BROADCAST, RESHAPE):
        node = node.sources[0]
    return node if node.op is LITERAL else None


def lanes_by_form(node: Node) -> list[LaneAxes]:
    """The possible lanes of a loop or branch, best first; `NO_LANES` is a single lane for everything."""
    if ends_by_itself(node):
        count = node.attrs["lanes"]
        return [LaneAxes(count, {source: (0,) for source in node.sources if source.shape[0] == count})]
    found = lanes_of_function(node)
    return [found, NO_LANES] if found is not None else [NO_LANES]


def why_not_whole(node: Node, lanes: LaneAxes) -> str | None:
    """Why a loop or branch cannot be written for one lane; None where it can."""
    if node.op not in (SCAN, WHILE, COND, WHILE_GRADIENT):
        return f"{node.op.name} is a function of the user's own"
    bodies = bodies_of(node)
    inside = NO_LANES if ends_by_itself(node) else lanes
    reasons = [large_carries(node, inside), *(why_not(body, inside, True) for body in bodies)]
    ends = [one for body in bodies for one in (*body.inputs, *body.outputs)]
    if any(math.prod(inside.shape(one)) > LARGE for one in ends):
        reasons.append(f"a value has more than {LARGE} elements for each lane")
    return next(filter(None, reasons), None)


def lane_bytes(node: Node, lanes: LaneAxes) -> int:
    """The bytes that a lane needs for what loops inside stack up, and for the carries that a walk back keeps."""
    inside = [one for body in bodies_of(node) for one in body.nodes if isinstance(one.dtype, tuple)]
    total = sum(lane_bytes(one, lanes) + _stack_bytes(one, lanes) for one in inside if bodies_of(one))
    return total + (place_bytes(node) if node.op is WHILE_GRADIENT else 0)


def _stack_bytes(node: Node, lanes: LaneAxes) -> int:
    if node.op is not SCAN:
        return 0
    ys = node.attrs["body"].outputs[node.attrs["carries"] :]
    return int(node.attrs["steps"] * sum(math.prod(lanes.shape(y)) * max(y.dtype.itemsize, 4) for y in ys))


class WholeLanes(Straight):
    """A loop or branch as it is written for one lane."""

    def __init__(self, loop: Node, lanes: LaneAxes, language: Language) -> None:
        self.given: Sequence[Node] = loop.sources
        if ends_by_itself(loop):
            self.made: Sequence[Node] = [placeholder(*kind) for kind in zip(loop.shape, loop.dtype)]
            lanes = LaneAxes(lanes.count, {**lanes.axes, **dict.fromkeys(self.made, (0,))})
        else:
            body = bodies_of(loop)[-1]
            self.given = [loop.sources[0], *body.inputs] if loop.op is COND else body.inputs
            self.made = body.outputs
        super().__init__(Page(), lanes, None, language)
        self.loop = loop

    def source(self, number: int) -> str:
        """The name of a source's buffer in the text."""
        raise TypeError("a language says what its buffers are called")

    def result(self, number: int, dtype: DType) -> str | None:
        """The name of a result's buffer in the text; None if nothing reads it."""
        raise TypeError("a language says what its buffers are called")

    # --- memory -------------------------------------------------------------------------------------------------------

    def _place(self, node: Node, place: str, t: str) -> str:
        """Where the element of a value lies that has this place in the first lane; of a stack, in step t."""
        stride = self.lanes.stride(node)
        parts = f"{t} * {node.size}" if t else "", f"{stride} * lane" if stride else "", place
        return " + ".join(filter(None, parts))

    def load(self, number: int, t: str = "") -> Any:
        """An operand, as variables if it is small. A literal is part of the text."""
        source, node = self.loop.sources[number], self.given[number]
        known = known_number(source)
        if known is not None:
            shape = self.lanes.shape(node)
            return array_of(shape, [Straight.node(self, known, ()).item()] * math.prod(shape))
        buffer = self.source(number)
        places = np.array(list(places_of(node, self.lanes)), np.int64).reshape(self.lanes.shape(node))

        def text(place: str) -> str:
            return widened(source.dtype, f"{buffer}[{self._place(node, place, t)}]")

        return self.read_small(node, InArray(text, places))

    def keep(self, number: int, value: Any, t: str = "") -> None:
        """Store a result that is read: each lane its own part, the first lane what all share."""
        node = self.made[number]
        buffer = self.result(number, node.dtype)
        if buffer is None:
            return
        shared = self.lanes.count > 1 and not self.lanes.has(node)
        if shared:
            self.page.open("if (lane == 0)")
        at = [self._place(node, str(place), t) for place in places_of(node, self.lanes)]
        self.store(node, value, lambda place: f"{buffer}[{place}]", at, partial(narrowed, node.dtype))
        if shared:
            self.page.close()

    # --- the steps ----------------------------------------------------------------------------------------------------

    def body(self) -> list[Elements]:
        """Write what a lane does; the carry that ends it."""
        if self.loop.op is SCAN:
            return self._scan()
        values = [self.load(number) for number in range(len(self.given))]
        results: list[Elements] = Straight.node(self, self.loop, values)
        for number, value in enumerate(results):
            self.keep(number, value)
        return results

    def _scan(self) -> list[Elements]:
        c, n = self.loop.attrs["constants"], self.loop.attrs["carries"]
        outside = [self.load(number) for number in range(c)]
        first = [self._first(k, self.given[c + k]) for k in range(n)]
        carry = self.steps(
            self.loop,
            outside,
            first,
            lambda k, t: self.load(c + n + k, t),
            lambda k, t, value: self.keep(n + k, value, t),
        )
        for number, value in enumerate(carry):
            if number not in self.lanes.totals:
                self.keep(number, value)
        return carry

    def _first(self, k: int, node: Node) -> Elements:
        """The carry that a lane begins with: a total over lanes with nothing."""
        if k in self.lanes.totals:
            return array_of(node.shape, ["0"] * node.size)
        return self.read(node, self.load(self.loop.attrs["constants"] + k))
