"""The interfaces of backends: the protocols of a program, and of the driver that programs on a GPU use.

`wengert.core.devices.Device` is the protocol of a device; `Device.build` gives a `Program`. A `Driver` is one GPU with
one stream: NVIDIA's implements it (`backends.cuda.driver`), and so does the emulated GPU of the tests.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wengert.kernels.launch import DeviceProperties, Launch, TensorMap

if TYPE_CHECKING:
    from wengert.core.graph import Graph, Node
    from wengert.plan.plan import Plan, Step

Array = np.ndarray[Any, Any]
NOTHING: Mapping[int, Any] = {}


# --- programs ---------------------------------------------------------------------------------------------------------


class Replay(Protocol):
    """A program on the memory of its last call, except for some inputs and outputs."""

    @property
    def makers(self) -> Sequence[Callable[[], Any]]:
        """Functions that make arrays for these outputs."""
        ...

    def refresh(self) -> None:
        """Check again for memory that others may have overwritten in place."""
        ...

    def run(self, arrays: Sequence[Array], made: Sequence[Any]) -> bool:
        """Compute these outputs, each into its array, from arrays for these inputs.

        Returns False if something is wrong; nothing was done then, and a normal call of the program reports the
        problem.
        """
        ...


class Runnable(Protocol):
    """Runs a graph: a compiled program, or an interpreter."""

    @property
    def is_compiled(self) -> bool:
        """Whether it is a compiled `Program`, with steps to describe."""
        ...

    def __call__(
        self, arrays: Sequence[Array], owned: Container[int] = (), spare: Mapping[int, Array] = NOTHING
    ) -> list[Array]:
        """The arrays of the graph's outputs, from those of its inputs.

        The inputs numbered in `owned` may be overwritten, and so may the arrays in `spare`, which are given by the
        number of the output that may use them.
        """
        ...

    def replay(self, inputs: Sequence[int], outputs: Sequence[int]) -> Replay | None:
        """The program on the memory of its last call, in which only these inputs and outputs may move, if possible."""
        ...


class Program(Runnable, Protocol):
    """A compiled graph, the result of `Device.build`. It runs, and reports what it consists of."""

    @property
    def graph(self) -> Graph:
        """The graph after the passes, that was fused and scheduled."""
        ...

    @property
    def plan(self) -> Plan:
        """Its plan: steps, buffers, arena and waits, with the reports of all passes and stages."""
        ...

    @property
    def seconds(self) -> float:
        """The time that the kernels' compiler took."""
        ...

    @property
    def made(self) -> Sequence[Node]:
        """The outputs that get their own arrays."""
        ...

    @property
    def device(self) -> str:
        """The name of its device."""
        ...

    @property
    def language(self) -> str:
        """The language of its kernels: "C", "CUDA"."""
        ...

    @property
    def steps(self) -> Sequence[Step]:
        """Its steps, in order."""
        ...

    @property
    def source(self) -> str:
        """The text of all kernels."""
        ...

    def text_of(self, number: int) -> str:
        """The text of a step."""
        ...

    def described(self) -> str:
        """Its launches and calls as text, printed under the table of `explain()`."""
        ...

    def tuning(self) -> str | None:
        """The winning candidates of timing; None if programs have no candidates."""
        ...


# --- the driver of a GPU ----------------------------------------------------------------------------------------------


class StreamEvent(Protocol):
    """A point in a stream: whether everything before it is done, and the time since another point."""

    def is_done(self) -> bool:
        """Whether the device has reached it."""
        ...

    def wait(self) -> None:
        """Wait until the device has reached it."""
        ...

    def since(self, other: Any) -> float:
        """The seconds from another event of the same driver to this one, both reached by the device."""
        ...


class Replayable(Protocol):
    """Launches that are replayed together and can be given other arguments."""

    def change(self, node: Any, function: Any, shape: Sequence[int], arguments: Any) -> None:
        """Give a kernel other arguments from the next replay on."""
        ...

    def replay(self) -> None:
        """Launch everything."""
        ...


class CapturedGraph(Replayable, Protocol):
    """A graph of launches, during and after capture."""

    def nodes(self) -> list[Any]:
        """The most recently captured nodes, which the next capture would wait for."""
        ...

    def after(self, nodes: Sequence[Any]) -> None:
        """Make the next capture wait for these nodes only."""
        ...

    def owns(self, start: int, size: int) -> None:
        """Declare memory that only the next captured call uses, at any time."""
        ...

    def condition(self) -> int:
        """A new condition, which kernels of the graph set, as a kernel argument."""
        ...

    def loop(self, condition: int) -> Any:
        """Capture a body that repeats while a condition holds: for `inside`."""
        ...

    def branch(self, condition: int) -> tuple[Any, Any]:
        """Capture two bodies: the first runs if a condition holds, else the second: for `inside`."""
        ...

    def inside(self, body: Any) -> AbstractContextManager[None]:
        """A context that captures into a body."""
        ...


