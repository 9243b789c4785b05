"""Nested containers of floating-point values as one vector, and back."""

from __future__ import annotations

from typing import Any

from wengert.core import tree
from wengert.core.dtypes import FLOATING, result_dtype
from wengert.core.errors import DTypeError
from wengert.core.graph import Node
from wengert.ops.core import as_node, cast
from wengert.ops.movement import concat, reshape, slice_axis
from wengert.tensor import Tensor, family_of


class Flat:
    """How a container of values is laid out in a vector."""

    def __init__(self, name: str, values: Any) -> None:
        leaves, self.structure = tree.flatten(values)
        nodes = [as_node(leaf) for leaf in leaves]
        self.shapes = [node.shape for node in nodes]
        self.family = family_of(leaves)
        for node in nodes:
            if node.dtype not in FLOATING:
                raise DTypeError(
                    f"{name}: a value of dtype {node.dtype} among the unknowns, which are real floating-point numbers. "
                    "Start with 1.0 instead of 1, or split complex numbers into real and imaginary parts"
                )
        if not nodes:
            raise DTypeError(f"{name}: there are no unknowns in {values!r}")
        self.name, self.dtype = name, result_dtype(*[node.dtype for node in nodes])
        self.vector = Tensor(self.ravel(values))

    def ravel(self, values: Any) -> Node:
        """The vector of a container of this structure."""
        leaves, structure = tree.flatten(values)
        nodes = [as_node(leaf) for leaf in leaves]
        if structure != self.structure or [node.shape for node in nodes] != self.shapes:
            found = [node.shape for node in nodes]
            raise DTypeError(
                f"{self.name}: the function gives {structure} of shapes {found} where the unknowns are "
                f"{self.structure} of shapes {self.shapes}: there must be as many equations as unknowns"
            )
        flat = [cast(reshape(node, (-1,)), self.dtype) for node in nodes]
        return flat[0] if len(flat) == 1 else concat(flat)

    def unravel(self, vector: Any) -> Any:
        """The container of a vector."""
        node, start, leaves = as_node(vector), 0, []
        for shape in self.shapes:
            size = 1
            for n in shape:
                size *= n
            leaves.append(self.family(reshape(slice_axis(node, 0, start, start + size), shape)))
            start += size
        return tree.unflatten(self.structure, leaves)
