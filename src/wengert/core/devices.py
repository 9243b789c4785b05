"""The registry of devices: the only place that knows devices by name.

"cpu" is the host; "cuda:0", "cuda:1", ... are GPUs, and "cuda" is the first of them. A backend registers its kind of
device (`register`). A device is opened on first use, so that an error about a missing part is on the user's line; from
then on the registry holds it as a `Device`, the protocol through which everything else reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakSet

import numpy as np

from wengert.core.errors import DeviceError
from wengert.core.forking import new_rlock
from wengert.core.ownership import ownership
from wengert.core.placement import Absent, ShardedArray

if TYPE_CHECKING:
    from wengert.backends.protocol import Program
    from wengert.core.graph import Graph, Node, Shape
    from wengert.kernels.launch import DeviceProperties
    from wengert.plan.plan import MakeCodegen, Plan

HOST = "cpu"
"""The name of the host device."""

CUDA = "cuda"
"""The kind of NVIDIA's GPUs, and the name of the first of them."""

META = "meta"
"""The kind of the device whose arrays have shapes and no elements, which `wengert.torch` registers."""

HostArray = np.ndarray[Any, Any]


class Device(Protocol):
    """An open device. Its arrays have a shape, a dtype and the device's name; the host's are NumPy arrays."""

    @property
    def name(self) -> str:
        """The device's full name: "cpu", "cuda:0"."""
        ...

    @property
    def model(self) -> str:
        """The manufacturer's model name."""
        ...

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """The device in DLPack's numbering."""
        ...

    # --- arrays ---------------------------------------------------------------------------------------------------

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Any:
        """A new, uninitialised array."""
        ...

    def upload(self, array: HostArray) -> Any:
        """A host array on this device; the host gives the array itself."""
        ...

    def download(self, array: Any) -> HostArray:
        """An array of this device on the host; the host gives the array itself."""
        ...

    def copy_into(self, target: Any, source: Any) -> None:
        """Copy the elements of one array of this device into another of the same shape and dtype."""
        ...

    def is_sole(self, array: Any) -> bool:
        """Whether all readers of an array's memory refer to this very array, so that its reference count is
        complete."""
        ...

    def owns_memory(self, array: Any) -> bool:
        """Whether an array is not a view of another, and `is_sole`."""
        ...

    def view(self, node: Node, array: Any) -> Any | None:
        """The view of an array that a slice or reshape makes without a copy; None if this device has no such view."""
        ...

    def places(self, array: Any) -> Any | None:
        """The indices, in memory order, of the nonzero elements; None if only a graph can find them."""
        ...

    # --- computing ------------------------------------------------------------------------------------------------

    def can_compile(self) -> bool:
        """Whether there is a compiler for this device; if not, graphs are interpreted."""
        ...

    def interpret(
        self,
        order: Sequence[Node],
        keep: set[Node],
        failure: Callable[[Exception, Node], Any],
        *,
        tf32: bool,
        check: bool,
    ) -> None:
        """Compute the buffer of each node in `order`, one op at a time; nodes not in `keep` lose it after their last
        use."""
        ...

    def target(self, *, tf32: bool = False, budget: int | None = None) -> Target:
        """The device as a compilation target; see `Target`."""
        ...

    def codegen(self, tuning: float = 0.0) -> MakeCodegen:
        """Its code generator. Candidate kernels are timed for up to `tuning` seconds."""
        ...

    def build(self, plan: Plan) -> Program:
        """The program that carries out a plan."""
        ...

    def synchronize(self) -> None:
        """Wait until the device has finished all its work."""
        ...

    def time(self, work: Callable[[], Any], repeats: int = 1) -> float:
        """The seconds that the device takes for some work: the minimum of several runs."""
        ...

    # --- exchange -------------------------------------------------------------------------------------------------

    def to_dlpack(self, array: Any, *, stream: Any = None, **options: Any) -> Any:
        """A DLPack capsule with an array, for a consumer that works on `stream`."""
        ...

    def borrow(self, x: Any) -> Any:
        """An array over the memory of another library's array on this kind of device."""
        ...

    def array_interface(self, array: Any, holder: Any) -> dict[str, Any]:
        """The dictionary that describes an array's memory to other libraries; `holder` keeps the array alive."""
        ...


# --- the registry -----------------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    """A kind of device: how to open one, how many there are, and DLPack's number for the kind."""

    open: Callable[[str, int], Device]
    count_all: Callable[[], int]
    dlpack: int


_kinds: dict[str, Kind] = {}
_opened: dict[str, Device] = {}
_opening = new_rlock()

keepers: WeakSet[Any] = WeakSet()
"""Objects that keep unused device memory for the next call: `let_go` is called where memory is short."""

default = HOST
"""The device of tensors that are made without one."""

first_gpu = 0
"""The number, on its machine, of the GPU that is called "cuda:0" here: each rank of a world has its own."""

on_change: Callable[[], Any] | None = None
"""Called when the default changes: recorded functions may mean another device now. Set by the runtime."""


def register(kind: str, open: Callable[[str, int], Device], count: Callable[[], int], dlpack: int) -> None:
    """Register a kind of device: `open(name, index)` opens one, or raises an error about what is missing."""
    _kinds[kind] = Kind(open, count, dlpack)


def of(name: str) -> Device:
    """The device of this full name, opened if necessary."""
    found = _opened.get(name)
    return _open(name) if found is None else found


