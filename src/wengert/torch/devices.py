"""`torch.device` and `torch.Size`: Wengert's name of a device, and a shape, with PyTorch's attributes."""

from __future__ import annotations

import math
from typing import Any

from wengert.core import devices


class device(str):
    """A device: `device("cpu")`, `device("cuda", 0)`. It is also the name that Wengert's functions take."""

    __slots__ = ()

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> device:
        """A device by its kind and number, or by a name such as "cuda:0"."""
        if isinstance(type, int):
            type, index = "cuda", type
        name = str(type) if index is None else f"{type}:{index}"
        kind = name.partition(":")[0]
        if kind not in _KINDS:
            raise RuntimeError(f"Expected one of {', '.join(_KINDS)} device type at start of device string: {kind}")
        if kind in ("cpu", "meta"):
            name = kind
        return str.__new__(cls, name)

    @property
    def type(self) -> str:
        """The kind of device: "cpu" or "cuda"."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:
        """Its index among devices of its kind, if given."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        number = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{number})"

    def __str__(self) -> str:
        return str.__str__(self)

    def __hash__(self) -> int:
        return str.__hash__(self)

    def __reduce__(self) -> Any:
        return device, (str(self),)

    def __enter__(self) -> device:
        _outer.append(devices.default)
        devices.set_default_device(str(self))
        return self

    def __exit__(self, *exception: Any) -> None:
        devices.set_default_device(_outer.pop())


_KINDS = ("cpu", "cuda", "meta", "mps", "xpu", "privateuseone")
_outer: list[str] = []  # the default devices around the blocks that are entered


class Size(tuple[int, ...]):
    """The shape of a tensor: a tuple that counts the elements too."""

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(str, self))}])"

    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return Size(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, tuple(other)))

    def __mul__(self, count: Any) -> Any:
        return Size(tuple.__mul__(self, count))
