"""Convolutions by cuDNN's graph interface: a candidate beside our own kernels.

A convolution is described by sizes and strides, so channels may come first or last in memory. The heuristic ranks
plans; each is a separate candidate, except those whose sums have no fixed order. The heuristic misses one case: in half
precision with at least 256 channels, its large tile in pairs is the fastest or nearly so on an H200, even where it
ranks another first. The gradients of 3 x 3 convolutions over 4 x 4 positions and 512 channels take 52 and 59 us with
it, and 68 without.

A forward convolution may have an elementwise epilogue (dnn_finishes.py). Compiling such a plan takes cuDNN half a
second; the plan is cached on disk.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.backends.cuda.memory import opened
from wengert.core import cache
from wengert.core.dtypes import HALF, bfloat16, float16, float32, float64
from wengert.core.graph import Node
from wengert.kernels.convolution.form import shapes_of
from wengert.plan.epilogues import PointwiseOps

RANKED = 8  # plans of the heuristic's that are looked at
CHANNELS = 256  # as many as the large tile is wide
LARGE_IN_PAIRS = {2: 0, 27: 1, 28: 2}  # in cuDNN's numbers: the tile, and the rows and columns of a cluster

NAMES = {float32: "FLOAT", float64: "DOUBLE", float16: "HALF", bfloat16: "BFLOAT16"}


@functools.cache
def library() -> Any:
    """cuDNN's frontend, or None if it is not installed."""
    try:
        import cudnn

        cudnn.backend_version()
    except Exception:
        return None
    return cudnn


@functools.cache
def handle(device: str) -> Any:
    handle = library().create_handle()
    library().set_stream(handle=handle, stream=int(opened(device).stream))
    return handle


@dataclass(frozen=True)
class ConvolutionShape:
    """A convolution without its values: which of the three it is, and all sizes, channels first."""

    op: str
    x: tuple[int, ...]
    weight: tuple[int, ...]
    y: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    dtype: np.dtype[Any]
    result: np.dtype[Any]
    channels_last: bool = False
    tf32: bool = False
    then: PointwiseOps | None = None  # the epilogue


def shape_of(node: Node, tf32: bool, then: PointwiseOps | tuple[()] = ()) -> ConvolutionShape | None:
    """The shape of a convolution's node and its epilogue, or None if cuDNN does not support it."""
    op, last, *values = shapes_of(node)
    a, dtype = node.attrs, node.sources[0].dtype
    crops = any(n < 0 for pair in a["padding"] for n in pair)
    if node.ndim not in (3, 4, 5) or dtype not in NAMES or crops or not all(map(min, values)):
        return None
    result, steps = (then.result, then) if then else (node.dtype, None)
    one_axis = node.ndim == 3  # which is the width of images of height 1
    x, weight, y = ((*v[:2], 1, v[2]) if one_axis else v for v in values)
    stride, padding, dilation = (a["stride"], a["padding"], a["dilation"])
    if one_axis:
        stride, padding, dilation = (1, *stride), ((0, 0), *padding), (1, *dilation)
    return ConvolutionShape(op.name, x, weight, y, stride, padding, dilation, dtype, result, last, tf32, steps)


def strides(sizes: Sequence[int], channels_last: bool) -> list[int]:
    """The strides of a contiguous value along each axis, listed channels first.

    >>> strides((2, 3, 4, 5), False), strides((2, 3, 4, 5), True)
    ([60, 20, 5, 1], [60, 1, 15, 3])
    """
    order = [0, *range(2, len(sizes)), 1] if channels_last else list(range(len(sizes)))
    found, step = [0] * len(sizes), 1
    for axis in reversed(order):
        found[axis] = step
        step *= sizes[axis]
    return found


class CudnnConvolution:
    """One cuDNN plan for a convolution, built on first use."""

    def __init__(self, graph: Any, index: int, device: str) -> None:
        self.graph, self.index, self.handle = graph, index, handle(device)
        self.name = f"cuDNN #{index}"

    @functools.cached_property
    def settings(self) -> dict[int, int]:
        """The settings of its engine, by cuDNN's numbers."""
        name = self.graph.get_plan_name_at_index(self.index)
        return {int(number): int(value) for number, value in re.findall(r"_k(\d+)=(\d+)", name)}

    @functools.cached_property
    def works(self) -> bool:
        """Whether its engine supports these sizes."""
        try:
            self.graph.build_plan_at_index(self.index)
        except Exception:
            return False
        return True

    @functools.cached_property
    def workspace(self) -> int:
        """The workspace size in bytes, once it is built."""
        return int(self.graph.get_workspace_size_plan_at_index(self.index))

    def enqueue(self, stream: int, pointers: Sequence[int], workspace: int) -> None:
        """Enqueue it on the stream: two operands and the result."""
        pack = {number: pointer for number, pointer in enumerate(pointers, 1)}
        self.graph.execute_plan_at_index(pack, workspace, self.index, self.handle)


