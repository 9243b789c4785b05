"""The device "meta": tensors with a shape and a dtype, and no values.

A model is made on it without memory, and then filled from a file, or moved by `to_empty`. What is computed of its
tensors is as empty as they are; reading a value raises, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from wengert.core import devices
from wengert.core.graph import Node, Shape

NO_DATA = "Cannot copy out of meta tensor; no data!"


@dataclass(frozen=True, eq=False)
class MetaArray:
    """An array without elements."""

    shape: Shape
    dtype: np.dtype[Any]
    device: str = devices.META

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements that there would be."""
        return int(np.prod(self.shape))

    @property
    def nbytes(self) -> int:
        """The bytes that it takes: none."""
        return 0


class MetaDevice:
    """What there is of a device without memory."""

    model = "no values"
    dlpack_device = (0, 0)

    def __init__(self, name: str, index: int) -> None:
        self.name = name

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> MetaArray:
        """An array of this shape."""
        return MetaArray(tuple(shape), dtype, self.name)

    def upload(self, array: Any) -> MetaArray:
        """The shape and the dtype of an array."""
        return self.empty(array.shape, array.dtype)

    def download(self, array: Any) -> NoReturn:
        """Raise: there is nothing to copy."""
        raise NotImplementedError(NO_DATA)

    def copy_into(self, target: Any, source: Any) -> None:
        """Nothing: there are no elements."""

    def is_sole(self, array: Any) -> bool:
        """False: nothing is gained from writing where there is no memory."""
        return False

    owns_memory = is_sole

    def view(self, node: Node, array: Any) -> None:
        """There are no views of nothing."""

    def places(self, array: Any) -> None:
        """No places are known."""

    def can_compile(self) -> bool:
        """False: nothing is computed."""
        return False

    def interpret(
        self,
        order: Sequence[Node],
        keep: set[Node],
        failure: Callable[[Exception, Node], Any],
        *,
        tf32: bool,
        check: bool,
    ) -> None:
        """Give each node an array of its shape."""
        for node in order:
            node.buffer = MetaArray(node.shape, node.dtype, self.name)

    def target(self, *, tf32: bool = False, budget: int | None = None) -> devices.Target:
        """The host's: shapes are all there is."""
        return devices.Target(devices.HOST, budget=budget)

    def codegen(self, tuning: float = 0.0) -> NoReturn:
        """Raise: nothing is compiled."""
        raise RuntimeError("tensors on the device 'meta' have no values, so nothing is compiled for it")

    build = time = to_dlpack = borrow = array_interface = codegen

    def synchronize(self) -> None:
        """Nothing runs."""


def install() -> None:
    """Make the device known."""
    open: Any = MetaDevice  # it has no compiler, so nobody calls what only compiled devices have
    devices.register(devices.META, open, lambda: 1, 0)
