"""Images as PIL has them, and as tensors. Pillow is imported when the first image is made."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert.torch.tensor import Tensor


def pillow() -> Any:
    """Pillow's module of images."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError(
            "torchvision's images are Pillow's, which is not installed: pip install 'wengert[vision]'"
        ) from None
    return Image


def is_image(value: Any) -> bool:
    """Whether this is one of Pillow's images."""
    return type(value).__module__.startswith("PIL.")


def as_tensor(image: Any) -> Tensor:
    """An image, or an array (H, W, C), as a tensor (C, H, W) of its numbers."""
    array = np.array(image)
    if array.dtype == bool:
        array = array.astype(np.uint8) * 255
    array = array[:, :, None] if array.ndim == 2 else array
    return Tensor(wg.tensor(np.ascontiguousarray(array.transpose(2, 0, 1))).node)


def as_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor (C, H, W) or an array (H, W, C) as an image; floating-point numbers from 0 to 1."""
    array = np.asarray(pic.detach().numpy()).transpose(1, 2, 0) if isinstance(pic, wg.Tensor) else np.asarray(pic)
    if array.dtype.kind == "f" and isinstance(pic, wg.Tensor):
        array = (array * 255).astype(np.uint8)
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    return pillow().fromarray(array, mode) if mode else pillow().fromarray(array)
