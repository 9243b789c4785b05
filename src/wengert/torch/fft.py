"""`torch.fft`: Fourier transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.core.dtypes import COMPLEX
from wengert.core.graph import Node
from wengert.ops import fft as f
from wengert.ops.elementwise import conj
from wengert.torch.arguments import in_floats, over_nodes
from wengert.torch.creation import creating, dtype_or, place_of
from wengert.torch.missing import missing_attribute
from wengert.torch.registry import with_out

_NORMS = (None, "backward", "forward", "ortho")


def _norm(norm: Any) -> str:
    if norm not in _NORMS:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return norm or "backward"


def _entered(name: str, function: Callable[..., Any], doc: str) -> None:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    globals()[name] = with_out(over_nodes("full")(function))


def _one(name: str, transform: Callable[..., Node], real: bool) -> None:
    def function(input: Node, n: int | None = None, dim: int = -1, norm: str | None = None) -> Node:
        return transform(_real(name, input) if real else in_floats(input), n=n, axis=dim, norm=_norm(norm))

    _entered(name, function, f"The transform `{name}` along an axis.")


def _real(name: str, x: Node) -> Node:
    x = in_floats(x)
    if x.dtype in COMPLEX:
        raise RuntimeError(f"{name} expects a real input tensor, but got {x.dtype}")
    return x


def _several(name: str, transform: Callable[..., Node], over: Any, real: bool) -> None:
    def function(input: Node, s: Any = None, dim: Any = over, norm: str | None = None) -> Node:
        sizes = (s,) if isinstance(s, int) else s
        along = (dim,) if isinstance(dim, int) else dim
        if sizes is not None and along is None:
            along = tuple(range(-len(sizes), 0))
        sizes = None if sizes is None else tuple(_size(input, n, a) for n, a in zip(sizes, along))
        x = _real(name, input) if real else in_floats(input)
        if along is not None:
            along = tuple(along)
        return transform(x, s=sizes, axes=along, norm=_norm(norm))

    _entered(name, function, f"The transform `{name}` along several axes.")


def _size(x: Node, n: int, axis: int) -> int:
    return x.shape[axis] if n == -1 else n


def _hfftn(x: Node, s: Any, axes: Any, norm: str) -> Node:
    """Of values whose transform is real: `irfftn` of the conjugate, scaled the other way."""
    return f.irfftn(conj(x) if x.dtype in COMPLEX else x, s=s, axes=axes, norm=_OTHER[norm])


def _ihfftn(x: Node, s: Any, axes: Any, norm: str) -> Node:
    return conj(f.rfftn(x, s=s, axes=axes, norm=_OTHER[norm]))


_OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}

for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    _one(_name, getattr(f, _name), _name in ("rfft", "ihfft"))
for _name, _transform in (
    ("fft", f.fftn),
    ("ifft", f.ifftn),
    ("rfft", f.rfftn),
    ("irfft", f.irfftn),
    ("hfft", _hfftn),
    ("ihfft", _ihfftn),
):
    _several(f"{_name}n", _transform, None, _name in ("rfft", "ihfft"))
    _several(f"{_name}2", _transform, (-2, -1), _name in ("rfft", "ihfft"))


@over_nodes()
def fftshift(input: Node, dim: Any = None) -> Node:
    """Move the zero frequency to the middle."""
    return f.fftshift(input, axes=dim)


@over_nodes()
def ifftshift(input: Node, dim: Any = None) -> Node:
    """The inverse of `fftshift`."""
    return f.ifftshift(input, axes=dim)


@creating
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Node:
    """The frequencies of `fft`."""
    return f.fftfreq(n, d=d, dtype=dtype_or(dtype), device=place_of(device))


@creating
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Node:
    """The frequencies of `rfft`."""
    return f.rfftfreq(n, d=d, dtype=dtype_or(dtype), device=place_of(device))


def __getattr__(name: str) -> Any:
    return missing_attribute("torch.fft", name)
