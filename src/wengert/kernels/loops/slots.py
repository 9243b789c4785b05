"""A `while_loop` over lanes in C: finished lanes make room for others, so that none waits for the slowest.

A thread takes chunks of lanes, and has a few slots, each of which holds one lane. A turn is one step of all slots, in a
loop that the compiler vectorises. When the condition of a lane fails, its slot takes the next lane. So vector elements
stay busy until a chunk is nearly done, and few steps are wasted.

The cotangents of a chunk come from running its turns backwards, as `walk_back` does with the steps of one lane: the
contents of the slots are the carry of a loop, some of which are kept and the others recomputed. At a turn before which
a slot took a new lane, that lane's cotangents are stored, and those of the previous lane begin.

10,000 trajectories of van der Pol's equation with adaptive steps take 30 to 1,700 steps, on average 180: on two cores
(CPU time) 107 ms one after another, 16 ms in slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wengert.autodiff.body import has_tangents
from wengert.autodiff.while_gradient import WHILE_GRADIENT
from wengert.compiler.loop_lanes import bodies_of
from wengert.core.graph import Graph, Node
from wengert.kernels.loops.elements import FEW_STEPS, IN_C, Straight
from wengert.kernels.loops.values import Elements, array_of, rounded
from wengert.kernels.loops.walk_back import distance_to_next
from wengert.kernels.loops.whole import WholeLanes
from wengert.kernels.threads import thread_count
from wengert.kernels.writer import c_literal, scalar_type

SLOTS = 32  # four vectors of float64, so that no instruction waits for the one before it
CHUNK = (128, 1024)  # lanes of a chunk, at least and at most: many, so that few slots are idle at its end
KEPT_BYTES = 1 << 20  # of what a thread keeps for walking back: the second cache
TO_STOP = f"(now.mark % {FEW_STEPS} == {FEW_STEPS - 1} && wg_stopped())"
IN_SLOTS = replace(IN_C, branches=False)


def fits_slots(loop: Node, count: int) -> bool:
    """Whether there are lanes for all slots, and a step is one straight line.

    A slot without a lane computes with what is left there, so nothing in a step may be an error.
    """
    return count >= SLOTS and all(map(_is_straight, bodies_of(loop)))


def _is_straight(body: Graph) -> bool:
    for node in body.nodes:
        inside = bodies_of(node)
        if node.op.checks(node) or (inside and "branches" not in node.attrs) or not all(map(_is_straight, inside)):
            return False
    return True


def write_slots(one: WholeLanes) -> None:
    """Write a loop over lanes, or its cotangents, around what `one` writes to load and to store a lane."""
    page, count = one.page, one.lanes.count
    chunk = max(CHUNK[0], min(CHUNK[1], -(-count // (4 * thread_count()))))
    slots = _Backwards(one, chunk) if one.loop.op is WHILE_GRADIENT else _Slots(one)
    page.line(f"#pragma omp parallel for schedule(dynamic) num_threads({thread_count()})")
    page.open(f"for (long first = 0; first < {count}; first += {chunk})")
    page.line(f"const long end = first + {chunk} < {count} ? first + {chunk} : {count};")
    slots.write()
    page.close()


class _Slots:
    """The slots of a thread: what a loop reads and carries, in arrays; what all lanes share in variables."""

    def __init__(self, one: WholeLanes) -> None:
        self.one, self.page, self.loop = one, one.page, one.loop
        self.c: int = self.loop.attrs["constants"]
        self.inputs: Sequence[Node] = self.loop.attrs["step"].inputs
        self.apart = [k for k, node in enumerate(self.inputs) if one.lanes.has(one.given[k])]
        self.values = [
            array_of(node.shape, [f"now.{one.fresh('s')}" for _ in range(node.size)]) for node in self.inputs
        ]
        self.page.open("struct slots")
        for k in self.apart:
            for name in self.values[k].ravel():
                self.page.line(f"{scalar_type(self.inputs[k].dtype)} {name.removeprefix('now.')}[{SLOTS}];")
        self.page.line(f"long lanes[{SLOTS}], next, mark;  // the next lane of the chunk, and the number of the turn")
        self.page.line(f"uint8_t busy[{SLOTS}], live;")
        self.page.close()
        self.page.lines[-1] += " __attribute__((aligned(64)));"
        for k, node in enumerate(self.inputs):
            if k not in self.apart:
                self.values[k] = one.load(k).reshape(node.shape)

    def write(self) -> None:
        """Write the processing of a chunk."""
        page = self.page
        page.line("struct slots now = {.next = first};")
        page.open("while (1)")
        self.settle()
        page.line(f"if (!now.live || {TO_STOP}) break;")
        self.turn()
        page.close()

    def settle(self) -> None:
        """Give each slot an active lane, as long as there are some."""
        page = self.page
        page.line("int taken = 1;")
        page.open("while (taken)")  # a lane may end before its first step
        page.line("int ended = !now.mark;")
        page.line(f"uint8_t going[{SLOTS}];")
        self.over_slots("reduction(|:ended)")
        (going,) = self.body(self.loop.attrs["test"])
        page.line(f"going[slot] = {going.item()} != 0;")
        page.line("ended |= now.busy[slot] & !going[slot];")
        page.close()
        page.line("taken = 0;")
        page.line("if (!ended) break;")
        page.line("now.live = 0;")
        page.open(f"for (int slot = 0; slot < {SLOTS}; slot++)")
        page.open("if (now.busy[slot] && !going[slot])")
        self.store()
        page.line("now.busy[slot] = 0;")
        page.close()
        page.open("if (!now.busy[slot] && now.next < end)")
        page.line("const long lane = now.lanes[slot] = now.next++;")
        for k in self.apart:
            self.assign_slot(self.values[k], self.one.load(k))
        page.line("now.busy[slot] = taken = 1;")
        page.close()
        page.line("now.live |= now.busy[slot];")
        page.close(2)

    def store(self) -> None:
        """Store the carry that ended a lane."""
        self.page.line("const long lane = now.lanes[slot];")
        self.keep(self.values[self.c :])

    def turn(self) -> None:
        """A step of all slots."""
        self.over_slots()
        results = self.body(self.loop.attrs["step"])
        for node, names, values in zip(self.loop.attrs["step"].outputs, self.values[self.c :], results):
            self.assign_slot(names, array_of(names.shape, [rounded(node, value) for value in values.ravel()]))
        self.page.close()
        self.page.line("now.mark++;")

    # --- lines --------------------------------------------------------------------------------------------------------

    def over_slots(self, clauses: str = "") -> None:
        """The head of a loop over all slots."""
        self.page.line(f"#pragma omp simd {clauses}".rstrip())
        self.page.open(f"for (int slot = 0; slot < {SLOTS}; slot++)")

    def assign_slot(self, names: Elements, values: Elements) -> None:
        """Give a slot's elements of arrays other values."""
        for name, value in zip(names.ravel(), values.ravel()):
            self.page.line(f"{name}[slot] = {value};")

    def keep(self, results: Sequence[Elements]) -> None:
        """Store the results of a lane from a slot."""
        for k, names in enumerate(results):
            self.one.keep(k, array_of(names.shape, [f"{name}[slot]" for name in names.ravel()]))

    def of_slot(self, node: Node, names: Elements) -> Elements:
        """A slot's part of a value, as variables."""
        found = [self.one.let(node, f"{name}[slot]") for name in names.ravel()]
        return array_of(names.shape, found)

    def body(self, body: Graph, *more: Elements) -> list[Elements]:
        """Write a body over what a slot has; the elements of its outputs."""
        given = [self.of_slot(n, v) if k in self.apart else v for k, (n, v) in enumerate(zip(self.inputs, self.values))]
        straight = Straight(self.page, language=IN_SLOTS)
        straight.count = self.one.count
        results = straight.read_all(body.outputs, straight.graph(body, [*given, *more]))
        self.one.count = straight.count
        return results


