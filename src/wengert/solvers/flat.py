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
    """How a container of values is flattened to a vector."""

    def __init__(self, name: str, values: Any) -> None:
        leaves, self.structure = tree.flatten(values)
        nodes = [as_node(leaf) for leaf in leaves]
        self.shapes = [node.shape for node in nodes]
        self.family = family_of(leaves)
        for node in nodes:
            if node.dtype not in FLOATING:
                raise DTypeError(
                    f"{name}: the unknowns must be real floating-point numbers, but one has dtype {node.dtype}. "
                    "Start with 1.0 instead of 1, or split complex numbers into real and imaginary parts"
                )
        if not nodes:
            raise DTypeError(f"{name}: there are no unknowns in {values!r}")
        self.name, self.dtype = name, result_dtype(*[node.dtype for node in nodes])
        self.vector = Tensor(self.ravel(values))

    def ravel(self, values: Any) -> Node:
        """Flatten a container of this structure to a vector."""
        leaves, structure = tree.flatten(values)
        nodes = [as_node(leaf) for leaf in leaves]
        if structure != self.structure or [node.shape for node in nodes] != self.shapes:
            found = [node.shape for node in nodes]
            raise DTypeError(
                f"{self.name}: the function returns {structure} of shapes {found}, but the unknowns are "
                f"{self.structure} of shapes {self.shapes}; there must be one equation for each unknown"
            )
        flat = [cast(reshape(node, (-1,)), self.dtype) for node in nodes]
        return flat[0] if len(flat) == 1 else concat(flat)

    def unravel(self, vector: Any) -> Any:
        """Rebuild the container from a vector."""
        node, start, leaves = as_node(vector), 0, []
        for shape in self.shapes:
            size = 1
            for n in shape:
                size *= n
            leaves.append(self.family(reshape(slice_axis(node, 0, start, start + size), shape)))
            start += size
        return tree.unflatten(self.structure, leaves)
