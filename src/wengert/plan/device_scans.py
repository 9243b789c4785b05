"""Scans on a GPU whose bodies are programs: the address of each value in each step, and the copies between steps.

A short scan is unrolled: its steps read each element of the sequence in place, and write each result to its final
address. A long scan repeats a trip of several steps; these use fixed addresses, and one copy per trip and value moves
the data in or out. A trip has an even number of steps, so that double-buffered carries end where they began. A carry
that is kept for a backward pass lies in the stacked output: a step reads one row and writes the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from wengert.compiler.memory import storage
from wengert.core.graph import Node
from wengert.plan.actions import Action, Address, Move, Moves, Path, Repeat, RunBody, Shift
from wengert.plan.loop_writer import Carry, LoopWriter, carries_of, makes, moves_of, nodes_of_plan, size_of, slot_of
from wengert.plan.plan import Body

UNROLLED = 512  # graph nodes up to which a scan is unrolled, which takes 35 us per node
TRIP = 128  # graph nodes per trip otherwise: 0.1 ms, much longer than the 3 us between trips
TRIP_BYTES = 32 << 20  # of the values that a trip's steps read and write
ALIGNED = 16  # bytes: where kernels and libraries expect a value to begin


def aligned(size: int) -> int:
    """A size, rounded up to the alignment of the next value."""
    return -(-size // ALIGNED) * ALIGNED


class _Stretch(NamedTuple):
    """Consecutive steps of a scan: the addresses of its carries before and after, and the actions."""

    enter: list[Address]
    actions: list[Action]
    leave: list[Address]


class ScanWriter(LoopWriter):
    def _bodies(self) -> Iterator[Body]:
        c, n = self.node.attrs["constants"], self.node.attrs["carries"]
        body = self.node.attrs["body"]
        stacked = set(body.outputs[n:])
        pairs = tuple((c + k, k) for k in range(n) if body.inputs[c + k] not in stacked)
        yield Body(self.plan(body, pairs), pairs, self.node.attrs["steps"])

    @property
    def steps(self) -> int:
        return int(self.node.attrs["steps"])

    def _actions(self) -> Iterator[Action]:
        attrs, plan = self.node.attrs, self.bodies[0].plan
        body, self.c, self.n = plan.graph, attrs["constants"], attrs["carries"]
        inputs, outputs = body.inputs[self.c : self.c + self.n], body.outputs[: self.n]
        kept = {storage(y): k for k, y in reversed([*enumerate(body.outputs)]) if k >= self.n and k in self.wanted}
        self.carries = carries_of(self, 0, inputs, outputs, kept)
        self.xs = list(enumerate(body.inputs[self.c + self.n :], self.c + self.n))
        self.ys = list(enumerate(body.outputs[self.n :], self.n))
        self.idle = {k: self.room(size_of(y)) for k, y in self._made_ys() if k not in self.wanted}
        places = [self.given[self.c + carry.number] for carry in self.carries]
        for first, count, trips in self._stretches():
            stretch = self._repeated(first, count, trips) if trips > 1 else self._once(first, count)
            yield self._moved(stretch.enter, places)
            yield from stretch.actions
            places = stretch.leave
        yield self._moved([carry.end for carry in self.carries], places)

    def _moved(self, to: Sequence[Address], source: Sequence[Address]) -> Moves:
        return moves_of([(a, b, carry.size) for a, b, carry in zip(to, source, self.carries)])

    def _stretches(self) -> list[tuple[int, int, int]]:
        """The steps split into stretches: first step, steps per trip, and number of trips."""
        steps, each = self.steps, max(nodes_of_plan(self.bodies[0].plan), 1)
        if not steps:
            return []
        moved = sum(size_of(node) for _, node in (*self.xs, *self.ys))
        count = max(min(TRIP // each, TRIP_BYTES // max(moved, 1)) // 2 * 2, 2)
        if steps * each <= UNROLLED or steps < 2 * count:
            return [(0, steps, 1)]
        trips, rest = divmod(steps, count)
        return [(0, count, trips), *([(trips * count, rest, 1)] if rest else [])]

    def _made_ys(self) -> list[tuple[int, Node]]:
        """The stacked outputs that steps write, each once, without those that are carries."""
        plan, found = self.bodies[0].plan, dict[Node, tuple[int, Node]]()
        carried = {storage(carry.made) for carry in self.carries}
        for k, node in self.ys:
            if makes(plan, node) and storage(node) not in carried:
                found.setdefault(storage(node), (k, node))
        return list(found.values())

    def _lowest(self, first: int, count: int) -> int:
        """The lowest index among some steps."""
        return self.steps - first - count if self.node.attrs["reverse"] else first

    def _rows(self, place: Address, pitch: int, count: int, row: int = 0) -> Path:
        """Rows of a block in step order, starting at the first step's row."""
        if self.node.attrs["reverse"]:
            return Path((place.on((count - 1 - row) * pitch),), -pitch)
        return Path((place.on(row * pitch),), pitch)

    def _once(self, first: int, count: int) -> _Stretch:
        """Steps that read and write in place, except where alignment forbids it."""
        return self._stretch(first, count, 1)

    def _repeated(self, first: int, count: int, trips: int) -> _Stretch:
        stretch = self._stretch(first, count, trips)
        actions = [action for action in stretch.actions if not isinstance(action, Moves) or action.moves]
        return _Stretch(stretch.enter, [Repeat(trips, tuple(actions), self.room(8))], stretch.leave)

    def _stretch(self, first: int, count: int, trips: int) -> _Stretch:
        body = self.bodies[0].plan.graph
        block = _Block(self, first, count, trips, self.fixed(0, dict(zip(body.inputs[: self.c], self.given))))
        for k, node in self.xs:
            block.fetch(self.given[k], node)
        for carry in self.carries:
            block.carry(carry)
        made = dict(self._made_ys())
        for k, node in self.ys:
            if k in made:
                block.make(k, node)
            elif k in self.wanted and k not in block.kept:
                block.copy_out(k, node)
        block.turn()
        run = RunBody(0, count, block.paths, tuple(block.before), tuple(block.after))
        actions: list[Action] = [Moves(tuple(block.fetched)), run, Moves(tuple(block.stored))]
        return _Stretch(block.enter, [a for a in actions if not isinstance(a, Moves) or a.moves], block.leave)


