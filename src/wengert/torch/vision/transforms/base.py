"""What transforms are made of: those in a row, their reprs, sizes."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

from wengert.torch.nn import Module


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, numbers.Number):
        return int(size), int(size)  # type: ignore[call-overload]
    return (int(size[0]), int(size[0])) if len(size) == 1 else (int(size[0]), int(size[1]))


class Compose:
    """Several transforms, one after another."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return "\n".join([f"{type(self).__name__}(", *[f"    {each}" for each in self.transforms], ")"])


class _Plain:
    """A transform without parameters that it learns; its repr shows how it was made."""

    _shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in self._shown)})"


class _Transform(Module):
    """A transform that is a module, as torchvision's are."""

    _shown: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        """The settings."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
