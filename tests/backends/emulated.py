"""A GPU that is not there: the driver's interface over host memory, with kernels compiled by g++ for the CPU."""

from __future__ import annotations

import ctypes
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from tests.kernels.emulator import CONTRACTED, Emulator, has_barriers
from tests.kernels.headers import pasted
from wengert.backends.cuda import interpret
from wengert.backends.cuda.calls import Arguments
from wengert.backends.cuda.device import CudaDevice
from wengert.backends.protocol import Driver
from wengert.core import devices
from wengert.core.errors import OutOfMemoryError
from wengert.kernels.launch import EXACT, RTX_2080, DeviceProperties, Launch, LaunchList, TensorMap

ARENA = 1 << 28
_BY_TEXT = '"(conv|pool|gemm|recurrent)'  # headers that are read once for each text


class EmulatedDriver:
    """The protocol `wengert.backends.protocol.Driver` on the CPU."""

    contracts = False  # whether texts are compiled with multiply-adds, as on a GPU, but where they forbid that

    def __init__(self, index: int = 0, memory: int = 1 << 32) -> None:
        self.index, self.stream = index, 0
        self.properties: DeviceProperties = RTX_2080
        self.memory = memory
        self.lock = threading.RLock()
        self.blocks: dict[int, np.ndarray[Any, Any]] = {}
        self.arena_array = np.empty(ARENA, np.uint8)
        self.arena_size = 0
        self.functions: dict[tuple[str, str], Any] = {}
        self.flag = 0
        self.captured: list[Any] | None = None
        self.replays = 0

    @property
    def name(self) -> str:
        """What the tests call it."""
        return "emulated"

    def make_current(self) -> None:
        """There is only one."""

    def index_of(self, pointer: int) -> int:
        """There is only one."""
        return 0

    def allocate(self, size: int) -> int:
        """New memory, aligned as a device's is, full of NaN."""
        if size + self.reserved() > self.memory:
            raise OutOfMemoryError("the GPU is out of memory")
        raw = np.full(size + 512, 0xFF, np.uint8)
        pointer = -(-raw.ctypes.data // 256) * 256
        self.blocks[pointer] = raw
        return pointer

    def free(self, pointer: int) -> None:
        """Let go of memory."""
        del self.blocks[pointer]

    def when_not_capturing(self, action: Callable[[], Any]) -> None:
        """Nothing here minds a capture."""
        action()

    def trim(self) -> None:
        """Nothing is kept."""

    def memory_info(self) -> tuple[int, int]:
        """Free, and all there is."""
        return self.memory - self.reserved(), self.memory

    def reserved(self) -> int:
        """Nothing more than what is used."""
        return sum(block.nbytes for block in list(self.blocks.values()))

    def arena(self, size: int) -> int:
        """Where programs work."""
        assert size <= ARENA - 256
        self.arena_size = max(self.arena_size, size)
        return -(-self.arena_array.ctypes.data // 256) * 256

    def error_flag(self) -> int:
        """As the driver's."""
        if not self.flag:
            self.flag = self.allocate(4)
            self.clear(self.flag, 4)
        return self.flag

    def took_error(self) -> int:
        """As the driver's."""
        found = ctypes.c_int32.from_address(self.flag).value if self.flag else 0
        if found:
            self.clear(self.flag, 4)
        return found

    def upload(self, pointer: int, array: np.ndarray[Any, Any]) -> None:
        """Copy an array in."""
        ctypes.memmove(pointer, array.ctypes.data, array.nbytes)

    def download(self, array: np.ndarray[Any, Any], pointer: int) -> None:
        """Copy an array out."""
        ctypes.memmove(array.ctypes.data, pointer, array.nbytes)

    def download_later(self, address: int, pointer: int, size: int) -> None:
        """Copy at once."""
        ctypes.memmove(address, pointer, size)

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes."""
        ctypes.memmove(to, source, size)

    def clear(self, pointer: int, size: int) -> None:
        """Zeros."""
        ctypes.memset(pointer, 0, size)

    def synchronize(self) -> None:
        """All is done already."""

    def be_waited_for(self, stream: int) -> None:
        """There is only one stream."""

    def wait_for(self, stream: int) -> None:
        """There is only one stream."""

    def event(self) -> EmulatedEvent:
        """Now."""
        return EmulatedEvent()

    def batched_submission(self) -> AbstractContextManager[None]:
        """All begins at once."""
        return nullcontext()

    def allocate_beside(self, size: int) -> int:
        """As any other memory."""
        return self.allocate(size)

    def pinned(self, size: int) -> int:
        """As any other memory."""
        return self.allocate(size)

    def free_pinned(self, address: int) -> None:
        """Let go of memory."""
        self.free(address)

    def upload_beside(self, pointer: int, source: int, size: int) -> tuple[EmulatedEvent, EmulatedEvent]:
        """Copy at once."""
        start = self.event()
        ctypes.memmove(pointer, source, size)
        return start, self.event()

    def prepared(self, work: LaunchList) -> LaunchList:
        """A work as the emulator takes it."""
        return pasted(work) if re.search(_BY_TEXT, work.launches[0].source) else work

    def kernels(self, launches: Iterable[Launch]) -> dict[tuple[str, str], Any]:
        """Those that are new are compiled together."""
        new = [x for x in launches if (x.source, x.entry) not in self.functions]
        for contracted in (True, False) if self.contracts else (False,):
            some = [x for x in new if not self.contracts or x.source.startswith(EXACT) is not contracted]
            self._compile(some, CONTRACTED if contracted else ())
        return self.functions

    def _compile(self, new: Sequence[Launch], flags: tuple[str, ...]) -> None:
        works = [self.prepared(LaunchList((launch,))) for launch in new]
        if works:
            emulator = Emulator(works, flags)
            for launch, work in zip(new, works):
                function = emulator.library[emulator.names[work.launches[0].source, launch.entry]]
                function.restype = ctypes.c_char_p
                self.functions[launch.source, launch.entry] = function, has_barriers(work.launches[0])

    def encode(self, described: TensorMap, address: int) -> bytes:
        """Nothing here has tensor maps."""
        raise AssertionError(described)

    def launch(self, function: Any, shape: Sequence[int], arguments: Arguments, cooperative: bool = False) -> None:
        """Run a kernel, or record it."""
        if self.captured is not None:
            self.captured.append([function, shape, _copied(arguments)])
            return
        call, barriers = function
        sizes = (ctypes.c_uint * 6)(*shape[:6])
        reason = call(ctypes.c_void_p(arguments.pointer), sizes, ctypes.c_uint(shape[6]), int(barriers), 0)
        assert reason is None, reason

    def dependent_launch(self, function: Any, shape: Sequence[int], arguments: Arguments) -> EmulatedGraph:
        """There is nothing to follow: all is done already."""
        graph = EmulatedGraph(self)
        graph.calls.append([function, shape, _copied(arguments)])
        return graph

    @contextmanager
    def capturing(self) -> Iterator[EmulatedGraph]:
        """Record what is launched inside."""
        graph = EmulatedGraph(self)
        with self.lock:
            self.captured = graph.calls
            try:
                yield graph
            finally:
                self.captured = None

    def has_conditions(self) -> bool:
        """It does what a new driver does."""
        return True

    def time(self, work: Callable[[], None], repeats: int = 1) -> float:
        """Time means nothing here."""
        work()
        return 1.0


class EmulatedEvent:
    """A point in time that is past."""

    def __init__(self) -> None:
        self.time = perf_counter()

    def is_done(self) -> bool:
        """It is."""
        return True

    def wait(self) -> None:
        """There is nothing to wait for."""

    def since(self, other: EmulatedEvent) -> float:
        """The seconds between two."""
        return self.time - other.time


class IdleDriver(EmulatedDriver):
    """A GPU whose kernels do nothing and whose memory is full of zeros: for what is recorded, not what is computed."""

    def allocate(self, size: int) -> int:
        """New memory."""
        pointer = super().allocate(size)
        self.clear(pointer, size)
        return pointer

    def kernels(self, launches: Iterable[Launch]) -> dict[tuple[str, str], Any]:
        """Nothing is compiled."""
        self.functions |= {(launch.source, launch.entry): None for launch in launches}
        return self.functions

    def launch(self, function: Any, shape: Sequence[int], arguments: Arguments, cooperative: bool = False) -> None:
        """Nothing is done."""


def _copied(arguments: Arguments) -> Arguments:
    """Arguments of their own memory; nothing here has tensor maps."""
    again = Arguments(())
    again.slots = arguments.slots.copy()
    again.addresses = arguments.addresses - np.uint64(arguments.slots.ctypes.data) + np.uint64(again.slots.ctypes.data)
    again.pointer = again.addresses.ctypes.data
    return again


class EmulatedGraph:
    """A graph of launches."""

    def __init__(self, driver: EmulatedDriver) -> None:
        self.driver = driver
        self.calls: list[Any] = []
        self.waits: dict[int, list[int]] = {}
        self.own: list[tuple[int, int]] = []  # addresses and bytes that calls have for themselves
        self.inner = self  # the body in which is recorded now
        self.conditions: list[np.ndarray[Any, Any]] = []

    def nodes(self) -> list[int]:
        """What the next one waits for: the last one, if nothing else was said."""
        graph = self.inner
        return graph.waits.get(len(graph.calls), [len(graph.calls) - 1] if graph.calls else [])

    def after(self, nodes: Sequence[int]) -> None:
        """The next one waits for these."""
        self.inner.waits[len(self.inner.calls)] = list(nodes)

    def condition(self) -> int:
        """The address of a number."""
        self.conditions.append(np.full(1, 0xFFFF, np.uint32))
        return self.conditions[-1].ctypes.data

    def loop(self, condition: int) -> EmulatedGraph:
        """A body that is carried out again while a number is not 0."""
        body, going = EmulatedGraph(self.driver), ctypes.c_uint32.from_address(condition)

        def run() -> None:
            while going.value:
                body.carry_out()

        self.inner.calls.append(run)
        return body

    def branch(self, condition: int) -> tuple[EmulatedGraph, EmulatedGraph]:
        """Two bodies, of which one is carried out."""
        bodies, holds = (
            (EmulatedGraph(self.driver), EmulatedGraph(self.driver)),
            ctypes.c_uint32.from_address(condition),
        )
        self.inner.calls.append(lambda: bodies[0 if holds.value else 1].carry_out())
        return bodies

    @contextmanager
    def inside(self, body: EmulatedGraph) -> Iterator[None]:
        """Record in a body."""
        outer, captured = self.inner, self.driver.captured
        self.inner, self.driver.captured = body, body.calls
        try:
            yield
        finally:
            self.inner, self.driver.captured = outer, captured

    def owns(self, start: int, size: int) -> None:
        """Nothing is cleared early here."""
        self.own.append((start, size))

    def change(self, node: int, function: Any, shape: Sequence[int], arguments: Arguments) -> None:
        """Other arguments for one of them."""
        self.calls[node or 0] = [function, shape, _copied(arguments)]

    def replay(self) -> None:
        """Run them all, in an order that a GPU might choose, and that is most unlike the one they came in."""
        self.driver.replays += 1
        self.carry_out()

    def carry_out(self) -> None:
        """Run them all once."""
        for number in self.order():
            call = self.calls[number]
            if callable(call):
                call()
                continue
            self.driver.launch(*call)

    def order(self) -> list[int]:
        """Each after those it waits for; of those that could come next, always the last."""
        waiting = {n: set(self.waits.get(n, [n - 1] if n else [])) for n in range(len(self.calls))}
        order: list[int] = []
        while waiting:
            order.append(max(n for n, others in waiting.items() if others.isdisjoint(waiting)))
            del waiting[order[-1]]
        return order


EMULATED = EmulatedDriver()
_protocols: tuple[Driver, devices.Device] = EMULATED, CudaDevice("cuda:0", EMULATED)  # which mypy compares


def install(monkeypatch: pytest.MonkeyPatch, driver: Driver, name: str = "cuda:0") -> None:
    """Have the GPU of this name be this one, until the test ends."""
    if driver is not EMULATED:  # kernels of ops that were kept for one driver are not for another
        monkeypatch.setattr(interpret, "_carriers", OrderedDict())
    monkeypatch.setitem(devices._opened, name, CudaDevice(name, driver))
