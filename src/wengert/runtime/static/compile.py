"""Static execution: `compile` records a function once, whatever it reads, assigns and differentiates, and replays it.

In: a function, and calls of it. A call that finds everything as the previous one left it takes the fast path
(`fast_path`). Any other call is looked up by the key of its arguments (`arguments`), checked against outer values
(`guards`, `specialization`), and run; if no recording is valid, the function is recorded (`capture`) and built
(`program`) again. What the function reads from outside is watched (`reads`). The recording is repeated occasionally
(`Specialization.confirm`) and must give the same graph (`core/canonical`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from wengert.backends.protocol import Runnable
from wengert.compiler.distribute import Distribution, distribution, parts_of
from wengert.core.errors import ArgumentError
from wengert.core.forking import new_rlock
from wengert.core.graph import recording
from wengert.core.mesh import Mesh
from wengert.core.sizes import budget_of
from wengert.runtime.arguments import CallArguments, take_apart
from wengert.runtime.capture import capture
from wengert.runtime.config import config
from wengert.runtime.debug.reasons import RecordingLog, change
from wengert.runtime.debug.shown import Shown, ShownMethod
from wengert.runtime.memory.budget import Promise
from wengert.runtime.partitioned import build_partitioned, placements
from wengert.runtime.pickling import ByFunction, ByObject
from wengert.runtime.program import Interpreter, build
from wengert.runtime.reads.log import ReadLog, ReadState
from wengert.runtime.static.fast_path import MOVED
from wengert.runtime.static.specialization import Specialization

_TUNING_SECONDS = 30.0
_MANY_PROGRAMS = 3  # for one key: from then on a recording is built only when it comes back


def compile(
    function: Callable[..., Any] | None = None,
    *,
    check: bool = False,
    cache: int = 32,
    tune: bool | float = False,
    memory_budget: int | str | None = None,
    mesh: Mesh | None = None,
    microbatches: int | None = None,
    schedule: str = "1f1b",
) -> Compiled | Callable[[Callable[..., Any]], Compiled]:
    """Compile a function into one program: it is recorded at the first call and replayed at later ones.

    Tensors, NumPy arrays and Python floats among the arguments, in nested containers or not, are inputs; other values
    are static, and a new value causes a new recording. Outer tensors are read and assigned as usual. The function
    cannot read a tensor's value. `check=True` repeats the recording at every call; `cache` is the number of recordings
    to keep. `tune=True` chooses the kernels of a program on a GPU by timing them, for at most 30 seconds, or the number
    of seconds given instead; the winners are stored on disk and used by later programs. `memory_budget`, in bytes or as
    "8GiB", limits a program's memory: if it would need more, calls raise an error before anything runs.

    With a `mesh`, the ranks compute together what the function computes on one: replicated arguments are split along
    their first axis; see `wg.distributed` for other placements. `microbatches` is the number of parts into which the
    batch is split, which each rank computes one after another. Over a mesh with an axis "stage" they go through a
    pipeline in the order of a `schedule`: "1f1b" or "gpipe".

    >>> import wengert as wg
    >>> total = wg.tensor(0.0)
    >>> @wg.compile
    ... def add(x):
    ...     total.assign(total + x.sum())
    ...     return x * 2
    >>> [add(wg.tensor([1.0, 2.0])).tolist() for _ in range(3)][-1], total.item()
    ([2.0, 4.0], 9.0)
    """
    options: dict[str, Any] = {"check": check, "cache": cache, "tune": tune, "memory_budget": memory_budget}
    options |= {"mesh": mesh, "microbatches": microbatches, "schedule": schedule}
    if function is None:
        return functools.partial(compile, **options)  # type: ignore[return-value]
    return Compiled(function, **options)


class Compiled(ByFunction, Shown):
    """A compiled function: call it like the function itself.

    `why()` tells why it was recorded each time; `explain()`, `source()` and `memory()` show the compiled program;
    `memory(*args)` and `fits(device, *args)` predict the memory of a call.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        check: bool = False,
        cache: int = 32,
        tune: bool | float = False,
        memory_budget: int | str | None = None,
        mesh: Mesh | None = None,
        microbatches: int | None = None,
        schedule: str = "1f1b",
    ) -> None:
        if not callable(function):
            raise ArgumentError(f"compile takes a function, not {function!r}")
        if cache < 1:
            raise ArgumentError(f"compile: cache must be at least 1 recording, not {cache}")
        if not isinstance(tune, (bool, int, float)) or tune < 0:
            raise ArgumentError(f"compile: tune must be True or a number of seconds, not {tune!r}")
        self._function = function
        self._check = check
        self._limit = cache
        self._budget = budget_of(memory_budget)
        self._mesh, self._microbatches, self._schedule = mesh, microbatches, schedule
        self._spread()  # raises where ranks cannot share the parts
        self._tuning = _TUNING_SECONDS if tune is True else float(tune)
        self._specializations: dict[tuple[Any, ...], list[Specialization]] = {}
        self._latest: tuple[tuple[Any, ...], Specialization] | None = None
        self._log = RecordingLog(repr(self))
        self._clock = 0
        self.recordings = 0  # how often the function was recorded, repeated recordings counted
        self._read_state = ReadState()
        self._held: list[Any] = []  # the slots of a recording just made, until it has run
        self._lock = new_rlock()
        functools.update_wrapper(self, function, updated=())

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else CompiledMethod(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # also while it is being made
            raise AttributeError(name)
        return getattr(self._function, name)

    def __repr__(self) -> str:
        return f"<compiled {getattr(self._function, '__qualname__', type(self._function).__name__)}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        return self.call(None, args, kwargs)

    def call(self, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, as a method of `instance` if it is not None."""
        latest = self._latest
        if latest is not None and not kwargs and not self._check and recording.trace is None:
            last, lock = latest[1], self._lock
            lock.acquire()  # a third of the time of a with statement
            try:
                if last.fast_path is not None:
                    result = last.fast_path.call(last, instance, args)
                    if result is not MOVED:
                        self._clock = last.used = self._clock + 1
                        return result
            finally:
                lock.release()
        arguments = None if recording.trace is not None else take_apart(instance, args, kwargs)
        if arguments is None:  # part of a larger recording
            return self._function(*args, **kwargs) if instance is None else self._function(instance, *args, **kwargs)
        with self._lock:
            known = self._specializations.get(arguments.key)
            if known is not None and not self._check:
                result = known[0].replayed(arguments.leaves)
                if result is not MOVED:
                    self._clock = known[0].used = self._clock + 1
                    return result
            found = self._find(arguments)
            if found is None or self._check or found.calls + 1 >= found.due:
                found = self._record(arguments, found, instance)
            found.calls += 1
            self._clock = found.used = self._clock + 1
            try:
                return found.run(arguments)
            finally:
                self._held = []

    # --- finding a recording ------------------------------------------------------------------------------------

    def _find(self, arguments: CallArguments) -> Specialization | None:
        """The recording that is valid for a call."""
        known = self._specializations.get(arguments.key, [])
        for i, one in enumerate(known):
            if one.objection(arguments) is None:
                known.insert(0, known.pop(i))
                return one
        return None

    def _record(self, arguments: CallArguments, standing: Specialization | None, instance: Any) -> Specialization:
        """Record the function on a call's arguments, where no recording stands or it is time to look again."""
        reason = self._reason(arguments) if standing is None else "the recording was repeated and gave another graph"
        made = self._capture(arguments, instance, covers=standing is not None and standing.calls == 1)
        known = [one for one in self._specializations.get(arguments.key, []) if one.is_alive()]
        same = next((one for one in known if one.identity == made.identity), None)
        if standing is not None and same is not standing:
            made.changes = standing.changes + 1
            if made.changes >= 2:
                self._log.raise_unsteady(standing.transcript, made.transcript)
            known.remove(standing)
        made = self._adopt(made, same, known, arguments)
        self._specializations[arguments.key] = [made, *[one for one in known if one is not made]]
        if standing is not made:
            self._log.note(reason, arguments, len(self._specializations[arguments.key]) == 1, self._clock)
        self._latest = (arguments.key, made)
        made.used = self._clock + 1  # it is about to be
        self._evict()
        return made

    def _adopt(
        self, made: Specialization, same: Specialization | None, known: list[Specialization], arguments: CallArguments
    ) -> Specialization:
        """The known recording that a new one is the same as, brought up to date; or the new one, with its program."""
        if same is None:
            many = len(known) >= _MANY_PROGRAMS and self.budget is None and not config.invariant
            many = many and self._spread() is None
            made.program = Interpreter(made.graph) if many else self._built(made, arguments)
            return made
        same.guards, same.version = made.guards, made.version
        same.confirm(is_other=made.changes > 0)
        same.changes = made.changes
        if type(same.program) is Interpreter and len(known) > _MANY_PROGRAMS:
            same.program = self._built(same, arguments)
        return same

    def _built(self, specialization: Specialization, arguments: CallArguments) -> Runnable:
        promise = None if self.budget is None else Promise(self.budget, specialization.captured)
        graph, binding, spread = specialization.graph, specialization.binding, self._spread()
        if spread is None:
            return build(graph, binding.pairs, self._tuning, promise)
        binding.takes_blocks = True
        inputs = placements(graph, spread, binding.arrays(arguments.leaves), binding.count, self._microbatches)
        made = functools.partial(build, pairs=binding.pairs, tuning=self._tuning, promise=promise)
        return build_partitioned(graph, spread, inputs, binding.pairs, made, binding.interface())

    def _spread(self) -> Distribution | None:
        """How the function is spread over a mesh, if it is; raises where that cannot be."""
        if (self._mesh, self._microbatches, config.parts) == (None, None, None):
            return None
        parts = parts_of(self._microbatches, config.parts)
        return distribution(self._mesh, parts, config.parts is not None, self._schedule)

    @property
    def budget(self) -> int | None:
        """The bytes that a program may use; None if there is no limit."""
        return config.memory_budget if self._budget is None else self._budget

    def _capture(self, arguments: CallArguments, instance: Any, covers: bool = False) -> Specialization:
        function = self._function if instance is None else functools.partial(self._function, instance)
        self.recordings += 1
        reads = functools.partial(ReadLog, repr(self), self._read_state, instance, covers)
        captured = capture(function, arguments, reads)
        self._held, captured.held = captured.held, []
        return Specialization(captured, arguments, instance)

    def _evict(self) -> None:
        """Enforce the limit: drop the least recently used recordings."""
        while sum(map(len, self._specializations.values())) > self._limit:
            key = min(self._specializations, key=lambda key: max(one.used for one in self._specializations[key]))
            known = self._specializations[key]
            known.remove(min(known, key=lambda one: one.used))
            if not known:
                del self._specializations[key]

    # --- showing what was made of it ----------------------------------------------------------------------------

    def why(self) -> list[str]:
        """Why the function was recorded, for the last hundred times that made a new recording or found a known one."""
        return list(self._log.reasons)

    def _reason(self, arguments: CallArguments) -> str:
        if self._latest is None:
            return "it is the first call"
        if known := self._specializations.get(arguments.key):
            return known[0].objection(arguments) or "it is the first call"
        return change(self._latest[0], arguments.key)


class CompiledMethod(ByObject, ShownMethod):
    """A compiled function bound to an object."""

    def __init__(self, compiled: Compiled, instance: Any) -> None:
        self.__func__ = self.__wrapped__ = compiled
        self.__self__ = instance

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The method's result."""
        return self.__func__.call(self.__self__, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__func__, name)

    def __repr__(self) -> str:
        return f"<bound {self.__func__!r} of {self.__self__!r}>"
