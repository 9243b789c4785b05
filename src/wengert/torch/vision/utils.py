"""`torchvision.utils`: grids of images, and images in files."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import wengert as wg
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.tensor import Tensor, of
from wengert.torch.vision.images import pillow


def make_grid(
    tensor: Any,
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
    **options: Any,
) -> Tensor:
    """Images (N, C, H, W), or a list of them, in rows of `nrow`, as one image."""
    images = np.stack([_numbers(x) for x in tensor]) if isinstance(tensor, (list, tuple)) else _numbers(tensor)
    images = images[None] if images.ndim == 2 else images
    images = images[None] if images.ndim == 3 else images
    if images.shape[1] == 1:
        images = np.repeat(images, 3, 1)
    if normalize:
        images = images.astype(images.dtype if images.dtype.kind == "f" else np.float32)
        each = images if scale_each else images[None]
        images = np.stack([_scaled(x, value_range) for x in each]).reshape(images.shape)
    if len(images) == 1:
        return of(wg.tensor(images[0]))
    columns = min(nrow, len(images))
    rows = math.ceil(len(images) / columns)
    height, width = images.shape[2] + padding, images.shape[3] + padding
    grid = np.full((images.shape[1], height * rows + padding, width * columns + padding), pad_value, images.dtype)
    for i, image in enumerate(images):
        top, left = i // columns * height + padding, i % columns * width + padding
        grid[:, top : top + height - padding, left : left + width - padding] = image
    return of(wg.tensor(grid))


def _numbers(x: Any) -> np.ndarray[Any, Any]:
    return np.array(x.detach().numpy() if isinstance(x, wg.Tensor) else x)


def _scaled(x: np.ndarray[Any, Any], value_range: tuple[float, float] | None) -> np.ndarray[Any, Any]:
    low, high = (x.min(), x.max()) if value_range is None else value_range
    return (np.clip(x, low, high) - low) / max(high - low, 1e-5)


def save_image(tensor: Any, fp: Any, format: str | None = None, **options: Any) -> None:
    """Write images as one picture."""
    grid = _numbers(make_grid(tensor, **options))
    pixels = np.clip(grid * 255 + 0.5, 0, 255).transpose(1, 2, 0).astype(np.uint8)
    pillow().fromarray(pixels).save(fp, format=format)


def __getattr__(name: str) -> Any:
    return _missing_attribute("torchvision.utils", name)
