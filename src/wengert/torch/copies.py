"""Views made copies (`narrow_copy`, ...), and a tensor with a view of it replaced (`select_scatter`, ...)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.ops.reduce import sum_to
from wengert.torch.arguments import sizes_of
from wengert.torch.reductions import to_sum
from wengert.torch.registry import functions, methods, torch_function
from wengert.torch.tensor import Tensor

_VIEWS = (  # noqa: SIM905
    "alias as_strided detach diagonal expand permute select slice split split_with_sizes squeeze t transpose unbind "
    "unfold unsqueeze view view_as_complex view_as_real narrow"
).split()


def _call_view(name: str, input: Any, args: Any, kwargs: Any) -> Any:
    if name == "alias":
        return input
    if name == "slice":
        return input[_key(input, *args, **kwargs)]
    return getattr(input, name)(*args, **kwargs)


def _copied(name: str) -> Callable[..., Any]:
    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        found = _call_view(name, input, args, kwargs)
        return tuple(part.clone() for part in found) if isinstance(found, (tuple, list)) else found.clone()

    function.__name__ = function.__qualname__ = f"{name}_copy"
    function.__doc__ = f"`{name}`, as a tensor of its own."
    return function


for _name in _VIEWS:
    torch_function(method=_name == "narrow", out=True)(_copied(_name))


def _key(input: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> tuple[slice, ...]:
    axis = dim % len(input.node.shape)
    return (*(slice(None),) * axis, slice(start, end, step))


def _with(input: Any, view: Callable[[Any], Any], src: Any) -> Tensor:
    """A copy of a tensor in which a view of it holds another value."""
    made = input.clone()
    part = view(made)
    if part.shape != src.shape:
        raise RuntimeError(f"expected src to have a size equal to the view of self: {part.shape}, not {src.shape}")
    part.copy_(src)
    return made


@torch_function(out=True)
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Tensor:
    """`input` with the slice at an index along an axis replaced."""
    return _with(input, lambda x: x.select(dim, index), src)


@torch_function(out=True)
def slice_scatter(input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    """`input` with a slice along an axis replaced."""
    return _with(input, lambda x: x[_key(x, dim, start, end, step)], src)


@torch_function(out=True)
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """`input` with a diagonal replaced."""
    return _with(input, lambda x: x.diagonal(offset, dim1, dim2), src)


@torch_function(out=True)
def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: Any = None) -> Tensor:
    """`input` with the elements selected by `as_strided` replaced."""
    return _with(input, lambda x: x.as_strided(size, stride, storage_offset), src)


@torch_function(out=False)
def sum_to_size(input: Any, *size: Any) -> Any:
    """`input` summed over the axes along which this size would be broadcast to it."""
    shape, own = sizes_of(size), input.node.shape
    wide = (1,) * (len(own) - len(shape)) + shape
    if len(wide) != len(own) or any(n not in (1, m) for n, m in zip(wide, own)):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(own)}}}.")
    return Tensor(sum_to(to_sum(input.node, None), shape))


def _unsafe(name: str) -> None:
    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(input, name)(*args, **kwargs)

    function.__name__ = function.__qualname__ = f"unsafe_{name}"
    function.__doc__ = f"`{name}`."
    torch_function()(function)


for _name in ("chunk", "split", "split_with_sizes"):
    _unsafe(_name)

IN_PLACE = (  # noqa: SIM905
    "abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil celu clamp "
    "clamp_max clamp_min clip conj_physical cos cosh deg2rad erf erfc exp exp2 expm1 fill fix floor frac gcd i0 "
    "index_put lcm ldexp log log10 log1p log2 logit nan_to_num neg negative rad2deg reciprocal relu resize resize_as "
    "round rsqrt selu sigmoid sin sinc sinh sqrt square tan tanh threshold trunc xlogy zero"
).split()
"""Methods in place that `torch` has as functions too."""

for _name in IN_PLACE:
    functions.setdefault(f"{_name}_", methods[f"{_name}_"])