class _Backwards(_Slots):
    """Slots whose turns are walked back."""

    def __init__(self, one: WholeLanes, chunk: int) -> None:
        super().__init__(one)
        pulled: Graph = self.loop.attrs["pulled"]
        self.pulled, self.seeded = pulled, pulled.inputs[len(self.inputs) :]
        self.floating = [node for node in self.inputs[: self.c] if has_tangents(node)]
        held = sum(self.inputs[k].size * max(self.inputs[k].dtype.itemsize, 4) for k in self.apart)
        places = min(self.loop.attrs["checkpoints"] * chunk // SLOTS, KEPT_BYTES // ((held + 9) * SLOTS))
        self.places = max(places // 2 * 2, 8)
        self.page.line(
            f"static struct slots kept[{thread_count()}][{self.places}];  // one call at a time runs a program"
        )

    def store(self) -> None:
        """Nothing: cotangents begin where a lane ends."""

    def write(self) -> None:
        """Write the processing of a chunk."""
        page = self.page
        page.line("struct slots now = {.next = first}, *const places = kept[omp_get_thread_num()];")
        page.line(
            "long used = 0, until = 0, distance = 1;  // places taken, the turn to be kept next, how far they are apart"
        )
        page.line("long goal = 0, there = 1;  // the turn to walk back, once all have been done")
        self.totals, self.seeds = self._arrays(self.floating), self._arrays(self.seeded)
        page.line(f"long mine[{SLOTS}];  // whose cotangents a slot has")
        page.line(f"for (int slot = 0; slot < {SLOTS}; slot++) mine[slot] = -1;")
        self._without_steps()
        page.open("while (1)")
        self.settle()
        page.open("while (there ? !now.live : now.mark == goal)")
        page.line("if (there) goal = now.mark;")
        page.open("else")
        page.line("if (places[used - 1].mark == goal) used--;")
        self._back()
        page.close()
        page.line("there = 0;")
        page.line("if (--goal < 0) break;")
        page.line("now = places[used - 1];")
        page.line("until = now.mark;")
        page.close()
        page.line(f"if (goal < 0 || {TO_STOP}) break;")
        self._keep_turn()
        self.turn()
        page.close()
        page.open(f"for (int slot = 0; slot < {SLOTS}; slot++)")
        self._store_mine()
        page.close()

    def _arrays(self, nodes: Sequence[Node]) -> list[Elements]:
        found = [array_of(node.shape, [self.one.fresh("g") for _ in range(node.size)]) for node in nodes]
        for node, names in zip(nodes, found):
            for name in names.ravel():
                self.page.line(f"{scalar_type(node.dtype)} {name}[{SLOTS}] = {{0}};")
        return found

    def _without_steps(self) -> None:
        """The cotangents of a lane that ends before its first step."""
        self.page.open("for (long lane = first; lane < end; lane++)")
        zeros = [array_of(node.shape, [str(c_literal(0, node.dtype))] * node.size) for node in self.floating]
        seeds = [self.one.load(len(self.inputs) + j) for j in range(len(self.seeded))]
        for k, values in enumerate([*zeros, *seeds]):
            self.one.keep(k, values)
        self.page.close()

    def _store_mine(self) -> None:
        self.page.open("if (mine[slot] >= 0)")
        self.page.line("const long lane = mine[slot];")
        self.keep([*self.totals, *self.seeds])
        self.page.close()

    def _keep_turn(self) -> None:
        """Keep the slots' contents before a turn, as `walk_back` does: at fixed distances, then where it saves most."""
        page = self.page
        page.open("if (there && now.mark == until)")
        page.open(f"if (used == {self.places // 2})")
        page.line("used /= 2;")
        page.line("for (int i = 0; i < used; i++) places[i] = places[2 * i];")
        page.line("distance *= 2;")
        page.close()
        page.line("places[used++] = now;")
        page.line("until += distance;")
        page.close()
        page.open("else if (now.mark == until)")
        page.line(f"if (used < {self.places} && now.mark != places[used - 1].mark) places[used++] = now;")
        page.line(f"until += {distance_to_next(self.one, 'goal - now.mark', f'{self.places} - used')};")
        page.close()

    def _back(self) -> None:
        """Add up the cotangents of a turn."""
        page = self.page
        page.line("int others = 0;")
        self.over_slots("reduction(|:others)")
        page.line("others |= now.busy[slot] & (mine[slot] != now.lanes[slot]);")
        page.close()
        page.open(f"for (int slot = 0; others && slot < {SLOTS}; slot++)")
        page.line("if (!now.busy[slot] || mine[slot] == now.lanes[slot]) continue;")
        self._store_mine()
        page.line("const long lane = mine[slot] = now.lanes[slot];")
        for node, names in zip(self.floating, self.totals):
            self.assign_slot(names, array_of(names.shape, [str(c_literal(0, node.dtype))] * names.size))
        for j, names in enumerate(self.seeds):
            self.assign_slot(names, self.one.load(len(self.inputs) + j))
        page.close()
        self.over_slots()
        found = self.body(self.pulled, *[self.of_slot(n, names) for n, names in zip(self.seeded, self.seeds)])
        for node, names, more in zip(self.floating, self.totals, found):
            sums = [rounded(node, f"({name}[slot] + {value})") for name, value in zip(names.ravel(), more.ravel())]
            self.assign_slot(names, array_of(names.shape, sums))
        for node, names, values in zip(self.seeded, self.seeds, found[len(self.floating) :]):
            self.assign_slot(names, array_of(names.shape, [rounded(node, value) for value in values.ravel()]))
        page.close()
