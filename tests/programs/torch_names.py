"""PyTorch under Wengert's names: what a program's lines call when PyTorch runs them.

run(program) -> the program's outputs and gradients, in the order of its sample
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.programs.builder import Program

INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
torch.set_num_threads(1)


def run(program: Program) -> list[np.ndarray | None]:
    """The outputs and gradients of a program; tangents are left out."""
    leaves = [_tensor(array) for array in program.inputs]
    for k in program.sources:
        leaves[k].requires_grad_()
    names = program.run(TORCH, leaves)
    outputs = [names[name] for name in program.outputs]
    return [*map(_array, outputs), *map(_array, _gradients(program, names, leaves))]


def _gradients(program: Program, names: dict[str, Any], leaves: list[Any]) -> list[Any]:
    pairs = [(names[name], _tensor(c)) for name, c in zip(program.targets, program.cotangents)]
    chosen = [(target, c) for target, c in pairs if target.requires_grad]
    sources = [leaves[k] for k in program.sources]
    if not chosen:
        return [None] * len(sources)
    targets, cotangents = zip(*chosen)
    return list(torch.autograd.grad(targets, sources, cotangents, allow_unused=True))


def _tensor(array: np.ndarray) -> Any:
    return torch.tensor(array.copy())


def _array(tensor: Any) -> np.ndarray | None:
    if tensor is None:
        return None
    return tensor.detach().resolve_conj().resolve_neg().numpy()


def _axes(axis: Any, rank: int) -> Any:
    return tuple(range(rank)) if axis is None else axis


def _over(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction over an axis, several or all of them; over none at all it is of each element."""

    def reduce(x: Any, axis: Any = None, keepdims: bool = False, **options: Any) -> Any:
        return function(x, dim=_axes(axis, x.ndim), keepdim=keepdims, **options)

    return reduce


