"""The memory that calls of a compiled function would take, on their device or on another, before anything runs.

In: a compiled function and the arguments of a call. The function is recorded as for a first call and planned; nothing
is compiled and nothing runs, and pending arguments stay pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wengert.core import devices, tree
from wengert.core.errors import ArgumentError
from wengert.core.graph import recording
from wengert.core.sizes import bytes_of, is_size
from wengert.plan.plan import Plan
from wengert.runtime.arguments import take_apart
from wengert.runtime.config import config
from wengert.runtime.debug.explain import bytes_text, compiled_program, is_compiled, size_of
from wengert.runtime.memory.budget import Promise, plan_within
from wengert.runtime.memory.machines import MACHINES, Machine, host_memory, machine
from wengert.runtime.memory.predict import ProgramMemory, predicted
from wengert.runtime.program import Interpreter, is_interpreted, plan_of
from wengert.tensor import Tensor

if TYPE_CHECKING:
    from wengert.runtime.static.compile import Compiled, CompiledMethod
    from wengert.runtime.static.specialization import Specialization

MOST = 1 << 24  # examples: `largest_batch` looks no further
STRAIGHT = 6  # batches that it finds by a straight line, before it halves


class Fit:
    """Whether a program fits into memory: true or false, with the bytes needed and available."""

    def __init__(self, memory: ProgramMemory, capacity: int, device: str) -> None:
        self.memory, self.capacity, self.device = memory, capacity, device

    @property
    def left(self) -> int:
        """The bytes left over; negative if it does not fit."""
        return self.capacity - self.memory.peak

    def __bool__(self) -> bool:
        return self.left >= 0

    def __repr__(self) -> str:
        left = f"{bytes_text(self.left)} left" if self else f"{bytes_text(-self.left)} too much"
        takes = f"{bytes_text(self.memory.peak)} of {bytes_text(self.capacity)} on {self.device}"
        return f"<{'fits' if self else 'does not fit'}: {takes}, {left}>"


class Place(NamedTuple):
    """Where a program is to run: another machine, a device of this one, or where its tensors are (None)."""

    device: str | Machine | None
    capacity: int
    name: str


def memory_of(
    compiled: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any], latest: Specialization | None
) -> ProgramMemory:
    """The memory of the latest call's program, or of the program for a call with these arguments."""
    if latest is not None:
        return _memory(latest, compiled_program(latest.program, "memory").plan)
    with foreseen(compiled, instance, args, kwargs, "memory") as found:
        return _memory(found, _plan(compiled, found, "memory"), tree.flatten((args, kwargs))[0])


def fit_of(compiled: Any, instance: Any, device: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Fit:
    """Whether a call with these arguments fits into a device."""
    place = _place(device)
    with foreseen(compiled, instance, args, kwargs, "fits") as found:
        plan = _plan(compiled, found, "fits", place.device)
        return Fit(_memory(found, plan, tree.flatten((args, kwargs))[0]), place.capacity, place.name)


def largest_batch(
    step: Compiled | CompiledMethod,
    make_arguments: Callable[[int], Any],
    device: str | int = devices.HOST,
    *,
    most: int = MOST,
) -> int:
    """The largest batch with which a compiled function fits into a device; 0 if not even one example does.

    `make_arguments` returns the arguments of a call for a number of examples, as a tuple if there are several; values
    from `wg.zeros` and the like are not computed. The device is as in `fits`. Nothing runs: batch sizes are doubled and
    then bisected, and each is recorded and planned.

    >>> import wengert as wg
    >>> double = wg.compile(lambda x: x * 2)
    >>> wg.largest_batch(double, lambda batch: wg.zeros((batch, 1024)), device="8 MiB")
    1024
    """
    if not hasattr(step, "fits"):
        raise ArgumentError(f"largest_batch takes a compiled function, not {step!r}")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise ArgumentError(f"largest_batch: most must be a number of examples, not {most!r}")

    def left(batch: int) -> int:
        made = make_arguments(batch)
        return int(step.fits(device, *(made if type(made) is tuple else (made,))).left)

    low, over = 1, left(1)
    if over < 0:
        return 0
    high, under = most + 1, -1
    while low < most:  # twice as many until they do not fit
        middle = min(2 * low, most)
        found = left(middle)
        if found < 0:
            high, under = middle, found
            break
        low, over = middle, found
    tries = 0
    while high - low > 1:
        # Memory grows by about the same for each example: at first where a line would cross, then the middle.
        share = over / (over - under) if tries < STRAIGHT else 0.5
        middle = min(max(low + int((high - low) * share), low + 1), high - 1)
        found, tries = left(middle), tries + 1
        low, over, high, under = (middle, found, high, under) if found >= 0 else (low, over, middle, found)
    return low


# --- recording and planning -----------------------------------------------------------------------------------------


@contextmanager
def foreseen(
    compiled: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any], asked: str
) -> Iterator[Specialization]:
    """Record a call with these arguments without running it."""
    if recording.trace is not None:
        raise ArgumentError(f"{asked}: cannot be used inside a function that is being recorded; call it before")
    with _unflushed(tree.flatten((args, kwargs))[0]), compiled._lock:
        arguments = take_apart(instance, args, kwargs)
        if arguments is None:
            raise ArgumentError(
                f"{asked}: an argument is computed from tensors that require grad, so the call would be part of a "
                "larger graph; pass x.detach()"
            )
        found = compiled._find(arguments) or compiled._capture(arguments, instance)
        try:
            yield found
        finally:
            compiled._held = []


