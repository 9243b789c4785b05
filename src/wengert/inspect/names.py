"""Textbook names: v1, v2, ... for values, v̄1, v̄2, ... for their adjoints.

The inputs come first, in the order of the arguments, then what is computed from them, in the order in which that
happens: the names of Wengert's list, wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wengert.core.graph import Node

BAR = "\u0304"


def value_names(
    inputs: Iterable[Node], computed: Iterable[Node], named: Mapping[Node, str] | None = None
) -> dict[Node, str]:
    """The names of the values of a computation; what is `named`, such as a parameter, keeps its own name."""
    names = dict(named or {})
    numbered = [node for node in dict.fromkeys([*inputs, *computed]) if node not in names]
    return names | {node: f"v{i + 1}" for i, node in enumerate(numbered)}


def adjoint_name(name: str) -> str:
    """The name of the adjoint of a value.

    >>> adjoint_name("v3"), adjoint_name("fc.weight")
    ('v̄3', 'grad fc.weight')
    """
    is_numbered = name[:1].isalpha() and (len(name) == 1 or name[1:].isdigit())
    return f"{name[0]}{BAR}{name[1:]}" if is_numbered else f"grad {name}"