class Driver(Protocol):
    """One GPU with one stream that orders all work. The holder of its lock owns the stream and the arena."""

    index: int
    properties: DeviceProperties
    lock: Any
    stream: Any
    arena_size: int
    flag: int
    functions: dict[tuple[str, str], Any]

    @property
    def name(self) -> str:
        """The vendor's name for the GPU."""
        ...

    def make_current(self) -> None:
        """Direct this thread's calls to this GPU."""
        ...

    def synchronize(self) -> None:
        """Wait until everything on the stream is done."""
        ...

    def when_not_capturing(self, action: Callable[[], Any]) -> None:
        """Run something now, or later if another thread has the stream or a capture is active."""
        ...

    # --- memory ---------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """The address of new memory, usable from this point of the stream on."""
        ...

    def allocate_beside(self, size: int) -> int:
        """The address of new memory for a copy on the side stream; `free` gives it back."""
        ...

    def free(self, pointer: int) -> None:
        """Free memory from this point of the stream on."""
        ...

    def trim(self) -> None:
        """Return unused memory of the pools to the driver."""
        ...

    def reserved(self) -> int:
        """The bytes that the pools hold, used or not."""
        ...

    def memory_info(self) -> tuple[int, int]:
        """The free bytes of the GPU, and the total."""
        ...

    def arena(self, size: int) -> int:
        """The address of the arena, backed by at least this many bytes."""
        ...

    def pinned(self, size: int) -> int:
        """The address of new page-locked host memory, which the device can read directly."""
        ...

    def free_pinned(self, address: int) -> None:
        """Free page-locked memory."""
        ...

    def index_of(self, pointer: int) -> int:
        """The number of the GPU that owns an address."""
        ...

    def error_flag(self) -> int:
        """The address of the number that kernels set when an index is out of range or they cannot continue."""
        ...

    def took_error(self) -> int:
        """The flag since the last call; waits for all kernels."""
        ...

    # --- copies ---------------------------------------------------------------------------------------------------

    def upload(self, pointer: int, array: Array) -> None:
        """Copy a host array to the device. It may be changed as soon as this returns."""
        ...

    def upload_beside(self, pointer: int, source: int, size: int) -> tuple[StreamEvent, StreamEvent]:
        """Copy page-locked memory to the device on the side stream; later work on the main stream waits.

        Returns the events at the copy's start and end.
        """
        ...

    def download(self, array: Array, pointer: int) -> None:
        """Fill a host array from the device, and wait for it."""
        ...

    def download_later(self, address: int, pointer: int, size: int) -> None:
        """Copy from the device to page-locked memory of the host when the stream reaches it."""
        ...

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes on the device."""
        ...

    def clear(self, pointer: int, size: int) -> None:
        """Set bytes to zero."""
        ...

    # --- events and other streams -----------------------------------------------------------------------------------

    def event(self) -> StreamEvent:
        """An event at the current point of the stream."""
        ...

    def batched_submission(self) -> AbstractContextManager[None]:
        """A context whose work starts only when all of it is enqueued, so that host time is not measured."""
        ...

    def be_waited_for(self, stream: int) -> None:
        """Make later work on another stream wait for ours."""
        ...

    def wait_for(self, stream: int) -> None:
        """Make later work on our stream wait for another."""
        ...

    def time(self, work: Callable[[], Any], repeats: int = 1) -> float:
        """The seconds that the device takes for some work, the minimum of several runs."""
        ...

    # --- kernels --------------------------------------------------------------------------------------------------

    def kernels(self, launches: Iterable[Launch]) -> dict[tuple[str, str], Any]:
        """The loaded kernels of some launches, by text and entry; each text is compiled and loaded once."""
        ...

    def encode(self, described: TensorMap, address: int) -> bytes:
        """A tensor map of the buffer at an address, for the copy engine."""
        ...

    def launch(self, function: Any, shape: Sequence[int], arguments: Any, cooperative: bool = False) -> None:
        """Run a kernel; `shape` is grid, block and dynamic shared memory: seven numbers.

        With `cooperative`, blocks wait for one another, so all of them must fit on the device.
        """
        ...

    def dependent_launch(self, function: Any, shape: Sequence[int], arguments: Any) -> Replayable:
        """A programmatic dependent launch of a kernel, ready to replay."""
        ...

    def capturing(self) -> AbstractContextManager[CapturedGraph]:
        """A context in which enqueued work does not run but is captured as a graph, ready to replay afterwards."""
        ...

    def has_conditions(self) -> bool:
        """Whether graphs may have conditional nodes."""
        ...
