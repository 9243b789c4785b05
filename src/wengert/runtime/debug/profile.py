"""Where a program's time goes: every step called and timed separately, on the CPU as its own C function.

In: a compiled function and arguments for it. Out: for each kernel its time, its reads and writes, and for a product its
operations. The steps have the same text as in the program, so the measurement is of the real code; only shared caches
and the calls from Python (a microsecond each on the CPU) differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

from wengert.backends.cpu.blas import addresses
from wengert.backends.cpu.program import CpuProgram
from wengert.backends.cpu.toolchain import load
from wengert.core.code import describe
from wengert.core.devices import is_host
from wengert.core.evaluation import watch
from wengert.kernels.threads import thread_count
from wengert.plan.groups import FusionGroup
from wengert.plan.plan import Step
from wengert.runtime.debug.explain import compiled_program, flops, moved_by
from wengert.runtime.partitioned import PartitionedProgram
from wengert.runtime.static.compile import Compiled


class Timed(NamedTuple):
    """A kernel with its minimum time."""

    name: str
    where: str
    seconds: float
    moved: int  # bytes
    flops: int  # of a product; 0 for loops, whose limit is memory

    @property
    def rate(self) -> str:
        """Its speed, in the unit of its bottleneck."""
        seconds = max(self.seconds, 1e-9)
        return f"{self.flops / seconds / 1e9:.0f} GFLOP/s" if self.flops else f"{self.moved / seconds / 1e9:.1f} GB/s"


def profile(compiled: Compiled, *args: Any, repeats: int = 5, **kwargs: Any) -> list[Timed]:
    """The kernels that a call of a compiled function runs, each with its minimum time over `repeats` calls.

    The calls are real: they update parameters.

    >>> import wengert as wg
    >>> f = wg.compile(lambda x: wg.softmax(x @ x, axis=1))
    >>> x = wg.ones((8, 8))
    >>> [kernel.name for kernel in profile(f, x)]
    ['matmul [8, 8] by [8, 8]', 'max, sum, multiply over (8, 8)']
    """
    compiled(*args, **kwargs)
    program: Any = compiled_program(compiled._newest("profile").program, "profile")
    if isinstance(program, PartitionedProgram):
        program = program.program
    best = step_seconds(program, lambda: compiled(*args, **kwargs), repeats)
    found = zip(program.plan.groups_of_steps, program.steps, best)
    return [_timed(group, step, seconds) for group, step, seconds in found if not step.does_nothing]


def step_seconds(program: Any, call: Callable[[], Any], repeats: int) -> list[float]:
    """The minimum time of each step of a program, over several calls."""
    watcher = watch.observer = _Watcher(program)
    try:
        for _ in range(repeats):
            call()
    finally:
        watch.observer = None
    return watcher.best


class _Watcher:
    """Observes a program while it runs, and keeps the minimum time of each step."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.best = [float("inf")] * len(program.steps)
        self.calls = timed_calls(program, self.note) if is_host(program.device) else None

    def note(self, number: int, start: float, stop: float) -> None:
        self.best[number] = min(self.best[number], stop - start)

    def calls_of(self, program: Any) -> Any:
        return self.calls if program is self.program else program.calls

    def ran_steps(self, program: Any, steps: Sequence[tuple[int, Any, Any]]) -> None:
        for number, start, stop in steps if program is self.program else ():
            stop.wait()
            self.note(number, 0.0, stop.since(start))

    def ran_op(self, node: Any, result: Any, start: float, stop: float) -> None:
        """References within the program are timed as its steps."""

    def copied(self, driver: Any, size: int, start: Any, stop: Any) -> None:
        """Only steps count."""

    def built(self, start: float, stop: float) -> None:
        """Only steps count."""


def timed_calls(program: CpuProgram, note: Callable[[int, float, float], None]) -> list[Callable[..., None]]:
    """Replacements for a program's calls that record the number, start and end of each step."""
    library = load([_text(program)])
    library.wg_connect(*addresses(), thread_count())

    def timed(number: int, step: Step) -> Callable[..., None]:
        part = step.flight or step.host_op  # steps that run in Python
        own = getattr(library, f"step{number}") if part is None else None
        reference = None if part is None else program.call_of(part)

        def call(pointers: Any, arena: Any, table: Any, results: Any) -> None:
            start = perf_counter()
            if own is not None:
                own(pointers, arena)
            elif reference is not None:
                reference(pointers, arena, table, results)
            note(number, start, perf_counter())

        return call

    return [timed(number, step) for number, step in enumerate(program.steps)]


def _text(program: CpuProgram) -> str:
    """The C of the program with a function for each step."""
    steps = [(k, step.code.text if step.code else "") for k, step in enumerate(program.steps) if step.host_op is None]
    return program.functions_source + "\n".join(
        f"void step{number}(void **io, char *arena)\n{{\n    {text}\n}}\n" for number, text in steps
    )


def described(group: FusionGroup, step: Any) -> str:
    """A kernel as text: its ops, their iteration space, and the library that runs them, if it is not our own kernel."""
    names = ", ".join(dict.fromkeys(node.op.name for node in group.roots))
    if not group.opaque:
        return f"{names} over {group.space}"
    shapes = [str(list(source.shape)) for source in group.roots[0].sources if not isinstance(source.dtype, tuple)][:2]
    return f"{names} {' by '.join(shapes)}" + (f" (by {step.carrier})" if step.carrier else "")


def _timed(group: FusionGroup, step: Step, seconds: float) -> Timed:
    root = group.roots[0]
    operations = flops(root) if group.opaque else 0
    return Timed(described(group, step), describe(root.location), seconds, moved_by(step), operations)


def shown(kernels: list[Timed], top: int = 5) -> str:
    """The slowest kernels, one per line; equal ones share a line."""
    total = sum(kernel.seconds for kernel in kernels) or 1.0
    together: dict[tuple[str, str], list[Timed]] = {}
    for kernel in kernels:
        together.setdefault((kernel.name, kernel.where), []).append(kernel)
    lines = []
    for (name, where), same in sorted(together.items(), key=lambda item: -sum(k.seconds for k in item[1]))[:top]:
        seconds = sum(kernel.seconds for kernel in same)
        times = f"{len(same)} x " if len(same) > 1 else ""
        sum_of = Timed(name, where, seconds, sum(k.moved for k in same), sum(k.flops for k in same))
        lines.append(f"{seconds * 1e3:>9.3f} ms {seconds / total:>5.0%} {sum_of.rate:>14}  {times}{name}  {where}")
    return "\n".join(lines)
