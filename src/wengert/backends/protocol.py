"""What backends promise: the protocols of a program, and of the driver that programs on a GPU run on.

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
    """A program on the memory of its last call, but for some inputs and outputs."""

    @property
    def makers(self) -> Sequence[Callable[[], Any]]:
        """What makes arrays for these outputs."""
        ...

    def refresh(self) -> None:
        """Look again at what others may have overwritten where it lies."""
        ...

    def run(self, arrays: Sequence[Array], made: Sequence[Any]) -> bool:
        """Compute these outputs, each into its array, from arrays for these inputs; not where something is wrong:
        nothing was done then, and a call of the program says what it is.
        """
        ...


class Runnable(Protocol):
    """What runs a graph: a compiled program, or an interpreter of it."""

    @property
    def is_compiled(self) -> bool:
        """Whether it is a compiled `Program`, with steps to describe."""
        ...

    def __call__(
        self, arrays: Sequence[Array], owned: Container[int] = (), spare: Mapping[int, Array] = NOTHING
    ) -> list[Array]:
        """The arrays of the graph's outputs, from those of its inputs.

        The inputs numbered in `owned` may be overwritten, and so may the arrays in `spare`, each with the output whose
        number it has.
        """
        ...

    def replay(self, inputs: Sequence[int], outputs: Sequence[int]) -> Replay | None:
        """The program on the memory of its last call, in which only these inputs and outputs may move, if it can."""
        ...


class Program(Runnable, Protocol):
    """A compiled graph: what `Device.build` gives. It runs, and says what it is made of."""

    @property
    def graph(self) -> Graph:
        """The graph that was fused and scheduled."""
        ...

    @property
    def plan(self) -> Plan:
        """What it carries out: steps, buffers, arena and waits, with the reports of all passes and stages."""
        ...

    @property
    def seconds(self) -> float:
        """How long the compiler of its kernels took."""
        ...

    @property
    def made(self) -> Sequence[Node]:
        """The outputs that get an array of their own."""
        ...

    @property
    def device(self) -> str:
        """The name of the device it runs on."""
        ...

    @property
    def language(self) -> str:
        """What its kernels are written in: "C", "CUDA"."""
        ...

    @property
    def steps(self) -> Sequence[Step]:
        """What is carried out, in order."""
        ...

    @property
    def source(self) -> str:
        """The text of all kernels."""
        ...

    def text_of(self, number: int) -> str:
        """The text of a step."""
        ...

    def described(self) -> str:
        """What is launched or called, for people: the text under the table of `explain()`."""
        ...

    def tuning(self) -> str | None:
        """Which candidates won when they were timed; None where programs have no candidates."""
        ...


# --- the driver of a GPU ----------------------------------------------------------------------------------------------


class StreamEvent(Protocol):
    """A point of a stream: whether everything before it is done, and how long after another point that was."""

    def is_done(self) -> bool:
        """Whether the device has reached it."""
        ...

    def wait(self) -> None:
        """Wait until the device has reached it."""
        ...

    def since(self, other: Any) -> float:
        """The seconds from another event of the same driver to this one; the device has reached both."""
        ...


class Replayable(Protocol):
    """Launches that are replayed together, and can be given other arguments."""

    def change(self, node: Any, function: Any, shape: Sequence[int], arguments: Any) -> None:
        """Give a kernel other arguments from the next replay on."""
        ...

    def replay(self) -> None:
        """Launch everything."""
        ...


class CapturedGraph(Replayable, Protocol):
    """A graph of launches, while it is captured and afterwards."""

    def nodes(self) -> list[Any]:
        """The nodes that what is captured next would wait for: those of what was captured last."""
        ...

    def after(self, nodes: Sequence[Any]) -> None:
        """Have what is captured next wait for these nodes, and no others."""
        ...

    def owns(self, start: int, size: int) -> None:
        """Declare memory that only what is captured next uses: nothing else of the program, at any time."""
        ...

    def condition(self) -> int:
        """A new condition, which kernels of the graph set: what a kernel takes for it."""
        ...

    def loop(self, condition: int) -> Any:
        """Capture a body that is repeated as long as a condition holds: for `inside`."""
        ...

    def branch(self, condition: int) -> tuple[Any, Any]:
        """Capture two bodies, of which the first runs where a condition holds, and else the second: for `inside`."""
        ...

    def inside(self, body: Any) -> AbstractContextManager[None]:
        """Inside, what is put on the stream is captured in a body."""
        ...


class Driver(Protocol):
    """One GPU with one stream, in whose order everything happens. Whoever holds its lock has the stream and the arena
    for itself.
    """

    index: int
    properties: DeviceProperties
    lock: Any
    stream: Any
    arena_size: int
    flag: int
    functions: dict[tuple[str, str], Any]

    @property
    def name(self) -> str:
        """What the maker calls the GPU."""
        ...

    def make_current(self) -> None:
        """Have this thread's calls go to this GPU."""
        ...

    def synchronize(self) -> None:
        """Wait until everything on the stream is done."""
        ...

    def when_not_capturing(self, action: Callable[[], Any]) -> None:
        """Do something now, or later if another thread has the stream or a capture goes on."""
        ...

    # --- memory ---------------------------------------------------------------------------------------------------

    def allocate(self, size: int) -> int:
        """The address of new memory, ours from this point of the stream on."""
        ...

    def allocate_beside(self, size: int) -> int:
        """The address of new memory for a copy on the side stream; `free` gives it back."""
        ...

    def free(self, pointer: int) -> None:
        """Give memory back from this point of the stream on."""
        ...

    def trim(self) -> None:
        """Return the memory that the pools hold and nobody uses."""
        ...

    def reserved(self) -> int:
        """The bytes that the pools hold, used or not."""
        ...

    def memory_info(self) -> tuple[int, int]:
        """The bytes that are free on the GPU, and all there are."""
        ...

    def arena(self, size: int) -> int:
        """The address of the arena, backed by at least this many bytes."""
        ...

    def pinned(self, size: int) -> int:
        """The address of new page-locked memory of the host, which the device reads itself."""
        ...

    def free_pinned(self, address: int) -> None:
        """Give page-locked memory back."""
        ...

    def index_of(self, pointer: int) -> int:
        """The number of the GPU in whose memory an address is."""
        ...

    def error_flag(self) -> int:
        """The address of the number that kernels set when they meet an index out of range, or cannot go on."""
        ...

    def took_error(self) -> int:
        """What kernels have noted there since the last time of asking; waits for all kernels."""
        ...

    # --- copies ---------------------------------------------------------------------------------------------------

    def upload(self, pointer: int, array: Array) -> None:
        """Copy a host array to the device. It may be changed as soon as this returns."""
        ...

    def upload_beside(self, pointer: int, source: int, size: int) -> tuple[StreamEvent, StreamEvent]:
        """Copy page-locked memory to the device on the side stream; what comes on the stream after this waits.

        Returns the events at the copy's beginning and end.
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
        """An event at this point of the stream."""
        ...

    def batched_submission(self) -> AbstractContextManager[None]:
        """Inside, what is put on the stream does not begin before all of it is there: the host's time is not timed."""
        ...

    def be_waited_for(self, stream: int) -> None:
        """Have what comes on another stream wait for what is on ours."""
        ...

    def wait_for(self, stream: int) -> None:
        """Have what comes on our stream wait for what is on another."""
        ...

    def time(self, work: Callable[[], Any], repeats: int = 1) -> float:
        """The seconds that the device takes for some work, the least of several runs."""
        ...

    # --- kernels --------------------------------------------------------------------------------------------------

    def kernels(self, launches: Iterable[Launch]) -> dict[tuple[str, str], Any]:
        """The loaded kernels of some launches, by text and entry; each text is compiled and loaded once."""
        ...

    def encode(self, described: TensorMap, address: int) -> bytes:
        """A tensor map of the buffer at an address, as the copy engine reads it."""
        ...

    def launch(self, function: Any, shape: Sequence[int], arguments: Any, cooperative: bool = False) -> None:
        """Run a kernel; `shape` is grid, block and dynamic shared memory: seven numbers. `cooperative`: its blocks wait
        for one another, so all are on the device at the same time.
        """
        ...

    def dependent_launch(self, function: Any, shape: Sequence[int], arguments: Any) -> Replayable:
        """Launches of a kernel that waits itself for what is before it on the stream, ready to replay."""
        ...

    def capturing(self) -> AbstractContextManager[CapturedGraph]:
        """Inside, what is put on the stream does not run: it is captured as a graph, ready to replay afterwards."""
        ...

    def has_conditions(self) -> bool:
        """Whether graphs may have bodies that run on conditions."""
        ...
