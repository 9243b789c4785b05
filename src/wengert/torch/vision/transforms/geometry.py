"""Rotations and affine maps of images: of tensors by a grid of places to sample, of Pillow's images by Pillow.

In: an image and the map as an angle, a translation in points, a scale and shears in degrees. Out: the mapped image. The
matrix goes from places in the result to places in the image, as both need it.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

import wengert as wg
from wengert.torch.tensor import Tensor, of
from wengert.torch.vision.images import is_image

Matrix = list[float]  # the six numbers of the first two rows


def inverse_matrix(center: Any, angle: float, translate: Any, scale: float, shear: Any) -> Matrix:
    """The inverse of: move `center` to the origin, shear, scale, turn, move back, translate."""
    turn, sx, sy = (math.radians(each) for each in (angle, *shear))
    (cx, cy), (tx, ty) = center, translate
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    found = [value / scale for value in (d, -b, 0.0, -c, a, 0.0)]
    found[2] = found[0] * (-cx - tx) + found[1] * (-cy - ty) + cx
    found[5] = found[3] * (-cx - tx) + found[4] * (-cy - ty) + cy
    return found


def rotated(img: Any, angle: float, mode: str, expand: bool, center: Any, fill: Any) -> Tensor:
    """A tensor (..., C, H, W) turned counter-clockwise by degrees."""
    height, width = img.node.shape[-2:]
    middle = [0.0, 0.0] if center is None else [c - 0.5 * n for c, n in zip(center, (width, height))]
    matrix = inverse_matrix(middle, -angle, (0.0, 0.0), 1.0, (0.0, 0.0))
    size = _grown(matrix, width, height) if expand else (width, height)
    return _mapped(img, matrix, size, mode, fill)


def affine(
    img: Any, angle: float, translate: Any, scale: float, shear: Any, interpolation: Any, fill: Any, center: Any
) -> Any:
    """The image turned clockwise by degrees, translated, scaled and sheared."""
    shears = [shear, 0.0] if isinstance(shear, numbers.Number) else [*shear, 0.0][:2]
    width, height = img.size if is_image(img) else img.node.shape[:-3:-1]
    if is_image(img):
        middle = [0.5 * width, 0.5 * height] if center is None else center
        matrix = inverse_matrix(middle, angle, translate, scale, shears)
        return img.transform((width, height), 0, matrix, interpolation, fillcolor=_color(img, fill))
    middle = [0.0, 0.0] if center is None else [c - 0.5 * n for c, n in zip(center, (width, height))]
    matrix = inverse_matrix(middle, angle, [float(t) for t in translate], scale, shears)
    return _mapped(img, matrix, (width, height), interpolation, fill)


def _color(img: Any, fill: Any) -> Any:
    """What Pillow fills with: a number for each band."""
    return (fill,) * len(img.getbands()) if isinstance(fill, numbers.Number) and len(img.getbands()) > 1 else fill


def _grown(matrix: Matrix, width: int, height: int) -> tuple[int, int]:
    """The width and height that hold the whole turned image."""
    x, y = 0.5 * width, 0.5 * height
    corners = np.array([[-x, -y, 1.0], [-x, y, 1.0], [x, y, 1.0], [x, -y, 1.0]])
    ends = corners @ np.reshape(matrix, (2, 3)).T + [x, y]
    tolerance = 1e-4  # a corner this near to a whole number is on it
    low, high = (np.trunc(each / tolerance) * tolerance for each in (ends.min(axis=0), ends.max(axis=0)))
    grown = np.ceil(high) - np.floor(low)
    return int(grown[0]), int(grown[1])


def _mapped(img: Any, matrix: Matrix, size: tuple[int, int], mode: str, fill: Any) -> Tensor:
    """Sample the image at the places that the matrix gives, measured from its middle."""
    dtype, shape = img.node.dtype, img.node.shape
    (out_width, out_height), (height, width) = size, shape[-2:]
    x = np.arange(out_width, dtype=np.float32) - np.float32(0.5 * (out_width - 1))
    y = np.arange(out_height, dtype=np.float32) - np.float32(0.5 * (out_height - 1))
    base = np.stack([*np.meshgrid(x, y), np.ones((out_height, out_width), np.float32)], axis=-1)
    halves = np.array([0.5 * width, 0.5 * height], np.float32)
    places = base @ (np.reshape(matrix, (2, 3)).astype(np.float32).T / halves)
    is_float = dtype.kind == "f"
    batch = wg.reshape(img if is_float else of(img, wg.float32), (-1, *shape[-3:]))
    grid = wg.broadcast_to(wg.tensor(places.astype(batch.node.dtype)), (batch.shape[0], *places.shape))
    made = wg.grid_sample(batch, grid, mode=mode, padding_mode="zeros", align_corners=False)
    if fill is not None and np.any(np.asarray(fill)):
        inside = wg.grid_sample(wg.ones_like(batch[:, :1]), grid, mode=mode, padding_mode="zeros", align_corners=False)
        color = wg.tensor(np.reshape(np.asarray(fill, batch.node.dtype), (1, -1, 1, 1)))
        made = wg.where(inside < 0.5, color, made) if mode == "nearest" else made * inside + (1.0 - inside) * color
    made = wg.reshape(made if is_float else wg.round(made), (*shape[:-2], out_height, out_width))
    return of(made, dtype)
