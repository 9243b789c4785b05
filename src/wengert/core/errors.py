"""The exceptions that users see: they say what happened, where, and what to do.

Each exception takes its message and adds the user's own line. A mistake found while recording is on that line already;
one that surfaces later (a value that could not be computed) is given the location of the op that failed.
"""

from __future__ import annotations

from numpy.linalg import LinAlgError

from wengert.core.code import Location, asked_from, describe, source_line


class WengertError(RuntimeError):
    """The base class of Wengert's errors; each is also a ValueError, TypeError, ... where Python has a matching
    class.

    >>> import wengert as wg
    >>> try:
    ...     wg.ones(2) + wg.ones(3)
    ... except wg.errors.WengertError as error:
    ...     print(type(error).__name__)
    ShapeError
    """

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
    """Shapes or axes that do not match.

    >>> import wengert as wg
    >>> try:
    ...     wg.ones(2) + wg.ones(3)
    ... except wg.errors.ShapeError:
    ...     print("shapes differ")
    shapes differ
    """


class DTypeError(WengertError, TypeError):
    """A dtype, or a kind of argument, that an op does not take.

    >>> import wengert as wg
    >>> try:
    ...     wg.bitwise_and(wg.ones(2), 1)
    ... except wg.errors.DTypeError:
    ...     print("integers only")
    integers only
    """


class DeviceError(WengertError, ValueError):
    """Values on different devices, or a device that does not exist.

    >>> import wengert as wg
    >>> try:
    ...     wg.ones(2, device="nowhere")
    ... except wg.errors.DeviceError:
    ...     print("no such device")
    no such device
    """


class CudaError(WengertError, RuntimeError):
    """The CUDA driver reported an error.

    >>> import wengert as wg
    >>> issubclass(wg.errors.CudaError, wg.errors.WengertError)
    True
    """


class OutOfMemoryError(WengertError, MemoryError):
    """A device has not enough memory left.

    >>> import wengert as wg
    >>> issubclass(wg.errors.OutOfMemoryError, MemoryError)
    True
    """


class MemoryBudgetError(OutOfMemoryError):
    """A program would exceed its memory budget; `least` is the minimum number of bytes it needs.

    >>> import wengert as wg
    >>> try:
    ...     wg.compile(wg.exp, memory_budget=8)(wg.ones(100))
    ... except wg.errors.MemoryBudgetError:
    ...     print("more than 8 bytes")
    more than 8 bytes
    """

    def __init__(self, message: str, location: Location = None, least: int = 0) -> None:
        super().__init__(message, location)
        self.least = least


class ArgumentError(WengertError, ValueError):
    """An argument whose value makes no sense.

    >>> import wengert as wg
    >>> try:
    ...     wg.nn.Linear(2, 2).train(mode=1)
    ... except wg.errors.ArgumentError:
    ...     print("True or False")
    True or False
    """


class OutOfRangeError(WengertError, IndexError):
    """An index out of range for its axis.

    >>> import wengert as wg
    >>> try:
    ...     wg.ones(3)[5]
    ... except wg.errors.OutOfRangeError:
    ...     print("there are three")
    there are three
    """


class GradientError(WengertError, RuntimeError):
    """A derivative that cannot be computed: no graph, no rule, or a graph that was already freed.

    >>> import wengert as wg
    >>> try:
    ...     wg.ones(3).sum().backward()
    ... except wg.errors.GradientError:
    ...     print("nothing requires a gradient")
    nothing requires a gradient
    """


class AbstractValueError(WengertError, TypeError):
    """A value was read while recording with abstract inputs, when it does not exist yet.

    >>> import wengert as wg
    >>> try:
    ...     wg.compile(lambda x: x if x > 0 else -x)(wg.tensor(1.0))
    ... except wg.errors.AbstractValueError:
    ...     print("use wg.where")
    use wg.where
    """


