"""The cotangents of a `while_loop`, step by step: what `autodiff/while_gradient` records, as one piece of text.

In: the loop's test and step, and the graph of a step's cotangents. Out: lines that run the loop, keep carries in
per-lane arrays, and walk back. The schedule is that of `while_gradient`: half of the slots are filled on the way
forward, every second carry is dropped when they are full, and on the way back other carries are kept where that saves
most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wengert.autodiff.body import has_tangents
from wengert.core.dtypes import int64
from wengert.core.graph import Node
from wengert.kernels.loops.values import Elements, array_of, rounded
from wengert.kernels.writer import c_literal

if TYPE_CHECKING:
    from wengert.kernels.loops.elements import Straight

PLACES_BYTES = 2048  # per lane; fewer slots than requested mean more recomputation
REPETITIONS = 64


def place_count(node: Node) -> int:
    """How many carries a lane keeps."""
    carried = node.attrs["step"].outputs
    each = 8 + sum(one.size * max(one.dtype.itemsize, 4) for one in carried)
    return int(min(node.attrs["checkpoints"], max(PLACES_BYTES // each, 8)) // 2 * 2)


def place_bytes(node: Node) -> int:
    """The bytes of the places of a lane."""
    return place_count(node) * int(8 + sum(one.size * max(one.dtype.itemsize, 4) for one in node.attrs["step"].outputs))


class _KeptCarries:
    """The arrays that hold carries, and the numbers of the steps that these are before."""

    def __init__(self, straight: Straight, node: Node, carried: Sequence[Node]) -> None:
        self.straight, self.carried, self.count = straight, carried, place_count(node)
        self.used = straight.fresh("used")
        self.marks = straight.array(int64, self.count)
        self.arrays = [straight.array(one.dtype, self.count * one.size) for one in carried]
        straight.page.line(f"int {self.used} = 0;")

    def push(self, mark: str, carry: Sequence[Elements]) -> None:
        """Take a place."""
        page = self.straight.page
        page.line(f"{self.marks(self.used)} = {mark};")
        for node, array, names in zip(self.carried, self.arrays, carry):
            for j, name in enumerate(names.ravel()):
                page.line(f"{array(f'{self.used} * {node.size} + {j}')} = {name};")
        page.line(f"{self.used}++;")

    def top(self, carry: Sequence[Elements]) -> None:
        """Set the carry to the last one kept."""
        for node, array, names in zip(self.carried, self.arrays, carry):
            for j, name in enumerate(names.ravel()):
                self.straight.page.line(f"{name} = {array(f'({self.used} - 1) * {node.size} + {j}')};")

    def let_go(self) -> None:
        """Let every second one go."""
        page, i = self.straight.page, self.straight.fresh("i")
        page.line(f"{self.used} /= 2;")
        page.open(f"for (int {i} = 0; {i} < {self.used}; {i}++)")
        page.line(f"{self.marks(i)} = {self.marks(f'2 * {i}')};")
        for node, array in zip(self.carried, self.arrays):
            for j in range(node.size):
                page.line(f"{array(f'{i} * {node.size} + {j}')} = {array(f'2 * {i} * {node.size} + {j}')};")
        page.close()


def walk_back(straight: Straight, node: Node, sources: Sequence[Any]) -> list[Elements]:
    """Write the cotangents of a loop's constants and of its first carry."""
    attrs, page, fresh = node.attrs, straight.page, straight.fresh
    n, step, pulled = attrs["constants"], attrs["step"], attrs["pulled"]
    carried, fixed = step.inputs[n:], list(sources[:n])
    first = len(step.inputs)
    start = straight.read_all(carried, sources[n:first])
    seeded = pulled.inputs[first:]
    seeds = straight.variables(seeded, straight.read_all(seeded, sources[first:]))
    floating = [one for one in step.inputs[:n] if has_tangents(one)]
    zeros = [array_of(one.shape, [str(c_literal(0, one.dtype))] * one.size) for one in floating]
    totals = straight.variables(floating, zeros)
    carry = straight.variables(carried, start)
    places = _KeptCarries(straight, node, carried)

    def stepped() -> None:
        found = straight.read_all(step.outputs, straight.graph(step, [*fixed, *carry]))
        straight.assign(carried, carry, found)

    count = _there(straight, node, fixed, carry, places, stepped)
    mark, until = fresh("mark"), fresh("until")
    page.open(f"for (long goal = {count} - 1; goal >= 0; goal--)")
    page.line(f"long {mark} = {places.marks(f'{places.used} - 1')};")
    places.top(carry)
    page.open(f"while ({mark} < goal)")
    page.line(
        f"long {until} = {mark} + {distance_to_next(straight, f'goal - {mark}', f'{places.count} - {places.used}')};"
    )
    page.open(f"while ({mark} < {until})")
    stepped()
    page.line(f"{mark}++;")
    page.close()
    page.open(f"if ({places.used} < {places.count} && {mark} < goal)")
    places.push(mark, carry)
    page.close(2)
    page.line(f"if ({places.marks(f'{places.used} - 1')} == goal) {places.used}--;")
    found = straight.read_all(pulled.outputs, straight.graph(pulled, [*fixed, *carry, *seeds]))
    for one, names, more in zip(floating, totals, found):
        for name, value in zip(names.ravel(), more.ravel()):
            page.line(f"{name} = {rounded(one, f'({name} + {value})')};")
    straight.assign(seeded, seeds, found[len(floating) :])
    page.close()
    return [*totals, *seeds]


def _there(
    straight: Straight,
    node: Node,
    fixed: Sequence[Any],
    carry: Sequence[Elements],
    places: _KeptCarries,
    stepped: Callable[[], None],
) -> str:
    """Run the loop and keep carries; the number of steps."""
    page, test = straight.page, node.attrs["test"]
    count, distance, following = (straight.fresh(name) for name in ("count", "distance", "next"))
    page.line(f"long {count} = 0, {distance} = 1, {following} = 0;")
    turn = straight.turns()
    page.open("while (1)")
    (going,) = straight.read_all(test.outputs, straight.graph(test, [*fixed, *carry]))
    page.line(f"if (!{going.item()}{f' || {turn}' if turn else ''}) break;")
    page.open(f"if ({count} == {following})")
    page.open(f"if ({places.used} == {places.count // 2})")
    places.let_go()
    page.line(f"{distance} *= 2;")
    page.close()
    places.push(count, carry)
    page.line(f"{following} = {count} + {distance};")
    page.close()
    stepped()
    page.line(f"{count}++;")
    page.close()
    return count


def distance_to_next(straight: Straight, left: str, free: str) -> str:
    """The distance to the next carry to keep, for this many steps and free slots."""
    page = straight.page
    way, places, times, reach = (straight.fresh(name) for name in ("way", "free", "times", "reach"))
    page.line(f"long {way} = {left}, {places} = {free}, {times} = 1, {reach} = {places} + 1;")
    page.open(f"while ({times} < {REPETITIONS} && {reach} <= {way})")
    page.line(f"{times}++;")
    page.line(f"{reach} = {reach} * ({places} + {times}) / {times};")
    page.close()
    return f"({way} * {times} + {times} + {places} - 1) / ({times} + {places})"
