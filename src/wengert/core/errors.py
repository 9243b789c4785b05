"""The exceptions that users see: they say what happened, where, and what to do.

Each exception takes its message and adds the user's own line. A mistake found while recording is on that line already;
one that surfaces later (a value that could not be computed) is given the location of the op that failed.
"""

from __future__ import annotations

from wengert.core.code import Location, asked_from, describe, source_line


class WengertError(RuntimeError):
    """The base class of Wengert's errors; each is also a ValueError, TypeError, ... where Python has a matching
    class."""

    def __init__(self, message: str, location: Location = None) -> None:
        location = location or asked_from()
        line = source_line(location)
        where = f"\n  at {describe(location)}" + (f":  {line}" if line else "")
        super().__init__(message + (where if location else ""))
        self.message = message
        self.location = location

    def __str__(self) -> str:
        return str(self.args[0])


class ShapeError(WengertError, ValueError):
    """Shapes or axes that do not match."""


class DTypeError(WengertError, TypeError):
    """A dtype, or a kind of argument, that an op does not take."""


class DeviceError(WengertError, ValueError):
    """Values on different devices, or a device that does not exist."""


class CudaError(WengertError, RuntimeError):
    """The CUDA driver reported an error."""


class OutOfMemoryError(WengertError, MemoryError):
    """A device has not enough memory left."""


class MemoryBudgetError(OutOfMemoryError):
    """A program would exceed its memory budget; `least` is the minimum number of bytes it needs."""

    def __init__(self, message: str, location: Location = None, least: int = 0) -> None:
        super().__init__(message, location)
        self.least = least


class ArgumentError(WengertError, ValueError):
    """An argument whose value makes no sense."""


class OutOfRangeError(WengertError, IndexError):
    """An index out of range for its axis."""


class GradientError(WengertError, RuntimeError):
    """A derivative that cannot be computed: no graph, no rule, or a graph that was already freed."""


class AbstractValueError(WengertError, TypeError):
    """A value was read while recording with abstract inputs, when it does not exist yet."""


class AssignmentError(WengertError, RuntimeError):
    """A tensor cannot be assigned this value."""


class RecordingError(WengertError, RuntimeError):
    """A compiled function produces a different graph each time it is recorded."""


class ComputationError(WengertError, RuntimeError):
    """An op failed while computing its value; raised whenever that value is read."""


class NaNError(WengertError, FloatingPointError):
    """`debug_nans` found the first op that produced a NaN."""


class FileError(WengertError, ValueError):
    """A file that cannot be read: corrupt, of another kind, or of a later version."""


class CacheError(WengertError, OSError):
    """A cache of compiled programs that cannot be used."""


class CompilerError(WengertError, RuntimeError):
    """The compiler transformed a graph incorrectly: a bug in Wengert, named by pass, node and line."""


class DistributedError(WengertError, RuntimeError):
    """An error between ranks; `ranks` are those at fault, as far as known."""

    def __init__(self, message: str, location: Location = None, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message, location)
        self.ranks = ranks


class RankLost(DistributedError):
    """A rank died, failed, or ended while others still needed it; `rank` is None if it was the launcher."""

    def __init__(
        self,
        message: str,
        location: Location = None,
        *,
        rank: int | None = None,
        host: str = "",
        pid: int = 0,
        signal: int | None = None,
        step: int | None = None,
    ) -> None:
        super().__init__(message, location, () if rank is None else (rank,))
        self.rank = rank
        self.host = host
        self.pid = pid
        self.signal = signal
        self.step = step


class CollectiveTimeout(DistributedError, TimeoutError):
    """A collective waited longer than `wg.config.deadline`; `ranks` have not entered it."""


class ProgramMismatch(DistributedError):
    """Ranks are about to run different programs; `ranks` are two that differ."""
