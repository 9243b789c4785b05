"""`torchvision.transforms.v2.functional`: the functions of `transforms.functional` under their later names."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.tensor import Tensor, of
from wengert.torch.vision.images import as_tensor, is_image
from wengert.torch.vision.transforms import functional as _first
from wengert.torch.vision.transforms.functional import (
    InterpolationMode as InterpolationMode,
)
from wengert.torch.vision.transforms.functional import (
    convert_image_dtype,
    get_image_size,
    hflip,
    vflip,
)

horizontal_flip, vertical_flip = hflip, vflip


def to_image(inpt: Any) -> Tensor:
    """An image or array (H, W, C) as a tensor of its numbers, (C, H, W); a tensor with its axis of channels."""
    if isinstance(inpt, wg.Tensor):
        return of(inpt[None]) if inpt.node.ndim == 2 else of(inpt)
    if not is_image(inpt) and not isinstance(inpt, np.ndarray):
        raise TypeError(f"Input can either be a pure Tensor, a numpy array, or a PIL image, but got {type(inpt)}.")
    return as_tensor(inpt)


def to_dtype(inpt: Any, dtype: Any = wg.float32, scale: bool = False) -> Tensor:
    """A tensor in another dtype; with `scale`, scaled to that one's range."""
    return convert_image_dtype(inpt, dtype) if scale else of(inpt, np.dtype(dtype))


def grayscale_to_rgb(inpt: Any) -> Any:
    """An image in grey as one of three equal channels; one in colours stays as it is."""
    if is_image(inpt):
        return inpt.convert("RGB")
    return inpt if inpt.node.shape[-3] != 1 else of(wg.concat([inpt] * 3, axis=-3))


def get_size(inpt: Any) -> list[int]:
    """The height and the width."""
    return get_image_size(inpt)[::-1]


def resize(
    inpt: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """The image at another size. Bytes are rounded after each axis, the width first, as Pillow does."""
    smooth = InterpolationMode(interpolation).value in ("bilinear", "bicubic")
    if is_image(inpt) or not smooth or inpt.node.dtype != np.uint8:
        return _first.resize(inpt, size, interpolation, max_size, antialias)
    height, width = _first.resized_to(get_image_size(inpt), size, max_size)
    wide = _first.resize(inpt, (inpt.node.shape[-2], width), interpolation, antialias=antialias)
    return _first.resize(wide, (height, width), interpolation, antialias=antialias)


def _later(name: str) -> Any:
    """A function of an image by the name with its suffix, or of `transforms.functional`."""
    plain = name.removesuffix("_image")
    return globals().get(plain) if plain in globals() else getattr(_first, plain, None)


def __getattr__(name: str) -> Any:
    found = None if name.startswith("_") else _later(name)
    return _missing_attribute("torchvision.transforms.v2.functional", name) if found is None else found
