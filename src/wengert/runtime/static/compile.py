"""Static execution: `compile` records a function once, whatever it reads, assigns and differentiates, and replays it.

In: a function, and calls of it. Each call is looked up by what counts of its arguments (`arguments`), checked against
the world outside (`guards`, `replay`), and replayed; where there is no recording that stands, it is recorded anew
(`capture`) and built (`program`). The recording is repeated at calls 2, 4, 8, ... and must give the same graph
(`signature`): what Python does besides happens only then.
"""

from __future__ import annotations

import functools
import html
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from wengert.backends.protocol import Runnable
from wengert.core.errors import ArgumentError, RecordingError
from wengert.core.graph import Graph, recording
from wengert.runtime.debug.explain import Moment, Printed, compiled_program, memory_text, text_of, timeline
from wengert.runtime.program import Interpreter, build
from wengert.runtime.static.arguments import ARRAY, TENSOR, Call, change, is_compared_by_identity, names, take_apart
from wengert.runtime.static.capture import capture
from wengert.runtime.static.guards import Guards
from wengert.runtime.static.repetition import MOVED
from wengert.runtime.static.replay import Replay, is_due
from wengert.runtime.static.signature import difference

_TUNING_SECONDS = 30.0
_MANY_SHAPES = 8  # of one argument: from then on padding would be cheaper
_MANY_PROGRAMS = 3  # for one key: from then on a recording is built only when it comes back
_MANY_RECORDINGS = 16  # for reasons other than the arguments, if that is more than every fourth call


def compile(
    function: Callable[..., Any] | None = None, *, check: bool = False, cache: int = 32, tune: bool | float = False
) -> Compiled | Callable[[Callable[..., Any]], Compiled]:
    """The function as one program: recorded at the first call, replayed at the next ones.

    Tensors, NumPy arrays and Python floats among the arguments, in nested containers or not, are inputs; other values
    are static, and another one is recorded anew. Tensors from outside are read and assigned as usual. A value may not
    be looked at inside. `check=True` repeats the recording at every call; `cache` is how many recordings are kept.
    `tune=True` has the kernels of a program on a GPU chosen by timing them, for 30 seconds at most, or for as many as
    are given instead; what wins is kept on disk, and used by every later program.

    >>> import wengert as wg
    >>> total = wg.tensor(0.0)
    >>> @wg.compile
    ... def add(x):
    ...     total.assign(total + x.sum())
    ...     return x * 2
    >>> [add(wg.tensor([1.0, 2.0])).tolist() for _ in range(3)][-1], total.item()
    ([2.0, 4.0], 9.0)
    """
    if function is None:
        return functools.partial(Compiled, check=check, cache=cache, tune=tune)
    return Compiled(function, check=check, cache=cache, tune=tune)


