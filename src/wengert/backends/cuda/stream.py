"""What a stream is given besides memory: packed arguments, marks, and what replays: graphs of launches, and kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import c_void_p
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from wengert.backends.cuda.bindings import check
from wengert.kernels.launch import Number, Struct, TensorMap


class Arguments:
    """The arguments of a kernel, packed as the driver takes them: eight bytes each, and a pointer to every one.

    A tensor map has a block of its own, which `encode` fills whenever the address of its buffer is set, and so has a
    struct. A table (a tuple) is one argument of several places, which are numbered one after the other with all others.
    """

    def __init__(self, values: Sequence[Any], encode: Callable[[TensorMap, int], bytes] | None = None) -> None:
        places = [len(value) if isinstance(value, tuple) else 1 for value in values]
        self.slots = np.zeros(max(sum(places), 1), np.uint64)
        heads = np.cumsum([0, *places[:-1]], dtype=np.uint64)
        self.addresses = self.slots.ctypes.data + 8 * heads
        self.maps: dict[int, tuple[TensorMap, np.ndarray[Any, Any]]] = {}
        self.structs: list[np.ndarray[Any, Any]] = []
        self.encode = encode
        for i, (value, head) in enumerate(zip(values, heads.tolist())):
            if isinstance(value, TensorMap):
                raw = np.zeros(192, np.uint8)
                block = raw[-raw.ctypes.data % 64 :][:128]
                self.maps[head] = value, block
                self.addresses[i] = block.ctypes.data
            elif isinstance(value, Struct):
                self.structs.append(np.frombuffer(value.content, np.uint8))
                self.addresses[i] = self.structs[-1].ctypes.data
            elif not isinstance(value, tuple | Number):
                self.set(head, value)
        self.pointer = self.addresses.ctypes.data

    def set(self, i: int, value: Any) -> None:
        """Give an argument another value: an address, or a typed number."""
        if i in self.maps:
            assert self.encode is not None
            described, block = self.maps[i]
            block[:] = np.frombuffer(self.encode(described, value), np.uint8)
        elif isinstance(value, np.generic):
            self.slots[i : i + 1].view(np.uint8)[: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
        else:
            self.slots[i] = value


class Mark:
    """A point of a stream: whether all before it is done, and how long after another point that was."""

    __slots__ = ("cu", "event")

    def __init__(self, cu: Any, stream: Any) -> None:
        self.cu = cu
        self.event = check(cu.cuEventCreate(0))
        check(cu.cuEventRecord(self.event, stream))

    def is_past(self) -> bool:
        """Whether the device has come to it."""
        status = self.cu.cuEventQuery(self.event)
        if int(status[0]) == int(self.cu.CUresult.CUDA_ERROR_NOT_READY):
            return False
        check(status)
        return True

    def wait(self) -> None:
        """Wait until the device has come to it."""
        check(self.cu.cuEventSynchronize(self.event))

    def since(self, other: Mark) -> float:
        """The seconds from another point to this one; the device has come to both."""
        return float(check(self.cu.cuEventElapsedTime(other.event, self.event))) / 1e3

    def __del__(self) -> None:
        self.cu.cuEventDestroy(self.event)


class Own(NamedTuple):
    """Memory from `start` to `end` that one call of a graph has for itself, and the nodes that the call is after."""

    start: int
    end: int
    after: frozenset[int]


class Recording:
    """A graph of launches that can be replayed, and given other arguments."""

    def __init__(self, driver: Any) -> None:
        self.driver, self.cu = driver, driver.cu
        self.graph: Any = None
        self.executable: Any = None
        self.own: list[Own] = []
        self.launch: Callable[[], Any]
        self.parameters: dict[Arguments, Any] = {}  # of launches that were given other arguments

    def nodes(self) -> list[Any]:
        """The nodes that what is captured next would wait for: those of what was captured last."""
        return list(check(self.cu.cuStreamGetCaptureInfo(self.driver.stream))[3])

    def after(self, nodes: Sequence[Any]) -> None:
        """Have what is captured next wait for these nodes, and no others."""
        flag = int(self.cu.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        check(self.cu.cuStreamUpdateCaptureDependencies(self.driver.stream, list(nodes), None, len(nodes), flag))

    def owns(self, start: int, size: int) -> None:
        """Say what memory nobody uses but what is captured next: nothing else of the program, at any time."""
        self.own.append(Own(start, start + size, frozenset(map(int, self.nodes()))))

    def finish(self, graph: Any) -> None:
        """Make the captured graph ready to replay."""
        self.graph = graph
        self.executable = check(self.cu.cuGraphInstantiate(graph, 0))
        self.launch = partial(self.cu.cuGraphLaunch, self.executable, self.driver.stream)

    def change(self, node: Any, function: Any, shape: Sequence[int], arguments: Arguments) -> None:
        """Give a kernel of the graph other arguments from the next replay on."""
        if arguments not in self.parameters:
            self.parameters[arguments] = self._parameters(function, shape, arguments)
        check(self.cu.cuGraphExecKernelNodeSetParams(self.executable, node, self.parameters[arguments]))

    def _parameters(self, function: Any, shape: Sequence[int], arguments: Arguments) -> Any:
        """A launch as the driver takes it. The arguments stay where they are, whatever they are set to."""
        parameters = self.cu.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = function
        parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = shape[:3]
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = shape[3:6]
        parameters.sharedMemBytes = shape[6]
        parameters.kernelParams = arguments.pointer
        return parameters

    def replay(self) -> None:
        """Run the graph."""
        status = self.launch()
        if status[0]:
            check(status)

    def __del__(self) -> None:
        cu, executable, graph = self.cu, self.executable, self.graph
        if executable is not None:
            self.driver.when_not_capturing(lambda: (cu.cuGraphExecDestroy(executable), cu.cuGraphDestroy(graph)))


class Following:
    """A kernel that waits itself for what is before it (`wg_follow`), and whose blocks come while that ends. It is
    replayed, and given other arguments, as a Recording is.
    """

    def __init__(self, driver: Any, function: Any, shape: Sequence[int], arguments: Arguments) -> None:
        self.driver, cu = driver, driver.cu
        attribute = cu.CUlaunchAttribute()
        attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        self.how = cu.CUlaunchConfig()
        self.how.gridDimX, self.how.gridDimY, self.how.gridDimZ = shape[:3]
        self.how.blockDimX, self.how.blockDimY, self.how.blockDimZ = shape[3:6]
        self.how.sharedMemBytes, self.how.hStream = shape[6], driver.stream
        self.how.attrs, self.how.numAttrs = [attribute], 1
        self.change(None, function, shape, arguments)

    def change(self, node: Any, function: Any, shape: Sequence[int], arguments: Arguments) -> None:
        """Give the kernel other arguments from the next replay on; the program's own may change before that."""
        self.arguments = Arguments([int(address) for address in arguments.slots])
        addresses = (int(self.how.getPtr()), int(function), self.arguments.pointer)
        self.launch = partial(self.driver.launch_with_attributes, *map(c_void_p, addresses), None)

    def replay(self) -> None:
        """Run the kernel."""
        status = self.launch()
        if status:
            check((self.driver.cu.CUresult(status),))
