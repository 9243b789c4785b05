"""Results: the tensors that repeated calls return.

Making a tensor and its node takes half a microsecond. Of what a call returned, a loop lets go before the call after the
next one: a tensor that nobody refers to any more, by its node, its array or weakly either, is given again instead.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any
from weakref import getweakrefcount, ref

import numpy as np

from wengert.devices import keepers
from wengert.graph import Node, Shape, now
from wengert.location import Location
from wengert.ops.op import Op
from wengert.runtime.program import Array
from wengert.tensor import Tensor

KEPT = 2  # tensors for one result: the last, and the next
Given = tuple[Tensor, Node, Array, int]  # with the references to the array while nobody uses it


def tensors_like(
    op: Op,
    sources: tuple[Node, ...],
    attrs: dict[str, Any],
    shape: Shape,
    dtype: np.dtype[Any],
    device: str,
    tracked: bool,
    location: Location,
) -> Callable[[Any], Tensor]:
    """What makes Tensors of arrays, all alike: `Tensor(Node(...))` in a third of the time, for compiled calls."""
    new = object.__new__

    def made(array: Any) -> Tensor:
        node, tensor = new(Node), new(Tensor)
        node.op, node.sources, node.attrs = op, sources, attrs
        node.shape, node.dtype, node.device = shape, dtype, device
        node.tracked, node.location, node.buffer = tracked, location, array
        node.owner, node.serial = ref(tensor), now()
        tensor.node, tensor._grad, tensor._indexed = node, None, False
        return tensor

    return made


class Result:
    """Tensors for one result: `wrap` makes them of arrays, `make` the arrays, of which a device may be short."""

    __slots__ = ("__weakref__", "given", "kept", "make", "wrap")

    def __init__(self, wrap: Callable[[Array], Tensor], make: Callable[[], Array], keeps: bool) -> None:
        self.wrap, self.make, self.kept = wrap, make, KEPT if keeps else 0
        self.given: list[Given] = []
        if keeps:
            keepers.add(self)

    def take(self) -> Given:
        """A tensor that nobody refers to, and its array. One serial number is drawn."""
        for given in self.given:
            tensor, node, array, references = given
            if getrefcount(tensor) == 3:  # of what was given, the name's, and that of asking
                if (
                    tensor.node is node
                    and node.buffer is array
                    and getrefcount(node) == 4  # and the tensor's
                    and getrefcount(array) == references
                    and getrefcount(node.owner) == 2
                    and getweakrefcount(tensor) == 1  # the owner's
                ):
                    tensor._grad, tensor._indexed, node.serial = None, False, now()
                    return given
                self.given = [other for other in self.given if other is not given]
                break
        array = self.make()
        tensor = self.wrap(array)
        references = getrefcount(array) + 1  # what is given will refer to it
        given = tensor, tensor.node, array, references
        if len(self.given) < self.kept:
            self.given.append(given)
        return given

    def let_go(self) -> None:
        """Keep nothing: memory is short."""
        self.given = []