class _Block:
    """The addresses of a scan's values during some steps: in place, or in a block copied for all of them."""

    def __init__(self, scan: ScanWriter, first: int, count: int, trips: int, fixed: dict[int, Path]) -> None:
        self.scan, self.count, self.trips, self.paths = scan, count, trips, fixed
        self.lowest = scan._lowest(first, count)
        self.sign = -1 if scan.node.attrs["reverse"] else 1
        self.plan = scan.bodies[0].plan
        self.turning: list[tuple[Carry, Path]] = []  # with the addresses that the next values are copied to
        self.fetched: list[Move] = []
        self.stored: list[Move] = []
        self.before: list[Shift] = []
        self.after: list[Shift] = []
        self.enter: list[Address] = []
        self.leave: list[Address] = []
        self.kept: set[int] = set()

    def _is_staged(self, node: Node) -> bool:
        return self.trips > 1 or size_of(node) % ALIGNED != 0

    def fetch(self, place: Address, node: Node) -> None:
        """An input of each step."""
        size, slot = size_of(node), slot_of(self.plan, node)
        rows = place.on(self.lowest * size)
        if self._is_staged(node):
            block = self.scan.room(self.count * aligned(size))
            self.fetched.append(self._copied(block, rows, size, to_block=True))
            self.paths[slot] = self.scan._rows(block, aligned(size), self.count)
        else:
            self.paths[slot] = self.scan._rows(rows, size, self.count)

    def _copied(self, block: Address, rows: Address, size: int, to_block: bool) -> Move:
        """The copy of all rows between a block and the memory behind it."""
        pitch, stride = aligned(size), self.sign * self.count * size
        count, length = (1, self.count * size) if pitch == size else (self.count, size)
        if to_block:
            return Move(block, rows, length, count, pitch, size, 0, stride)
        return Move(rows, block, length, count, size, pitch, stride, 0)

    def make(self, k: int, node: Node) -> None:
        """An output that each step writes."""
        size, slot = size_of(node), slot_of(self.plan, node)
        if k not in self.scan.wanted:
            self.paths[slot] = Path((self.scan.idle[k],))
            return
        rows = self.scan.wanted[k].on(self.lowest * size)
        if self._is_staged(node):
            block = self.scan.room(self.count * aligned(size))
            self.stored.append(self._copied(block, rows, size, to_block=False))
            self.paths[slot] = self.scan._rows(block, aligned(size), self.count)
        else:
            self.paths[slot] = self.scan._rows(rows, size, self.count)

    def copy_out(self, k: int, node: Node) -> None:
        """An output that is copied out: before the step if the step may overwrite it, else after the step."""
        size = size_of(node)
        rows = self.scan.wanted[k].on(self.lowest * size)
        if self.trips > 1:
            block = self.scan.room(self.count * aligned(size))
            self.stored.append(self._copied(block, rows, size, to_block=False))
            path = self.scan._rows(block, aligned(size), self.count)
        else:
            path = self.scan._rows(rows, size, self.count)
        shift = Shift(path, self.scan.path_of(0, node, self.paths), size)
        (self.before if storage(node) in self.plan.graph.inputs else self.after).append(shift)

    def carry(self, carry: Carry) -> None:
        """A carry: in place, double-buffered, or in its stacked output."""
        if carry.kept is not None:
            self._keep(carry, carry.kept)
            return
        slot, end = slot_of(self.plan, carry.given), carry.end
        if carry.other is None:
            self.paths[slot] = Path((end,))
            self.enter.append(end)
            self.leave.append(end)
            return
        self.paths[slot], next_place = Path((end, carry.other)), Path((carry.other, end))
        self.enter.append(end)
        self.leave.append(carry.other if self.count % 2 else end)
        if carry.owned:
            self.paths[slot_of(self.plan, carry.made)] = next_place
        else:
            self.turning.append((carry, next_place))

    def turn(self) -> None:
        """Copy the carries that a step returns without writing them, such as another carry's old value."""
        for carry, path in self.turning:
            self.after.append(Shift(path, self.scan.path_of(0, carry.made, self.paths), carry.size))

    def _keep(self, carry: Carry, k: int) -> None:
        """A carry that is kept for each step: a step reads a row of the stack and writes the next one."""
        size, scan = carry.size, self.scan
        self.kept.add(k)
        rows = scan.wanted[k].on(self.lowest * size)
        made = slot_of(self.plan, carry.made)
        if not self._is_staged(carry.given):
            path = scan._rows(rows, size, self.count)
            self.paths[slot_of(self.plan, carry.given)] = path
            self.paths[made] = scan._rows(rows, size, self.count, 1)._replace(last=carry.end)
            self.enter.append(path.turns[0])
            self.leave.append(carry.end)
            return
        pitch = aligned(size)
        block = scan.room((self.count + 1) * pitch)
        path = scan._rows(block, pitch, self.count + 1)
        self.paths[slot_of(self.plan, carry.given)] = path
        self.paths[made] = scan._rows(block, pitch, self.count + 1, 1)
        first, last = path.turns[0], path.turns[0].on(path.stride * self.count)
        lowest = block.on(pitch) if scan.node.attrs["reverse"] else block
        self.stored.append(self._copied(lowest, rows, size, to_block=False))
        if self.trips > 1:
            self.fetched.append(Move(first, last, size))
        self.enter.append(last if self.trips > 1 else first)
        self.leave.append(last)
