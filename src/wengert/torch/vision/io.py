"""`torchvision.io`: image files as tensors of bytes, (C, H, W), by Pillow."""

from __future__ import annotations

import io
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.tensor import Tensor, of
from wengert.torch.vision.images import as_image, as_tensor, pillow


class ImageReadMode(Enum):
    """The channels to read."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


_PILLOW = {"GRAY": "L", "GRAY_ALPHA": "LA", "RGB": "RGB", "RGB_ALPHA": "RGBA"}


def read_file(path: str) -> Tensor:
    """The bytes of a file."""
    return of(wg.tensor(np.frombuffer(Path(path).read_bytes(), np.uint8).copy()))


def write_file(filename: str, data: Any) -> None:
    """A tensor of bytes as a file."""
    Path(filename).write_bytes(data.cpu().numpy().tobytes())


def decode_image(input: Any, mode: Any = ImageReadMode.UNCHANGED, **options: Any) -> Tensor:
    """The image in a file's bytes, or at a path."""
    source = input if isinstance(input, (str, Path)) else io.BytesIO(input.cpu().numpy().tobytes())
    image = pillow().open(source)
    wanted = (ImageReadMode[mode] if isinstance(mode, str) else mode).name
    return as_tensor(image if wanted == "UNCHANGED" else image.convert(_PILLOW[wanted]))


decode_png = decode_jpeg = decode_image


def read_image(path: str, mode: Any = ImageReadMode.UNCHANGED, **options: Any) -> Tensor:
    """The image in a file."""
    return decode_image(path, mode)


def write_png(input: Any, filename: str, compression_level: int = 6) -> None:
    """A tensor of bytes (C, H, W) as a PNG file."""
    as_image(input).save(filename, "PNG", compress_level=compression_level)


def write_jpeg(input: Any, filename: str, quality: int = 75) -> None:
    """A tensor of bytes (C, H, W) as a JPEG file."""
    as_image(input).save(filename, "JPEG", quality=quality)


def __getattr__(name: str) -> Any:
    return _missing_attribute("torchvision.io", name)