@contextmanager
def _unflushed(leaves: Sequence[Any]) -> Iterator[None]:
    """A context in which pending tensors are not computed: only their type counts."""
    own = {id(leaf) for leaf in leaves if isinstance(leaf, Tensor)}
    aside = [slot for slot in recording.pending if id(slot()) in own]
    recording.pending = [slot for slot in recording.pending if id(slot()) not in own]
    recording.cut = min(recording.cut, len(recording.pending))
    try:
        yield
    finally:
        recording.pending = [*aside, *recording.pending]


def _plan(compiled: Any, found: Specialization, asked: str, device: str | Machine | None = None) -> Plan:
    """The plan of a recording: where its tensors are, or on another device."""
    from wengert.runtime.memory.elsewhere import on_device, plan_elsewhere  # which loads what writes CUDA

    graph, pairs = found.graph, found.binding.pairs
    here = devices.accelerator_of(graph) or devices.HOST
    if device in (None, here) and found.program is not None and is_compiled(found.program):
        plan: Plan = compiled_program(found.program, asked).plan
        return plan
    if isinstance(device, Machine):
        make: Callable[[int | None], Plan] = partial(plan_elsewhere, graph, pairs, device.name, device.properties)
    else:
        moved = graph if device in (None, here) else on_device(graph, str(device))
        if is_interpreted(moved):
            compiled_program(Interpreter(moved), asked)  # which says why
        make = partial(plan_of, moved, pairs, 0.0, config.fuel, True, ())
    return make(None) if compiled.budget is None else plan_within(make, Promise(compiled.budget, found.captured))


def _memory(found: Specialization, plan: Plan, leaves: Sequence[Any] | None = None) -> ProgramMemory:
    """The memory of a recording's plan. Without a call's arguments, those count as held."""
    c = found.captured
    tensors = [tensor for slot in c.all_slots() if (tensor := slot()) is not None]
    things = [*(leaves or ()), *tensors, *(tensor._grad for tensor in tensors)]
    arrays = [t.node.buffer if isinstance(t, Tensor) else t for t in {id(thing): thing for thing in things}.values()]
    held = sum(map(_held, arrays))
    if leaves is None:
        held += sum(map(size_of, c.graph.inputs[: len(c.arguments)]))
    return predicted(plan, c.graph, len(c.arguments), c.unread(), held)


def _held(array: Any) -> int:
    """The bytes of an array's memory: almost none for a broadcast scalar, none if pending."""
    if isinstance(array, np.ndarray):
        repeated = 0 in array.strides and array.size > 1
        return array.itemsize if repeated else array.nbytes
    return int(getattr(array, "nbytes", 0))


def _place(device: Any) -> Place:
    """The device that `fits` is called for, and the size of its memory."""
    if isinstance(device, str):
        if devices.is_host(device):
            return Place(device, host_memory(), "this machine")
        if devices.is_device(device):
            name = devices.named(device, "fits")
            from wengert.backends.cuda.memory import opened  # which `import wengert` does not load

            return Place(name, opened(name).memory_info()[1], name)
        known = machine(device)
        if known is not None:
            return Place(_here(known) or known, known.memory, known.name)
        if not is_size(device):
            names = ", ".join(repr(each.name) for each in MACHINES)
            raise ArgumentError(
                f"fits: {device!r} is not a known device; choose one of {names}, 'cpu', the GPUs of this machine "
                'as "cuda", or a number of bytes, such as 24_000_000_000 or "24 GB"'
            )
    size = bytes_of(device, "fits")
    return Place(None, size, "the device of its tensors")


def _here(known: Machine) -> str | None:
    """The GPU of this machine that is of a known kind, if there is one: its libraries can be asked."""
    return next((name for name in devices.gpus() if machine(devices.of(name).model) == known), None)