class Compiled:
    """A compiled function: call it as the function itself.

    `why()` tells why it was recorded, each time; `explain()`, `source()` and `memory()` what was made of it.
    """

    def __init__(
        self, function: Callable[..., Any], check: bool = False, cache: int = 32, tune: bool | float = False
    ) -> None:
        if not callable(function):
            raise ArgumentError(f"compile takes a function, not {function!r}")
        if cache < 1:
            raise ArgumentError(f"compile: the cache holds at least 1 recording, not {cache}")
        if not isinstance(tune, (bool, int, float)) or tune < 0:
            raise ArgumentError(f"compile: tune is True, or a number of seconds, not {tune!r}")
        self._function = function
        self._check = check
        self._limit = cache
        self._tuning = _TUNING_SECONDS if tune is True else float(tune)
        self._replays: dict[tuple[Any, ...], list[Replay]] = {}
        self._latest: tuple[tuple[Any, ...], Replay] | None = None
        self._reasons: list[str] = []
        self._shapes: dict[int, set[Any]] = {}
        self._warned: set[Any] = set()
        self._clock = 0
        self._recordings = 0
        self._held: list[Any] = []  # the slots of a recording just made, until it has run
        self._lock = threading.RLock()
        functools.update_wrapper(self, function, updated=())

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else CompiledMethod(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # also while it is being made
            raise AttributeError(name)
        return getattr(self._function, name)

    def __repr__(self) -> str:
        return f"<compiled {getattr(self._function, '__qualname__', type(self._function).__name__)}>"

    def _repr_html_(self) -> str:
        """In a notebook: its name, and what the compiler made of the latest call."""
        name = f"<code>{html.escape(repr(self))}</code>"
        if not self._replays:
            return f"{name} <small>not called yet</small>"
        replay = self._newest("html")
        return f"{name}<pre>{html.escape(text_of(replay.graph, replay.program))}</pre>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result."""
        return self.call(None, args, kwargs)

    def call(self, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function's result, as a method of `instance` if that is not None."""
        latest = self._latest
        if latest is not None and not kwargs and not self._check and recording.trace is None:
            last, lock = latest[1], self._lock
            lock.acquire()  # a third of the time of a with statement
            try:
                if last.repetition is not None:
                    result = last.repetition.again(last, instance, args)
                    if result is not MOVED:
                        self._clock = last.used = self._clock + 1
                        return result
            finally:
                lock.release()
        call = None if recording.trace is not None else take_apart(instance, args, kwargs)
        if call is None:  # part of a larger recording
            return self._function(*args, **kwargs) if instance is None else self._function(instance, *args, **kwargs)
        with self._lock:
            known = self._replays.get(call.key)
            if known is not None and not self._check:
                result = known[0].repeated(call.leaves)
                if result is not MOVED:
                    self._clock = known[0].used = self._clock + 1
                    return result
            replay = self._find(call)
            if replay is None or self._check or is_due(replay.calls + 1):
                replay = self._record(call, replay, instance)
            replay.calls += 1
            self._clock += 1
            replay.used = self._clock
            try:
                return replay.run(call)
            finally:
                self._held = []

    # --- finding a recording ------------------------------------------------------------------------------------

    def _find(self, call: Call) -> Replay | None:
        """The recording that stands for a call."""
        known = self._replays.get(call.key)
        if known is None:
            return None
        for i, replay in enumerate(known):
            if replay.objection(call) is None:
                if i:
                    known.insert(0, known.pop(i))
                return replay
        return None

    def _record(self, call: Call, standing: Replay | None, instance: Any) -> Replay:
        """Record the function on a call's arguments, where no recording stands or it is time to look again."""
        reason = self._reason(call) if standing is None else "the recording was repeated and gave another graph"
        made = self._capture(call, instance)
        known = [replay for replay in self._replays.get(call.key, []) if replay.is_alive()]
        same = next((replay for replay in known if replay.identity == made.identity), None)
        if standing is not None and same is not standing:
            made.changes = standing.changes + 1
            if made.changes >= 2:
                self._raise_unsteady(standing, made)
            known.remove(standing)
        made = self._adopt(made, same, known)
        self._replays[call.key] = [made, *[replay for replay in known if replay is not made]]
        if standing is not made:
            self._note(reason, call)
        self._latest = (call.key, made)
        self._evict()
        return made

    def _adopt(self, made: Replay, same: Replay | None, known: Sequence[Replay]) -> Replay:
        """The known recording that a new one is the same as, brought up to date; or the new one, with its program."""
        if same is None:
            many = len(known) >= _MANY_PROGRAMS
            made.program = Interpreter(made.graph) if many else self._built(made)
            return made
        same.guards, same.version = made.guards, made.version
        if made.changes:
            same.calls = 0
        same.changes = made.changes
        if type(same.program) is Interpreter and len(known) > _MANY_PROGRAMS:
            same.program = self._built(same)
        return same

    def _built(self, replay: Replay) -> Runnable:
        return build(replay.graph, replay.pairs, self._tuning)

    def _capture(self, call: Call, instance: Any) -> Replay:
        function = self._function if instance is None else functools.partial(self._function, instance)
        guards = Guards.of(self._function, _objects(call, instance))  # before: the function may change what it reads
        captured = capture(function, call)
        self._held, captured.held = captured.held, []
        return Replay(captured, guards, call, instance)

    def _evict(self) -> None:
        """Keep the bound: the recordings used longest ago go."""
        while sum(map(len, self._replays.values())) > self._limit:
            key = min(self._replays, key=lambda key: max(replay.used for replay in self._replays[key]))
            known = self._replays[key]
            known.remove(min(known, key=lambda replay: replay.used))
            if not known:
                del self._replays[key]

    # --- saying why ---------------------------------------------------------------------------------------------

    def why(self) -> list[str]:
        """Why the function was recorded, the last hundred times that gave a new recording or found a known one."""
        return list(self._reasons)

    def graph(self) -> Graph:
        """The graph recorded last; `print` shows it as Python."""
        if self._latest is None:
            raise ArgumentError("graph: the function has not been called yet, and is recorded at the first call")
        return self._latest[1].graph

    # --- showing what was made of it ----------------------------------------------------------------------------

    def explain(self, what: str | None = None) -> str:
        """Print what the compiler made of the latest call's recording, and return the text.

        Without an argument the table of its passes: nodes, kernels, bytes moved, operations, peak memory, time. With
        the name of a row of that table, such as `recorded`, `cse` or `fuse`, the graph after that pass as Python that
        runs; `memory` and `build`: the timeline, the C. `refusals`: why groups of values are kernels apart. On a GPU
        `tuning`: which kernels and libraries were chosen by timing them.
        """
        replay = self._newest("explain")
        text = text_of(replay.graph, replay.program, what)
        print(text)
        return Printed(text)

    def source(self) -> str:
        """The C, or the CUDA C++, of the latest call's program."""
        program: Any = self._newest("source").program
        return str(compiled_program(program, "source").source)

    def memory(self) -> list[Moment]:
        """Print what is live at each step of the latest call's program; the moments are returned."""
        program = compiled_program(self._newest("memory").program, "memory")
        print(memory_text(program))
        return timeline(program)

    def _newest(self, asked: str) -> Replay:
        """The recording used last."""
        replays = [replay for known in self._replays.values() for replay in known]
        if not replays:
            raise ArgumentError(f"{asked}: the function has not been called yet, and is compiled at the first call")
        return max(replays, key=lambda replay: replay.used)

    def _reason(self, call: Call) -> str:
        if self._latest is None:
            return "it is the first call"
        known = self._replays.get(call.key)
        if known:
            return known[0].objection(call) or "it is the first call"
        return change(self._latest[0], call.key)

    def _note(self, reason: str, call: Call) -> None:
        self._reasons.append(reason)
        del self._reasons[:-100]
        for i, specification in enumerate(call.specifications):
            if specification[0] in (TENSOR, ARRAY):
                shapes = self._shapes.setdefault(i, set())
                if len(shapes) < _MANY_SHAPES:
                    shapes.add(specification[1])
                if len(shapes) == _MANY_SHAPES:
                    shown = names(call.key[0])[i]
                    self._warn(
                        shown,
                        f"{self!r} was recorded for {len(shapes)} different shapes of {shown}, each a program of its "
                        "own. Pad it to a few fixed shapes",
                    )
        self._recordings += len(self._replays[call.key]) > 1
        if self._recordings >= _MANY_RECORDINGS and self._recordings * 4 > self._clock:
            self._warn(
                "again",
                f"{self!r} is recorded again and again, the last time because {reason}. What changes from call to call "
                "should be an argument, or a tensor made outside and assigned",
            )

    def _warn(self, what: Any, message: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            warnings.warn(message, stacklevel=6)

    def _raise_unsteady(self, before: Replay, after: Replay) -> None:
        where = difference(before.recorded, after.recorded)
        raise RecordingError(
            f"compile: three recordings of {self!r} in a row gave three different graphs, so there is no program that "
            f"stands for it. The first node that differs is\n  {where}\n"
            "What changes from call to call must be an argument, or a tensor made outside and assigned",
            where.location,
        )


def _objects(call: Call, instance: Any) -> list[Any]:
    """The positional arguments that are objects, for what the function reads of them; None for the others."""
    found = [arg if is_compared_by_identity(type(arg)) else None for arg in call.args]
    return found if instance is None else [instance, *found]


class CompiledMethod:
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
