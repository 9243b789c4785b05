"""Fourier transforms by cuFFT: along any one axis, or along the last axes, of complex or real values.

The rest of a transform (other sizes, other axis orders, a norm) is written around it as ops of the graph, which fuse
with their neighbours (`plan/expansions`). A plan's workspace belongs to the step, so it can be part of a CUDA graph.

cuFFT takes the missing half of a half-spectrum as its mirror image along all axes, NumPy along the last one only, so a
real inverse over several axes starts with a complex one over the other axes.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.backends.cuda.vendor import Named, PartsList, VendorLibrary, VendorRecipe, opened_library
from wengert.core.dtypes import COMPLEX, complex64, complex128, float32, float64
from wengert.core.graph import Node
from wengert.kernels.linalg.around import Matrices, arranged
from wengert.ops.fft import FFT, IFFT, IRFFT, RFFT

TRANSFORMS = (FFT, IFFT, RFFT, IRFFT)
DTYPES = {float32: 0, float64: 1, complex64: 4, complex128: 5}  # as CUDA numbers them
_FORWARD, _BACKWARD = -1, 1
MOST_AXES = 3  # of one plan
MOST_CALLS = 64  # one after another, along an axis in the middle
_UNSCALED = {FFT: "backward", RFFT: "backward", IFFT: "forward", IRFFT: "forward"}


def library() -> VendorLibrary | None:
    """cuFFT, or None if it is not installed."""
    return opened_library("cufft", "cufft")


def _there() -> VendorLibrary:
    found = library()
    assert found is not None
    return found


class Transform(NamedTuple):
    """One plan: sizes along adjacent axes, and on both sides the strides between elements and between transforms."""

    sizes: tuple[int, ...]
    step: int
    given: int  # from transform to transform
    made: int
    source: np.dtype[Any]
    result: np.dtype[Any]
    batch: int

    @property
    def is_strided(self) -> bool:
        """Whether elements are not adjacent."""
        return self.step > 1


class TransformPlan:
    """A cuFFT plan, and its workspace size."""

    def __init__(self, transform: Transform) -> None:
        t, self.number, size = transform, ctypes.c_int(), ctypes.c_size_t()
        _there().call("Create", ctypes.byref(self.number))
        _there().call("SetAutoAllocation", self.number, 0)
        sizes = (ctypes.c_longlong * len(t.sizes))(*t.sizes)
        embedded = sizes if t.is_strided else None
        wide = t.source if t.source in COMPLEX else t.result
        _there().call(
            "XtMakePlanMany", self.number, len(t.sizes), sizes,
            embedded, t.step, t.given, DTYPES[t.source], embedded, t.step, t.made, DTYPES[t.result],
            t.batch, ctypes.byref(size), DTYPES[wide],
        )  # fmt: skip
        self.workspace = size.value

    def run(self, stream: int, source: int, target: int, workspace: int, direction: int) -> None:
        """Enqueue it on a stream."""
        own = self.number
        _there().call("SetStream", own, ctypes.c_void_p(stream))
        _there().call("SetWorkArea", own, ctypes.c_void_p(workspace))
        _there().call("XtExec", own, ctypes.c_void_p(source), ctypes.c_void_p(target), direction)


@functools.lru_cache(maxsize=256)
def _plan(transform: Transform, device: int) -> TransformPlan:
    return TransformPlan(transform)


class TransformStage(NamedTuple):
    """A plan that runs this many times, and the bytes between one run and the next."""

    transform: Transform
    times: int = 1
    given: int = 0
    made: int = 0


def _stage(
    shape: Sequence[int], axes: Sequence[int], source: np.dtype[Any], result: np.dtype[Any], half: bool
) -> TransformStage | None:
    """The transform along some adjacent axes, in order; None if one plan cannot express it."""
    first, last = axes[0], axes[-1]
    if list(axes) != list(range(first, last + 1)) or len(axes) > MOST_AXES:
        return None
    sizes = tuple(shape[axis] for axis in axes)
    inner, outer, size = math.prod(shape[last + 1 :]), math.prod(shape[:first]), math.prod(sizes)
    if inner == 1:
        narrow = size // sizes[-1] * (sizes[-1] // 2 + 1)
        given = narrow if half and source in COMPLEX else size
        made = narrow if half and result in COMPLEX else size
        return TransformStage(Transform(sizes, 1, given, made, source, result, outer))
    if half or len(axes) > 1 or outer > MOST_CALLS:
        return None
    moved = size * inner * source.itemsize
    return TransformStage(Transform(sizes, inner, 1, 1, source, result, inner), outer, moved, moved)


def stages(node: Node) -> list[TransformStage] | None:
    """The plans that compute a transform, in sequence; None if cuFFT cannot."""
    x, axes, sizes = node.sources[0], node.attrs["axes"], node.attrs["sizes"]
    is_half, result = node.op in (RFFT, IRFFT), node.dtype
    full = result if node.op is RFFT else x.dtype
    if node.attrs["norm"] != _UNSCALED[node.op] or not axes or x.dtype not in DTYPES or len(set(axes)) < len(axes):
        return None
    if (node.op is RFFT) is (x.dtype in COMPLEX):
        return None
    expected = [sizes[-1] // 2 + 1 if node.op is IRFFT and axis == axes[-1] else n for axis, n in zip(axes, sizes)]
    if [x.shape[axis] for axis in axes] != expected:
        return None
    shape = list(node.shape if node.op is IRFFT else x.shape)
    if not is_half:
        return _grouped(shape, sorted(axes), full)
    if axes[-1] != len(shape) - 1:
        return None
    if node.op is RFFT and tuple(axes) == tuple(range(axes[0], len(shape))) and len(axes) <= MOST_AXES:
        whole = _stage(shape, axes, x.dtype, result, True)
        return None if whole is None else [whole]
    real = _stage(shape, axes[-1:], x.dtype, result, True)
    spectrum = [*shape[:-1], shape[-1] // 2 + 1]
    others = _grouped(spectrum, sorted(axes[:-1]), full) if len(axes) > 1 else []
    if real is None or others is None:
        return None
    return [real, *others] if node.op is RFFT else [*others, real]


def _grouped(shape: Sequence[int], axes: Sequence[int], dtype: np.dtype[Any]) -> list[TransformStage] | None:
    """Complex transforms along axes: the trailing adjacent axes together, the others one by one."""
    found: list[TransformStage] = []
    rest = list(axes)
    while rest:
        count = next((k for k in (3, 2) if rest[-k:] == list(range(len(shape) - k, len(shape)))), 1)
        stage = _stage(shape, rest[-count:], dtype, dtype, False)
        if stage is None:
            return None
        found.append(stage)
        del rest[-count:]
    return found


def _transformed(made: PartsList, node: Node, named: Named, results: Mapping[int, Node], device: int) -> None:
    """Run stage after stage: the first reads the operand, the others work in place.

    A transform to real values may overwrite its operand, which is therefore a temporary.
    """
    found = stages(node)
    assert found is not None
    x, y, spectrum = named(node.sources[0]), named(node), node.sources[0]
    direction = _FORWARD if node.op in (FFT, RFFT) else _BACKWARD
    plans = [_plan(stage.transform, device) for stage in found]
    made.temporary("work", max(plan.workspace for plan in plans))
    between = y
    if node.op is IRFFT:
        between = made.temporary("between", spectrum.size * spectrum.dtype.itemsize)
    at = x
    if node.op is IRFFT and len(found) == 1:
        rows, columns = spectrum.size // spectrum.shape[-1], spectrum.shape[-1]
        lies = Matrices(columns, 0)
        made.launch(arranged(x, between, spectrum.dtype, (), (rows, columns), lies, lies))
        at = between
    for stage, plan in zip(found, plans):
        to = between if stage.transform.result in COMPLEX else y
        made.call("cuFFT", [at, to, "work"], functools.partial(_run, stage, plan, direction))
        at = to


def _run(stage: TransformStage, plan: TransformPlan, direction: int, stream: int, pointers: Sequence[int]) -> None:
    source, target, workspace = pointers
    for k in range(stage.times):
        plan.run(stream, source + k * stage.given, target + k * stage.made, workspace, direction)


def recipes(node: Node, device: int) -> list[VendorRecipe]:
    """cuFFT's implementation of a transform; empty if unsupported or not installed."""
    if library() is None or not node.size or stages(node) is None:
        return []
    return [VendorRecipe("cuFFT", _transformed, device)]
