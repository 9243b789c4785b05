"""Results: the tensors that repeated calls return.

Making a tensor and its node takes half a microsecond. Of what a call returned, a loop lets go before the call after the
next one: where nobody refers to any of it, to a node, an array or weakly either, all is given again instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from sys import getrefcount
from typing import Any, NamedTuple
from weakref import getweakrefcount, ref

import numpy as np

from wengert.core.devices import keepers
from wengert.core.graph import Node, Shape, now
from wengert.core.location import Location
from wengert.ops.op import Op
from wengert.tensor import Tensor

KEPT = 2  # the last, and the next


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


class Given(NamedTuple):
    """What was returned at once: tensors, and the arrays they are made of."""

    tensors: tuple[Tensor, ...]
    arrays: tuple[Any, ...]
    tracked: list[int]  # the places of those that are
    parts: tuple[Any, ...]  # of each its tensor, node and array, and the references to that if nobody uses it


class Results:
    """The results of a repetition: `makers` make arrays for them, `wraps` tensors of these.

    Where it `keeps` what it gave, that is given again; the arrays of results stay alive then, as a GPU's do anyway.
    """

    def __init__(
        self, wraps: Sequence[Callable[[Any], Tensor]], makers: Sequence[Callable[[], Any]], keeps: bool
    ) -> None:
        self.wraps, self.makers, self.keeps = wraps, makers, keeps
        self.given: list[Given] = []
        self.are_free = _asking(len(wraps))
        if keeps:
            keepers.add(self)

    def again(self) -> Given | None:
        """Results of which nobody has any part, if there are such. A serial number is drawn for each tracked one."""
        for given in self.given:
            if self.are_free(*given.parts):
                for place in given.tracked:  # for others it does not count when they were made
                    given.tensors[place].node.serial = now()
                return given
        return None

    def made(self) -> Given:
        """New ones. A serial number is drawn for each."""
        if len(self.given) == KEPT:  # somebody keeps parts of both: the rest may serve
            self.given.clear()
        arrays = tuple([make() for make in self.makers])
        others = [getrefcount(array) - 3 for array in arrays]  # besides the tuple's, the name's, and that of asking
        tensors = tuple([wrap(array) for wrap, array in zip(self.wraps, arrays)])
        nodes = [tensor.node for tensor in tensors]
        parts = chain.from_iterable(zip(tensors, nodes, arrays, [5 + more for more in others]))
        given = Given(tensors, arrays, [i for i, node in enumerate(nodes) if node.tracked], tuple(parts))
        if self.keeps:
            self.given.append(given)
        return given

    def let_go(self) -> None:
        """Keep nothing: memory is short."""
        self.given.clear()


def _asking(count: int) -> Callable[..., bool]:
    """What tells of the parts of so many results whether nobody has any, nor changed any: Python written for them.

    The references are those of `Given` (two, to nodes one), of the names here, and those of asking; to a node also its
    tensor's, to an array its node's. A tensor is referred to weakly by its node.
    """
    names = [f"t{i}, n{i}, a{i}, r{i}" for i in range(count)]
    whole = [f"references(t{i}) == 4" for i in range(count)]
    whole += [
        f"t{i}.node is n{i} and n{i}.buffer is a{i} and references(n{i}) == 4 and references(a{i}) == r{i}"
        f" and references(n{i}.owner) == 2 and weak_references(t{i}) == 1 and t{i}._grad is None"
        for i in range(count)
    ]
    asking: Callable[..., bool] = eval(
        f"lambda {', '.join(names)}: {' and '.join(whole) or True}",
        {"references": getrefcount, "weak_references": getweakrefcount},
    )
    return asking
