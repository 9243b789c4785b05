"""CUDA graphs: launches captured from a stream and replayed together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from wengert.backends.cuda.bindings import check
from wengert.backends.cuda.calls import Arguments
from wengert.backends.cuda.kernel import KernelLoader
from wengert.backends.cuda.memset_kernels import OwnMemory, memsets_as_kernels


class CudaGraph:
    """A graph of launches that can be replayed and given other arguments."""

    def __init__(self, driver: KernelLoader) -> None:
        self.driver, self.cu = driver, driver.cu
        self.graph: Any = None
        self.executable: Any = None
        self.own: list[OwnMemory] = []
        self.launch: Callable[[], Any]
        self.parameters: dict[Arguments, Any] = {}  # of launches that were given other arguments

    def nodes(self) -> list[Any]:
        """The most recently captured nodes, which the next capture would wait for."""
        return list(check(self.cu.cuStreamGetCaptureInfo(self.driver.stream))[3])

    def after(self, nodes: Sequence[Any]) -> None:
        """Make the next capture wait for these nodes only."""
        flag = int(self.cu.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        check(self.cu.cuStreamUpdateCaptureDependencies(self.driver.stream, list(nodes), None, len(nodes), flag))

    def owns(self, start: int, size: int) -> None:
        """Declare memory that only the next captured call uses, at any time."""
        self.own.append(OwnMemory(start, start + size, frozenset(map(int, self.nodes()))))

    # --- conditions -------------------------------------------------------------------------------------------------

    def condition(self) -> int:
        """The handle of a new condition, which kernels of the graph set."""
        graph = check(self.cu.cuStreamGetCaptureInfo(self.driver.stream))[2]
        return int(check(self.cu.cuGraphConditionalHandleCreate(graph, self.driver.context, 0, 0)))

    def loop(self, condition: int) -> Any:
        """Capture a body that repeats while a condition holds."""
        return self._conditional(condition, self.cu.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_WHILE, 1)[0]

    def branch(self, condition: int) -> tuple[Any, Any]:
        """Capture two bodies: the first runs if a condition holds, else the second."""
        first, second = self._conditional(condition, self.cu.CUgraphConditionalNodeType.CU_GRAPH_COND_TYPE_IF, 2)
        return first, second

    def _conditional(self, condition: int, kind: Any, bodies: int) -> list[Any]:
        """A conditional node after the latest capture. Its parameters afterwards contain the bodies."""
        cu, stream = self.cu, self.driver.stream
        graph, before = check(cu.cuStreamGetCaptureInfo(stream))[2:4]
        parameters = cu.CUgraphNodeParams()
        parameters.type = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_CONDITIONAL
        parameters.conditional.handle = cu.CUgraphConditionalHandle(condition)
        parameters.conditional.type, parameters.conditional.size = kind, bodies
        parameters.conditional.ctx = self.driver.context
        node = check(cu.cuGraphAddNode(graph, list(before), None, len(before), parameters))
        made = list(parameters.conditional.phGraph_out)
        self.after([node])
        return made

    @contextmanager
    def inside(self, body: Any) -> Iterator[None]:
        """A context that captures into a body; the stream is another one meanwhile."""
        cu, outer = self.cu, self.driver.stream
        stream = check(cu.cuStreamCreate(int(cu.CUstream_flags.CU_STREAM_NON_BLOCKING)))
        mode = cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        try:
            check(cu.cuStreamBeginCaptureToGraph(stream, body, None, None, 0, mode))
            self.driver.stream = stream
            try:
                yield
            finally:
                self.driver.stream = outer
                check(cu.cuStreamEndCapture(stream))
        finally:
            check(cu.cuStreamDestroy(stream))

    # --- replay -----------------------------------------------------------------------------------------------------

    def finish(self, graph: Any) -> None:
        """Make the captured graph ready to replay."""
        self.graph = graph
        self.executable = check(self.cu.cuGraphInstantiate(graph, 0))
        self.launch = partial(self.cu.cuGraphLaunch, self.executable, self.driver.stream)

    def change(self, node: Any, function: Any, shape: Sequence[int], arguments: Arguments) -> None:
        """Set a kernel's arguments from the next replay on."""
        if arguments not in self.parameters:
            self.parameters[arguments] = self._parameters(function, shape, arguments)
        check(self.cu.cuGraphExecKernelNodeSetParams(self.executable, node, self.parameters[arguments]))

    def _parameters(self, function: Any, shape: Sequence[int], arguments: Arguments) -> Any:
        """A launch in the driver's format. It points at the arguments, whose values may change."""
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

    def has_conditions(self) -> bool:
        """Whether conditional nodes with two bodies are available: from CUDA 12.8 on."""
        return int(check(self.cu.cuDriverGetVersion())) >= 12080

    @contextmanager
    def capturing(self) -> Iterator[CudaGraph]:
        """A context in which enqueued work does not run but is captured as a graph, ready to replay afterwards."""
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
