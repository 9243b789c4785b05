"""CUDA graphs: launches that are captured from a stream and replayed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from wengert.backends.cuda.bindings import check
from wengert.backends.cuda.kernel import Arguments, KernelLoader
from wengert.backends.cuda.memset_kernels import OwnMemory, memsets_as_kernels


class CudaGraph:
    """A graph of launches that can be replayed, and given other arguments."""

    def __init__(self, driver: KernelLoader) -> None:
        self.driver, self.cu = driver, driver.cu
        self.graph: Any = None
        self.executable: Any = None
        self.own: list[OwnMemory] = []
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
        """Declare memory that only what is captured next uses: nothing else of the program, at any time."""
        self.own.append(OwnMemory(start, start + size, frozenset(map(int, self.nodes()))))

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


class GraphCapture(KernelLoader):
    """A stream whose launches can be captured as a graph."""

    @contextmanager
    def capturing(self) -> Iterator[CudaGraph]:
        """Inside, what is put on the stream does not run: it is captured as a graph, ready to replay afterwards."""
        with self.lock:
            mode = self.cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            check(self.cu.cuStreamBeginCapture(self.stream, mode))
            self.is_capturing = True
            graph = CudaGraph(self)
            try:
                yield graph
            except BaseException:
                self.cu.cuStreamEndCapture(self.stream)
                raise
            else:
                captured = check(self.cu.cuStreamEndCapture(self.stream))
                graph.finish(memsets_as_kernels(self, captured, graph.own))
            finally:
                self.is_capturing = False
                self.flush()
