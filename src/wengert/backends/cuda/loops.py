"""Loops and branches on a GPU whose bodies are plans: their actions run one by one, or are captured in a graph.

Run from the host, a loop launches each step, and reads each condition from the device before it continues. That happens
in the first call of a program, which loads its kernels, and if a body has an op for the host. When captured,
repetitions and choices become conditional nodes, whose bodies are captured once; copies between trips read the trip
number on the device. Both follow the same actions of the plan, on the same addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wengert.backends.cuda.calls import Arguments
from wengert.backends.protocol import CapturedGraph, Driver, Replayable
from wengert.kernels.launch import Launch
from wengert.kernels.loops.device import BEGIN, COPIES, DECIDE, MOST, NEXT, copies_shape
from wengert.plan.actions import Action, Address, Choose, DeviceLoop, Move, Moves, Repeat, RunBody, While, parts_of
from wengert.plan.loop_writer import TEMPORARY

if TYPE_CHECKING:
    from wengert.backends.cuda.bodies import BoundBody

_FIELDS = 8  # numbers of a copy in the kernel's table


class BoundLoop:
    """A loop or branch over addresses. A graph that captures it keeps its addresses."""

    keeps_addresses = True

    def __init__(self, loop: DeviceLoop, bodies: Sequence[BoundBody], temporary: int, step: int) -> None:
        self.loop, self.bodies, self.step = loop, bodies, step
        self.places = {TEMPORARY: temporary}
        for number, body in enumerate(bodies):
            self.places.update(body.constants(number))
        self.looks = any(isinstance(action, While | Choose) for action in parts_of(loop.actions))
        self.looks |= any(body.looks for body in bodies)
        self.was_run = False
        self.graph: Replayable | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return self.loop.node.op.name

    def point(self, position: int, address: int) -> None:
        """Set a buffer's address."""
        self.places[self.loop.buffers[position]] = address
        self.graph = None

    def address(self, place: Address) -> int:
        """The address of a place."""
        return self.places[place.buffer] + place.offset

    def needs_host(self, driver: Driver) -> bool:
        """Whether the host takes part in its steps."""
        return bool(self.loop.hosted) or (self.looks and not driver.has_conditions())

    def enqueue(self, driver: Driver) -> None:
        """Run it: from the host the first time, as its own graph afterwards."""
        self.prepare(driver)
        self.was_run = True
        if self.graph is None:
            self.step_through(driver)
        else:
            self.graph.replay()

    def step_through(self, driver: Driver) -> None:
        """Run it from the host."""
        _Stepping(self, driver).run(self.loop.actions)

    def prepare(self, driver: Driver) -> None:
        """Capture a graph, if that is possible and the kernels are loaded."""
        if self.graph is None and self.was_run and not self.needs_host(driver):
            with driver.capturing() as graph:
                self.capture(driver, graph)
            self.graph = graph

    def capture(self, driver: Driver, graph: CapturedGraph) -> None:
        """Capture it in a graph."""
        _Capturing(self, driver, graph).run(self.loop.actions)


class _Stepping:
    """Runs actions one after another."""

    def __init__(self, loop: BoundLoop, driver: Driver) -> None:
        self.loop, self.driver = loop, driver
        self.trip, self.counter = 0, 0  # what a copy goes by: a number, or the address of one

    def run(self, actions: Sequence[Action]) -> None:
        """Run some actions."""
        for action in actions:
            if isinstance(action, Moves):
                self._copy(action.moves)
            elif isinstance(action, RunBody):
                self._steps(action)
            elif isinstance(action, Repeat):
                self._repeat(action)
            elif isinstance(action, While):
                self._while(action)
            else:
                self._choose(action)

    def _steps(self, run: RunBody) -> None:
        body = self.loop.bodies[run.body]
        trip, counter = self.trip, self.counter
        self.trip = self.counter = 0  # copies between steps have an address for each step
        for step in range(run.steps):
            self._copy([shift.at(step, run.steps) for shift in run.before])
            for slot, path in run.paths.items():
                body.point(slot, self.loop.address(path.at(step, run.steps)))
            self._body(body)
            self._copy([shift.at(step, run.steps) for shift in run.after])
        self.trip, self.counter = trip, counter

    def _body(self, body: BoundBody) -> None:
        body.enqueue(self.driver)

    def _repeat(self, action: Repeat) -> None:
        for self.trip in range(action.trips):
            self.run(action.actions)
        self.trip = 0

    def _while(self, action: While) -> None:
        while self._is_true(action.flag):
            self.run(action.actions)

    def _choose(self, action: Choose) -> None:
        self.run(action.actions if self._is_true(action.flag) else action.others)

    def _is_true(self, flag: Address) -> bool:
        found = np.empty(1, np.uint8)
        self.driver.download(found, self.loop.address(flag))
        return bool(found[0])

    def _copy(self, moves: Sequence[Move]) -> None:
        wanted = [move for move in moves if move.size and move.rows]
        for first in range(0, len(wanted), MOST):
            part = wanted[first : first + MOST]
            arguments = Arguments([("",) * (_FIELDS * MOST), self.counter, np.int32(self.trip)])
            table = np.array([self._numbers(move) for move in part], np.int64).ravel()
            arguments.slots[: len(table)] = table.view(np.uint64)
            self._launch(COPIES, copies_shape(max(move.size * move.rows for move in part), len(part)), arguments)

    def _numbers(self, move: Move) -> tuple[int, ...]:
        return (self.loop.address(move.to), self.loop.address(move.source), *move[2:])

    def _launch(self, kernel: Launch, shape: Sequence[int], arguments: Arguments) -> None:
        self.driver.launch(self.driver.functions[kernel.source, kernel.entry], shape, arguments)


class _Capturing(_Stepping):
    """Captures actions as graph nodes: repeated or chosen actions occur once, in conditional nodes."""

    def __init__(self, loop: BoundLoop, driver: Driver, graph: CapturedGraph) -> None:
        super().__init__(loop, driver)
        self.graph = graph

    def _body(self, body: BoundBody) -> None:
        body.capture(self.driver, self.graph)

    def _repeat(self, action: Repeat) -> None:
        if not self.driver.has_conditions():
            super()._repeat(action)
            return
        condition, counter = self.graph.condition(), self.loop.address(action.counter)
        self._set(BEGIN, [np.uint64(condition), counter])
        with self.graph.inside(self.graph.loop(condition)):
            self.counter = counter
            self.run(action.actions)
            self.counter = 0
            self._set(NEXT, [np.uint64(condition), counter, np.int32(action.trips)])

    def _while(self, action: While) -> None:
        condition = self.graph.condition()
        decide = [np.uint64(condition), self.loop.address(action.flag)]
        self._set(DECIDE, decide)
        with self.graph.inside(self.graph.loop(condition)):
            self.run(action.actions)
            self._set(DECIDE, decide)

    def _choose(self, action: Choose) -> None:
        condition = self.graph.condition()
        self._set(DECIDE, [np.uint64(condition), self.loop.address(action.flag)])
        bodies = self.graph.branch(condition)
        for body, actions in zip(bodies, (action.actions, action.others)):
            with self.graph.inside(body):
                self.run(actions)

    def _set(self, kernel: Launch, values: Sequence[Any]) -> None:
        self._launch(kernel, (*kernel.grid, *kernel.block, 0), Arguments(values))
