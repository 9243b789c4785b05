"""Special functions that `torch` itself has; `special` has these and the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.core.graph import Node
from wengert.ops import bessel_functions, gamma_functions
from wengert.ops import special as s
from wengert.torch.arguments import in_floats, int_of, over_nodes, require_one
from wengert.torch.floats import polygamma
from wengert.torch.registry import methods, torch_function
from wengert.torch.tensor import node_of, together, write

Made = Callable[..., Any]


def of_one(name: str, of: Callable[[Node], Node], doc: str | None = None) -> Made:
    """The function of a tensor that a function of floating-point numbers is."""

    def function(input: Node) -> Node:
        return of(in_floats(input))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc or of.__doc__
    return over_nodes("full")(function)


def of_two(name: str, of: Callable[[Node, Node], Node], numbers: bool = True) -> Made:
    """The function of two tensors, or with `numbers` a tensor and a number, that one of floating-point numbers is."""

    def function(input: Any, other: Any) -> Node:
        require_one(name, input, other)
        if not numbers and not (isinstance(input, Node) and isinstance(other, Node)):
            raise TypeError(f"{name}() takes two Tensors, not {type(input).__name__} and {type(other).__name__}")
        a, b = together(*[v if isinstance(v, Node) else node_of(v) for v in (input, other)])
        return of(*[in_floats(v) if isinstance(v, Node) else v for v in (a, b)])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = of.__doc__
    made: Any = over_nodes("full")(function)

    def call(*args: Any, **kwargs: Any) -> Any:
        names = dict(zip(("n", "x", "self", "q"), ("other", "input", "input", "other")))
        return made(*args, **{names.get(key, key): value for key, value in kwargs.items()})

    call.__name__ = call.__qualname__ = name
    call.__doc__ = of.__doc__
    return call


def _enter(made: Made, *aliases: str, in_place: bool = True) -> None:
    torch_function(*aliases, in_place=in_place, out=True)(made)


for _name, _of in (
    ("digamma", s.digamma),
    ("erf", s.erf),
    ("erfc", s.erfc),
    ("erfinv", s.erfinv),
    ("lgamma", s.lgamma),
):
    _enter(of_one(_name, _of.record, _of.__doc__))
_enter(of_one("i0", bessel_functions.i0))
_enter(of_two("igamma", gamma_functions.igamma, numbers=False))
_enter(of_two("igammac", gamma_functions.igammac, numbers=False))


def _polygamma(self: Any, n: int) -> Any:
    """The `n`-th derivative of the digamma function."""
    return polygamma(int_of(n), self)


methods["polygamma"] = _polygamma
methods["polygamma_"] = lambda self, n: write(self, _polygamma(self, n))