def _one_by_one(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction that PyTorch has over one axis, over several."""

    def reduce(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        if not x.ndim:
            return function(x, 0)
        axes = _axes(axis, x.ndim)
        for a in sorted(a % x.ndim for a in (axes if isinstance(axes, tuple) else (axes,)))[::-1]:
            x = function(x, a)
            x = x.unsqueeze(a) if keepdims else x
        return x

    return reduce


def _moment(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Any, axis: Any = None, keepdims: bool = False, correction: int = 0) -> Any:
        return function(x, dim=_axes(axis, x.ndim), correction=correction, keepdim=keepdims)

    return reduce


def _along(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function along one axis."""
    return lambda x, axis=-1, **options: function(x, dim=axis, **options)


def _sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return torch.sum(x, dim=_axes(axis, x.ndim), keepdim=keepdims) if x.ndim else torch.sum(x)


def _flip(x: Any, axis: Any) -> Any:
    return torch.flip(x, axis if isinstance(axis, tuple) else (axis,))


def _other_dtype(x: Any, dtype: Any) -> Any:
    if not x.dtype.is_floating_point or dtype not in INTEGERS:
        return x.to(dtype)
    limits = torch.iinfo(dtype)  # what does not fit is the nearest, which PyTorch leaves to the processor
    return torch.where(x >= limits.max, limits.max, x.clamp(limits.min).to(dtype)).to(dtype)


def _count(x: Any, axis: Any = None) -> Any:
    return _sum((x != 0).to(torch.int64), axis)


def _beside(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of two tensors, of which one may be a number."""

    def binary(x: Any, y: Any) -> Any:
        return function(*[v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=_meet(x, y)) for v in (x, y)])

    return binary


def _meet(x: Any, y: Any) -> Any:
    return x.dtype if isinstance(x, torch.Tensor) else y.dtype


def _any(x: Any, axis: int) -> Any:
    return torch.any(x != 0, axis)


def _all(x: Any, axis: int) -> Any:
    return torch.all(x != 0, axis)


def _imag(x: Any) -> Any:
    return x.imag if x.dtype.is_complex else torch.zeros_like(x)


def _floor_divide(x: Any, y: Any) -> Any:
    return torch.floor_divide(*[v.detach() if isinstance(v, torch.Tensor) else v for v in (x, y)])


def _index_add(x: Any, axis: int, index: Any, source: Any) -> Any:
    return torch.index_add(x, axis, index, source)


def _norm(x: Any, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Any:
    return torch.linalg.vector_norm(x, ord, dim=_axes(axis, x.ndim), keepdim=keepdims)


def _interpolate(x: Any, size: Any, mode: str) -> Any:
    return F.interpolate(x, size, mode=mode)


def _conv(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, weight, bias=None, **options: function(x, weight, bias, **options)


def _loss(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, y, **options: function(x, y, **options)


class _Linalg:
    vector_norm = staticmethod(_norm)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.linalg, name)


class Torch:
    """PyTorch's functions by Wengert's names; what is not here has the same name and arguments in both."""

    linalg, fft, float = _Linalg(), torch.fft, float
    tensor = staticmethod(_tensor)
    astype = staticmethod(_other_dtype)
    sum, mean = staticmethod(_sum), staticmethod(_over(torch.mean))
    nansum = staticmethod(_over(torch.nansum))
    max, min = staticmethod(_over(torch.amax)), staticmethod(_over(torch.amin))
    var, std = staticmethod(_moment(torch.var)), staticmethod(_moment(torch.std))
    logsumexp = staticmethod(_over(torch.logsumexp))
    any, all = staticmethod(_one_by_one(_any)), staticmethod(_one_by_one(_all))
    prod = staticmethod(_one_by_one(torch.prod))
    count_nonzero = staticmethod(_count)
    argmax = staticmethod(lambda x, axis, keepdims=False: torch.argmax(x, axis, keepdims))
    argmin = staticmethod(lambda x, axis, keepdims=False: torch.argmin(x, axis, keepdims))
    cumsum, cumprod = staticmethod(_along(torch.cumsum)), staticmethod(_along(torch.cumprod))
    cummax, cummin = staticmethod(_along(torch.cummax)), staticmethod(_along(torch.cummin))
    logcumsumexp, diff = staticmethod(_along(torch.logcumsumexp)), staticmethod(_along(torch.diff))
    softmax, log_softmax = staticmethod(_along(torch.softmax)), staticmethod(_along(torch.log_softmax))
    sort = staticmethod(
        lambda x, axis, descending=False: torch.sort(x, dim=axis, descending=descending, stable=True)[0]
    )
    argsort = staticmethod(lambda x, axis: torch.argsort(x, dim=axis, stable=True))
    topk = staticmethod(lambda x, k, axis, largest=True: torch.topk(x, k, axis, largest))
    kthvalue = staticmethod(lambda x, k, axis: torch.kthvalue(x, k, axis))
    quantile = staticmethod(lambda x, q, axis: torch.quantile(x, q, axis))
    trapezoid, glu = staticmethod(_along(torch.trapezoid)), staticmethod(_along(F.glu))
    normalize = staticmethod(lambda x, axis: F.normalize(x, dim=axis))
    cosine_similarity = staticmethod(lambda x, y, axis: F.cosine_similarity(x, y, dim=axis))
    permute_dims, expand_dims = staticmethod(torch.permute), staticmethod(torch.unsqueeze)
    matrix_transpose = staticmethod(lambda x: x.mT)
    flatten = staticmethod(lambda x: x.reshape(-1))
    concat, stack = staticmethod(_along(torch.cat)), staticmethod(_along(torch.stack))
    split = staticmethod(lambda x, n, axis: torch.split(x, n, axis))
    chunk = staticmethod(lambda x, n, axis: torch.chunk(x, n, axis))
    unstack = staticmethod(lambda x, axis: torch.unbind(x, axis))
    roll = staticmethod(lambda x, n, axis: torch.roll(x, n, axis))
    flip = staticmethod(_flip)
    rot90 = staticmethod(lambda x: torch.rot90(x, 1, (0, 1)))
    take = staticmethod(lambda x, index, axis: torch.index_select(x, axis, index))
    take_along_axis = staticmethod(lambda x, index, axis: torch.take_along_dim(x, index, axis))
    scatter, scatter_add = staticmethod(torch.scatter), staticmethod(torch.scatter_add)
    index_add = staticmethod(_index_add)
    pad = staticmethod(lambda x, widths, value=0: F.pad(x, widths, value=value))
    diagonal = staticmethod(lambda x, offset=0: torch.diagonal(x, offset, -2, -1))
    stop_gradient = staticmethod(torch.Tensor.detach)
    masked_fill = staticmethod(torch.masked_fill)
    one_hot, embedding = staticmethod(F.one_hot), staticmethod(F.embedding)
    maximum, minimum = staticmethod(_beside(torch.maximum)), staticmethod(_beside(torch.minimum))
    logaddexp, hypot = staticmethod(_beside(torch.logaddexp)), staticmethod(_beside(torch.hypot))
    atan2, copysign = staticmethod(_beside(torch.atan2)), staticmethod(_beside(torch.copysign))
    fmax, fmin, fmod = (staticmethod(_beside(f)) for f in (torch.fmax, torch.fmin, torch.fmod))
    remainder, floor_divide = staticmethod(torch.remainder), staticmethod(_floor_divide)
    xlogy, lerp = staticmethod(_beside(torch.xlogy)), staticmethod(torch.lerp)
    bitwise_invert = staticmethod(torch.bitwise_not)
    linear, vecdot = staticmethod(F.linear), staticmethod(torch.linalg.vecdot)
    conv1d, conv2d = staticmethod(_conv(F.conv1d)), staticmethod(_conv(F.conv2d))
    conv_transpose1d, conv_transpose2d = staticmethod(F.conv_transpose1d), staticmethod(F.conv_transpose2d)
    interpolate, unfold = staticmethod(_interpolate), staticmethod(F.unfold)
    searchsorted = staticmethod(lambda edges, x: torch.searchsorted(edges, x))
    sign, imag = staticmethod(torch.sgn), staticmethod(_imag)

    def __getattr__(self, name: str) -> Any:
        return getattr(F, name) if hasattr(F, name) else getattr(torch, name)


TORCH = Torch()