def _open(name: str) -> Device:
    with _opening:  # a device is opened once, whichever thread names it first
        if name not in _opened:
            _opened[name] = _kinds[kind_of(name)].open(name, index_of(name))
        return _opened[name]


def named(device: Any, asker: str) -> str:
    """The full name of a device, which is opened; errors name the function that requested it.

    >>> named("cpu", "zeros")
    'cpu'
    """
    if device == HOST:
        return HOST
    if not is_device(device):
        raise DeviceError(f"{asker}: {device!r} is not a device; choose 'cpu', or 'cuda' if there is an NVIDIA GPU")
    full: str = device if ":" in device or device == META else f"{device}:0"
    of(full)
    return full


def is_host(name: Any) -> bool:
    """Whether this is the host's name.

    >>> is_host("cpu"), is_host("cuda:0")
    (True, False)
    """
    return bool(name == HOST)


def kind_of(name: str) -> str:
    """The kind of a device.

    >>> kind_of("cuda:1")
    'cuda'
    """
    return name.partition(":")[0]


def index_of(name: str) -> int:
    """The index of a device among those of its kind.

    >>> index_of("cuda:1"), index_of("cpu")
    (1, 0)
    """
    return int(name.partition(":")[2] or 0)


def is_device(name: Any) -> bool:
    """Whether this is the name of a device, present or not."""
    if not isinstance(name, str):
        return False
    kind, _, index = name.partition(":")
    return not index if kind == HOST else kind in (CUDA, *_kinds) and (not index or index.isdigit())


def is_kind(name: str) -> bool:
    """Whether this starts like the name of a device."""
    return kind_of(name) in (HOST, CUDA, *_kinds)


def in_use() -> list[str]:
    """The accelerators opened so far."""
    return sorted(name for name in _opened if kind_of(name) not in (HOST, META))


def gpus() -> list[str]:
    """The names of the GPUs; none if CUDA is not installed or has no driver."""
    found = _kinds.get(CUDA)
    return [] if found is None else [f"{CUDA}:{index}" for index in range(found.count_all())]


def number_on_machine(index: int) -> int:
    """The machine's own index for the GPU "cuda:index"."""
    return (first_gpu + index) % len(gpus()) if first_gpu else index


def gpu_named(number: int) -> str:
    """The name of the GPU with this index on the machine."""
    return f"{CUDA}:{(number - first_gpu) % len(gpus()) if first_gpu else number}"


def set_default_device(device: str) -> None:
    """Set the default device of new tensors.

    >>> import wengert as wg
    >>> wg.set_default_device("cpu")
    """
    global default
    default = named(device, "set_default_device")
    if on_change is not None:
        on_change()


# --- arrays and graphs ------------------------------------------------------------------------------------------------


def accelerator_of(graph: Graph) -> str | None:
    """The accelerator that holds any of a graph's values, which then computes all of it; None if there is none."""
    for node in (*graph.nodes, *graph.inputs, *graph.outputs):
        if node.device != HOST:
            return node.device
    return None


def on_host(array: Any) -> HostArray:
    """An array on the host: itself, a copy from a device, or the whole gathered from the ranks' blocks."""
    if isinstance(array, np.ndarray):
        return array
    return array.whole(on_host) if type(array) is ShardedArray else of(array.device).download(array)


def moved(array: Any, device: str) -> Any:
    """An array on another device."""
    return of(device).upload(on_host(array))


def is_sole(array: Any) -> bool:
    """Whether all readers of an array's memory refer to this very array, on any device."""
    if type(array) is ShardedArray:
        return not isinstance(array.block, Absent) and ownership.others([array.block]) == [1] and is_sole(array.block)
    return of(array.device).is_sole(array)


def owns_memory(array: Any) -> bool:
    """Whether an array is not a view of another, and `is_sole`."""
    if type(array) is ShardedArray:
        return is_sole(array) and owns_memory(array.block)
    return of(array.device).owns_memory(array)


def exchanged(number: int) -> str | None:
    """The kind of device with this number in DLPack, if known."""
    return next((kind for kind, known in _kinds.items() if known.dlpack == number), None)


def synchronize() -> None:
    """Wait until all accelerators in use have finished their work."""
    for name in in_use():
        of(name).synchronize()


# --- targets ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A device and the settings that generated code depends on.

    It is passed to every pass and stage, which read nothing about the device or the settings from elsewhere.
    """

    device: str = HOST
    properties: DeviceProperties | None = None  # of a GPU: the figures that launch shapes follow from
    tf32: bool = False  # whether tensor cores may round float32
    budget: int | None = None  # bytes that intermediate values should take at most; None: what they take
    overlaps: bool = False  # whether collectives run concurrently with kernels: in a thread, or as a GPU's own calls
    invariant: bool = False  # whether an example's numbers may not depend on what else is in the batch

    def with_invariance(self, invariant: bool) -> Target:
        """The target with this setting, on which launch shapes depend too."""
        properties = None if self.properties is None else replace(self.properties, invariant=invariant)
        return replace(self, properties=properties, invariant=invariant)

    @property
    def launches(self) -> bool:
        """Whether kernels are launched on a device of their own, and do not run as functions of one program."""
        return self.properties is not None


HOST_TARGET = Target()
"""The CPU, with the settings as they are by default."""
