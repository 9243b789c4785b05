"""What a compiled function shows about itself: its graph, the compiler's report, its source and its memory."""

from __future__ import annotations

import html
from collections.abc import Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any

from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph
from wengert.runtime.debug.collectives import CollectiveRecord, explained, records, text
from wengert.runtime.debug.explain import Printed, compiled_program, notebook_html
from wengert.runtime.memory.fits import Fit, fit_of, memory_of
from wengert.runtime.memory.predict import ProgramMemory

if TYPE_CHECKING:
    from wengert.runtime.certificate.certificate import Certificate
    from wengert.runtime.static.specialization import Specialization


class Shown:
    """The inspection methods of `Compiled`. By default they show the latest call."""

    _function: Any
    _latest: tuple[tuple[Any, ...], Specialization] | None
    _specializations: dict[tuple[Any, ...], list[Specialization]]

    def _repr_html_(self) -> str:
        """In a notebook: its name, and what the compiler made of the latest call."""
        name = f"<code>{html.escape(repr(self))}</code>"
        if not self._specializations:
            return f"{name} <small>not called yet</small>"
        newest = self._newest("html")
        spread = getattr(newest.program, "distributed", None)
        sent = f"<pre>{html.escape(text(spread))}</pre>" if spread is not None else ""
        return name + notebook_html(newest.graph, newest.program) + sent

    def graph(self) -> Graph:
        """The graph recorded last; `print` shows it as Python."""
        if self._latest is None:
            raise ArgumentError("graph: the function has not been called yet; it is recorded at the first call")
        return self._latest[1].graph

    def explain(self, what: str | None = None) -> str:
        """Print how the compiler transformed the latest call's recording, and return the text.

        Without an argument it shows the table of passes: nodes, kernels, bytes moved, operations, peak memory, time.
        The name of a row of that table, such as `recorded`, `cse` or `fuse`, shows the graph after that pass as
        runnable Python; `memory` shows the timeline and `build` the C source. `refusals` shows why groups of values
        were not fused. On a GPU, `tuning` shows which kernels and libraries were chosen by timing. Over a mesh,
        `collectives` shows what ranks send to each other and why, and `partition` also shows the graph of a rank.
        """
        newest = self._newest("explain")
        text = explained(newest.graph, newest.program, what)
        print(text)
        return Printed(text)

    def collectives(self) -> list[CollectiveRecord]:
        """The collectives of the latest call's program, in order: kind, axis of the mesh, bytes, the user's line."""
        return records(getattr(self._newest("collectives").program, "distributed", None))

    def source(self) -> str:
        """The C, or the CUDA C++, of the latest call's program."""
        program: Any = self._newest("source").program
        return str(compiled_program(program, "source").source)

    def certificate(self) -> Certificate:
        """A certificate of the latest call's program: its rewrite rules with their proofs, and its checked kernels.

        Rules are tested on small graphs and kernels at small sizes; the results are cached on disk. The certificate is
        true if everything was proved, and `print` shows it as a table.

        >>> import wengert as wg
        >>> double = wg.compile(lambda x: x * 2 + 0)
        >>> double(wg.ones(3)).tolist(), bool(double.certificate())
        ([2.0, 2.0, 2.0], True)
        """
        from wengert.runtime.certificate.certificate import certificate_of  # which few programs need

        program: Any = self._newest("certificate").program
        return certificate_of(compiled_program(program, "certificate").plan)

    def memory(self, *args: Any, **kwargs: Any) -> ProgramMemory:
        """Print the peak memory of a call, part by part, and what is live at each step; returns the figures.

        With arguments, it predicts the memory of a call with them: the function is recorded and planned, but nothing
        runs. Pending arguments, such as `wg.zeros`, are not computed. Without arguments, it shows the latest call.

        >>> import wengert as wg
        >>> memory = wg.compile(lambda x: x * 2).memory(wg.zeros((1024, 1024)))  # doctest: +ELLIPSIS
        8.4 MB at the peak on cpu
              4.2 MB  arguments
              4.2 MB  results
        ...
        >>> memory.peak
        8388608
        """
        return self._memory(None, args, kwargs)

    def fits(self, device: str | int, *args: Any, **kwargs: Any) -> Fit:
        """Whether a call with these arguments fits into the memory of a device; the result also has the figures.

        The device is the name of any GPU, such as "H200" or "RTX 4090", present or not; "cpu" for this machine's
        memory; a device of this machine; or a number of bytes, such as 24_000_000_000 or "24 GB". Nothing runs.

        >>> import wengert as wg
        >>> step = wg.compile(lambda x: (x @ x.T).sum())
        >>> bool(step.fits("T4", wg.zeros((1024, 1024)))), bool(step.fits("T4", wg.zeros((100_000, 100_000))))
        (True, False)
        """
        return fit_of(self, None, device, args, kwargs)

    def _memory(self, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ProgramMemory:
        asks_for_latest = not args and not kwargs and (self._specializations or not _takes_nothing(self, instance))
        found = memory_of(self, instance, args, kwargs, self._newest("memory") if asks_for_latest else None)
        print(found)
        return found

    def _newest(self, asked: str) -> Specialization:
        """The recording used last."""
        every = [one for known in self._specializations.values() for one in known]
        if not every:
            raise ArgumentError(f"{asked}: the function has not been called yet; it is compiled at the first call")
        return max(every, key=lambda one: one.used)


class ShownMethod:
    """The inspection methods of a compiled method, for calls with its object."""

    __func__: Any
    __self__: Any

    def memory(self, *args: Any, **kwargs: Any) -> ProgramMemory:
        """Print the memory of a call; see `Shown.memory`."""
        found: ProgramMemory = self.__func__._memory(self.__self__, args, kwargs)
        return found

    def fits(self, device: str | int, *args: Any, **kwargs: Any) -> Fit:
        """Whether a call fits into the memory of a device; see `Shown.fits`."""
        return fit_of(self.__func__, self.__self__, device, args, kwargs)


def _takes_nothing(compiled: Shown, instance: Any) -> bool:
    """Whether the function can be called without arguments."""
    given: Sequence[Any] = () if instance is None else (instance,)
    try:
        signature(compiled._function).bind(*given)
    except (TypeError, ValueError):
        return False
    return True