class Fused(CudnnConvolution):
    """One plan for a convolution with its epilogue, taken from the cache, or compiled and stored there."""

    def __init__(self, graph: Any, index: int, device: str, shape: ConvolutionShape) -> None:
        super().__init__(graph, index, device)
        self.name += ", fused"
        about = f"{library().backend_version()} {opened(device).name} {index} {shape}"
        self.entry = f"{hashlib.sha256(about.encode()).hexdigest()[:32]}.plan"

    @functools.cached_property
    def works(self) -> bool:
        """Whether its engine supports these sizes."""
        try:
            return self.loaded_plan is not None
        except Exception:
            return False

    @functools.cached_property
    def loaded_plan(self) -> Any:
        """The compiled plan in its own graph."""
        content = cache.read(self.entry)
        if content is not None:
            with suppress(Exception):  # of another build of cuDNN's: it is compiled anew
                return self._loaded(content)
        self.graph.build_plan_at_index(self.index)
        return self._loaded(cache.keep(self.entry, bytes(self.graph.serialize())))

    def _loaded(self, content: bytes) -> Any:
        graph = library().pygraph(handle=self.handle)
        graph.deserialize(self.handle, list(content))
        return graph

    @functools.cached_property
    def workspace(self) -> int:
        """The workspace size in bytes."""
        return int(self.loaded_plan.get_workspace_size())

    def enqueue(self, stream: int, pointers: Sequence[int], workspace: int) -> None:
        """Enqueue it on the stream: two operands, the epilogue's operands, and the result."""
        self.loaded_plan.execute(dict(enumerate(pointers, 1)), workspace, self.handle)


@functools.lru_cache(maxsize=512)
def candidates(shape: ConvolutionShape, device: str) -> Sequence[CudnnConvolution]:
    """The plans that cuDNN suggests for a convolution, best first; empty if unsupported or not installed."""
    dnn = library()
    if dnn is None:
        return []
    try:
        graph = _graph(dnn, shape, device)
    except dnn.cudnnGraphNotSupportedError:
        return []
    indices = range(graph.get_execution_plan_count())
    if shape.then is not None:
        return [Fused(graph, index, device, shape) for index in indices]
    return ranked(shape, [CudnnConvolution(graph, index, device) for index in indices])


def ranked(shape: ConvolutionShape, plans: Sequence[CudnnConvolution]) -> list[CudnnConvolution]:
    """The plans in the heuristic's order; for wide convolutions in half precision, the large tile in pairs first."""
    if shape.dtype not in HALF or min(shape.weight[:2]) < CHANNELS:
        return list(plans)
    first = sorted(plans[:RANKED], key=lambda plan: not LARGE_IN_PAIRS.items() <= plan.settings.items())
    return [*first, *plans[RANKED:]]


def _graph(dnn: Any, shape: ConvolutionShape, device: str) -> Any:
    """The convolution as cuDNN's graph, with its plans ranked."""
    kinds = dnn.data_type
    kind, result = (getattr(kinds, NAMES[dtype]) for dtype in (shape.dtype, shape.result))
    compute = kinds.DOUBLE if shape.dtype is float64 else kinds.FLOAT
    graph = dnn.pygraph(
        handle=handle(device), io_data_type=kind, intermediate_data_type=compute, compute_data_type=compute
    )
    operands = {"convolve": "x weight y", "convolve_input": "y weight x", "convolve_weight": "x y weight"}
    first, second, made = (getattr(shape, name) for name in operands[shape.op].split())
    given = [
        graph.tensor(dim=list(sizes), stride=strides(sizes, shape.channels_last), data_type=kind, uid=number)
        for number, sizes in enumerate((first, second), 1)
    ]
    settings = {
        "pre_padding": [low for low, _ in shape.padding],
        "post_padding": [high for _, high in shape.padding],
        "stride": list(shape.stride),
        "dilation": list(shape.dilation),
    }
    build = {"convolve": graph.conv_fprop, "convolve_input": graph.conv_dgrad, "convolve_weight": graph.conv_wgrad}
    output = _carried_on(dnn, graph, build[shape.op](*given, **settings), shape)
    output.set_uid(3 + len(shape.then.given if shape.then else ()))
    output.set_dim(list(made)).set_stride(strides(made, shape.channels_last))
    output.set_output(True).set_data_type(result)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([dnn.heur_mode.A, dnn.heur_mode.FALLBACK])
    graph.deselect_numeric_notes([getattr(dnn.numerical_note, name) for name in _unwanted(shape)])
    return graph


def _carried_on(dnn: Any, graph: Any, sums: Any, shape: ConvolutionShape) -> Any:
    """The result of the epilogue on a convolution's sums."""
    if shape.then is None:
        return sums
    a_channel = (1, shape.y[1], *(1 for _ in shape.y[2:]))
    values = [sums]
    for uid, (is_channel, dtype) in enumerate(shape.then.given, 3):
        sizes = a_channel if is_channel else shape.y
        kind, places = getattr(dnn.data_type, NAMES[dtype]), strides(sizes, shape.channels_last)
        values.append(graph.tensor(dim=list(sizes), stride=places, data_type=kind, uid=uid))
    for op, operands in shape.then.steps:
        values.append(getattr(graph, op)(*(values[number] for number in operands)))
    return values[-1]


# In float32 tensor cores would round to tf32; Winograd's forms and transforms of Fourier's lose bits between the sums.
_LESS_THAN_FLOAT32 = (
    *("TENSOR_CORE", "DOWN_CONVERT_INPUTS", "FFT"),
    *("WINOGRAD", "WINOGRAD_TILE_4x4", "WINOGRAD_TILE_6x6", "WINOGRAD_TILE_13x13"),
)


def _unwanted(shape: ConvolutionShape) -> Sequence[str]:
    """The notes of engines that do not meet the requirements."""
    exact = shape.dtype is float32 and not shape.tf32
    return ("NONDETERMINISTIC", "REDUCED_PRECISION_REDUCTION", *(_LESS_THAN_FLOAT32 if exact else ()))