class AssignmentError(WengertError, RuntimeError):
    """A tensor cannot be assigned this value.

    >>> import wengert as wg
    >>> try:
    ...     wg.ones(3).assign(wg.ones(4))
    ... except wg.errors.WengertError as error:
    ...     print(type(error).__name__)
    ShapeError
    """


class RecordingError(WengertError, RuntimeError):
    """A compiled function produces a different graph each time it is recorded.

    >>> import wengert as wg
    >>> issubclass(wg.errors.RecordingError, wg.errors.WengertError)
    True
    """


class ComputationError(WengertError, RuntimeError):
    """An op failed while computing its value; raised whenever that value is read.

    >>> import wengert as wg
    >>> try:
    ...     print(wg.linalg.cholesky(-wg.eye(2)))
    ... except wg.errors.ComputationError:
    ...     print("not positive definite")
    Tensor(failed: cholesky failed: Matrix is not positive definite, shape=(2, 2), dtype=float32, device=cpu)
    """


class LinearAlgebraError(ComputationError, LinAlgError):
    """A matrix that cannot be factored or inverted; also NumPy's `LinAlgError`.

    >>> import wengert as wg
    >>> try:
    ...     wg.linalg.inv(wg.zeros((2, 2))).numpy()
    ... except wg.errors.LinearAlgebraError as error:
    ...     print(error.message)
    inv failed: Singular matrix
    """


class IndexValueError(ComputationError, OutOfRangeError):
    """An index outside its axis, found when the value was computed.

    >>> import wengert as wg
    >>> issubclass(wg.errors.IndexValueError, IndexError)
    True
    """


class NaNError(WengertError, FloatingPointError):
    """`debug_nans` found the first op that produced a NaN.

    >>> import wengert as wg
    >>> try:
    ...     with wg.debug_nans():
    ...         print(wg.log(wg.tensor(-1.0)))
    ... except wg.errors.NaNError:
    ...     print("log gave NaN")
    Tensor(failed: log produced 1 NaN of 1 element from inputs in [-1, -1], shape=(), dtype=float32, device=cpu)
    """


class FileError(WengertError, ValueError):
    """A file that cannot be read: corrupt, of another kind, or of a later version.

    >>> import wengert as wg
    >>> try:
    ...     wg.load("/no/such/file.safetensors")
    ... except OSError:
    ...     print("no such file")
    no such file
    """


class CacheError(WengertError, OSError):
    """A cache of compiled programs that cannot be used.

    >>> import wengert as wg
    >>> issubclass(wg.errors.CacheError, wg.errors.WengertError)
    True
    """


class CompilerError(WengertError, RuntimeError):
    """The compiler transformed a graph incorrectly: a bug in Wengert, named by pass, node and line.

    >>> import wengert as wg
    >>> issubclass(wg.errors.CompilerError, wg.errors.WengertError)
    True
    """


class DistributedError(WengertError, RuntimeError):
    """An error between ranks; `ranks` are those at fault, as far as known.

    >>> import wengert as wg
    >>> issubclass(wg.errors.DistributedError, wg.errors.WengertError)
    True
    """

    def __init__(self, message: str, location: Location = None, ranks: tuple[int, ...] = ()) -> None:
        super().__init__(message, location)
        self.ranks = ranks


class RankLost(DistributedError):
    """A rank died, failed, or ended while others still needed it; `rank` is None if it was the launcher.

    >>> import wengert as wg
    >>> issubclass(wg.errors.RankLost, wg.errors.DistributedError)
    True
    """

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
    """A collective waited longer than `wg.config.deadline`; `ranks` have not entered it.

    >>> import wengert as wg
    >>> issubclass(wg.errors.CollectiveTimeout, wg.errors.DistributedError)
    True
    """


class ProgramMismatch(DistributedError):
    """Ranks are about to run different programs; `ranks` are two that differ.

    >>> import wengert as wg
    >>> issubclass(wg.errors.ProgramMismatch, wg.errors.DistributedError)
    True
    """
