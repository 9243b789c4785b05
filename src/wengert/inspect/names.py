"""Textbook names: v1, v2, ... for values, v̄1, v̄2, ... for their adjoints.

The inputs come first, in the order of the arguments, then what is computed from them, in the order in which that
happens: the names of Wengert's list, wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

BAR = "\u0304"
V = TypeVar("V", bound=Hashable)  # a value: a node, a `Value` of wengert.learn, a place in memory


def value_names(inputs: Iterable[V], computed: Iterable[V], named: Mapping[V, str] | None = None) -> dict[V, str]:
    """The names of the values of a computation; what is `named`, such as a parameter, keeps its own name.

    >>> value_names(["x", "y"], ["x", "x + y"])
    {'x': 'v1', 'y': 'v2', 'x + y': 'v3'}
    """
    names = dict(named or {})
    numbered = [value for value in dict.fromkeys([*inputs, *computed]) if value not in names]
    return names | {value: f"v{i + 1}" for i, value in enumerate(numbered)}


def adjoint_name(name: str) -> str:
    """The name of the adjoint of a value.

    >>> adjoint_name("v3"), adjoint_name("fc.weight")
    ('v̄3', 'grad fc.weight')
    """
    is_numbered = name[:1].isalpha() and (len(name) == 1 or name[1:].isdigit())
    return f"{name[0]}{BAR}{name[1:]}" if is_numbered else f"grad {name}"
