"""What users see when things go wrong: exceptions that say what happened, where, and what to do.

Each exception takes its message and adds the user's own line. A mistake found while recording is on that line already;
one that surfaces later (a value that could not be computed) is given the location of the op that failed.
"""

from __future__ import annotations

from numpy.linalg import LinAlgError

from wengert.core.code import Location, asked_from, describe, source_line


class WengertError(RuntimeError):
    """The base of Wengert's errors; also a ValueError, TypeError, ... where Python has the fitting kind."""

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
    """Shapes or axes that do not fit."""


class DTypeError(WengertError, TypeError):
    """A dtype, or a kind of argument, that an op does not take."""


class DeviceError(WengertError, ValueError):
    """Values on devices that cannot work together, or a device that is not there."""


class CudaError(WengertError, RuntimeError):
    """The CUDA driver reports an error."""


class OutOfMemoryError(WengertError, MemoryError):
    """A device has not enough memory left."""


class MemoryBudgetError(OutOfMemoryError):
    """A program would take more memory than its budget; `least` is how many bytes it can do with."""

    def __init__(self, message: str, location: Location = None, least: int = 0) -> None:
        super().__init__(message, location)
        self.least = least


class ArgumentError(WengertError, ValueError):
    """An argument whose value makes no sense."""


class OutOfRangeError(WengertError, IndexError):
    """An index outside its axis."""


class GradientError(WengertError, RuntimeError):
    """A derivative that cannot be taken: no graph, no rule, a graph already let go."""


class AbstractValueError(WengertError, TypeError):
    """A value was asked for while recording with abstract inputs, where there is none."""


class AssignmentError(WengertError, RuntimeError):
    """A slot cannot be given this value."""


class RecordingError(WengertError, RuntimeError):
    """A compiled function gives another graph each time it is recorded."""


class ComputationError(WengertError, RuntimeError):
    """An op failed when its value was computed; raised whenever that value is looked at."""


class LinearAlgebraError(ComputationError, LinAlgError):
    """A matrix that cannot be factored or inverted; one of NumPy's `LinAlgError` as well."""


class IndexValueError(ComputationError, OutOfRangeError):
    """An index outside its axis, found when the value was computed."""


def computation_error(op: str, error: Exception, location: Location) -> ComputationError:
    """The error of an op that failed with `error`: of the class that its users catch."""
    kind = ComputationError
    if isinstance(error, LinAlgError):
        kind = LinearAlgebraError
    elif isinstance(error, IndexError):
        kind = IndexValueError
    return kind(f"{op} failed: {error}", location)


class NaNError(WengertError, FloatingPointError):
    """`debug_nans` found the first op that made a NaN."""


class FileError(WengertError, ValueError):
    """A file that cannot be read as what it should be: damaged, of another kind, or of a later version."""


class CacheError(WengertError, OSError):
    """A cache of built programs that cannot be used."""


class CompilerError(WengertError, RuntimeError):
    """The compiler made something of a graph that it must not: a mistake in Wengert, named by pass, node and line."""


class DistributedError(WengertError, RuntimeError):
    """Something that went wrong between ranks; `ranks` are those at fault, as far as that is known."""

    def __init__(self, message: str, location: Location = None, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message, location)
        self.ranks = ranks


class RankLost(DistributedError):
    """A rank died, failed, or ended while others still needed it; `rank` is None where it was the launcher."""

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
    """A collective waited longer than `wg.config.deadline`; `ranks` have not come to it."""


class ProgramMismatch(DistributedError):
    """Ranks are about to run different programs; `ranks` are two of them that differ."""
