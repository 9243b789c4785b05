"""`torchvision.transforms.functional`: of Pillow's images and of tensors (..., C, H, W)."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np

import wengert as wg
from wengert.torch.tensor import Tensor, of
from wengert.torch.vision.images import as_image, as_tensor, is_image, pillow
from wengert.torch.vision.transforms import geometry
from wengert.torch.vision.transforms.geometry import rotated


class InterpolationMode(Enum):
    """How a resized image's points are found."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_PILLOW = {"nearest": 0, "nearest-exact": 0, "lanczos": 1, "bilinear": 2, "bicubic": 3, "box": 4, "hamming": 5}


def _pillow_mode(interpolation: Any) -> int:
    return interpolation if isinstance(interpolation, int) else _PILLOW[InterpolationMode(interpolation).value]


def to_tensor(pic: Any) -> Tensor:
    """An image or array (H, W, C) as a float32 tensor (C, H, W); bytes become numbers from 0 to 1."""
    if not is_image(pic) and not isinstance(pic, np.ndarray):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    made = as_tensor(pic)
    is_bytes = made.node.dtype == np.uint8
    return of(wg.divide(of(made, wg.float32), 255.0)) if is_bytes else made


def pil_to_tensor(pic: Any) -> Tensor:
    """An image as a tensor of its numbers."""
    return as_tensor(pic)


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor (C, H, W) or an array (H, W, C) as an image."""
    return as_image(pic, mode)


def convert_image_dtype(image: Any, dtype: Any = wg.float32) -> Tensor:
    """A tensor in another dtype, scaled to that one's range."""
    wanted, found = np.dtype(dtype), image.node.dtype
    if found.kind == wanted.kind == "f":
        return of(image, wanted)
    if found.kind in "iu" and wanted.kind == "f":
        return of(wg.divide(of(image, wanted), float(np.iinfo(found).max)))
    if found.kind == "f":
        return of(wg.multiply(image, float(np.iinfo(wanted).max) + 1 - 1e-3), wanted)
    factor = (int(np.iinfo(found).max) + 1) / (int(np.iinfo(wanted).max) + 1)
    return of(wg.floor(wg.divide(of(image, wg.float64), factor)), wanted)


def normalize(tensor: Any, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """`(x - mean) / std` a channel."""
    if tensor.node.dtype.kind not in "fV":
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    shape = (-1, 1, 1)
    centre, scale = (np.asarray(v, tensor.node.dtype).reshape(shape) for v in (mean, std))
    if (scale == 0).any():
        raise ValueError(f"std evaluated to zero after conversion to {tensor.dtype}, leading to division by zero.")
    result = of(wg.divide(wg.subtract(tensor, centre), scale))
    return tensor.copy_(result) if inplace else result


def get_image_size(img: Any) -> list[int]:
    """The width and the height."""
    return list(img.size) if is_image(img) else [img.node.shape[-1], img.node.shape[-2]]


def get_dimensions(img: Any) -> list[int]:
    """The channels, the height and the width."""
    if is_image(img):
        return [len(img.getbands()), img.height, img.width]
    return [img.node.shape[-3] if img.node.ndim > 2 else 1, *img.node.shape[-2:]]


def resized_to(found: Sequence[int], size: Any, max_size: int | None = None) -> tuple[int, int]:
    """The height and width that an image (width, height) is resized to."""
    width, height = found
    if not isinstance(size, int) and len(size) > 1:
        return int(size[0]), int(size[1])
    short = size if isinstance(size, int) else size[0]
    new = (short, int(short * width / height)) if height < width else (int(short * height / width), short)
    if max_size is not None and max(new) > max_size:
        scale = max_size / max(new)
        new = (int(new[0] * scale), int(new[1] * scale))
    return new


def resize(
    img: Any,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """The image at another size: (height, width), or a number for the shorter side."""
    new = resized_to(get_image_size(img), size, max_size)
    if is_image(img):
        return img.resize(new[::-1], _pillow_mode(interpolation))
    mode = InterpolationMode(interpolation).value
    batch = img if img.node.ndim == 4 else img[None]
    whole = of(batch, wg.float32) if batch.node.dtype.kind in "iub" else batch
    options = {} if mode.startswith("nearest") else {"align_corners": False, "antialias": bool(antialias)}
    made = of(wg.interpolate(whole, new, mode=mode, **options))
    if batch is not whole:
        made = of(wg.clip(wg.round(made), 0, 255), batch.node.dtype)
    return made if img.node.ndim == 4 else made[0]


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A rectangle of the image."""
    if is_image(img):
        return img.crop((left, top, left + width, top + height))
    return img[..., top : top + height, left : left + width]


def center_crop(img: Any, output_size: Any) -> Any:
    """The rectangle in the middle; what is outside the image is black."""
    rows, columns = (output_size, output_size) if isinstance(output_size, int) else (output_size * 2)[:2]
    width, height = get_image_size(img)
    if columns > width or rows > height:
        left, top = max(columns - width, 0) // 2, max(rows - height, 0) // 2
        right, bottom = max(columns - width + 1, 0) // 2, max(rows - height + 1, 0) // 2
        img = pad(img, [left, top, right, bottom])
        width, height = get_image_size(img)
    return crop(img, round((height - rows) / 2.0), round((width - columns) / 2.0), rows, columns)


def resized_crop(
    img: Any,
    top: int,
    left: int,
    height: int,
    width: int,
    size: Any,
    interpolation: Any = InterpolationMode.BILINEAR,
    antialias: bool | None = True,
) -> Any:
    """A rectangle of the image, at another size."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: Any) -> Any:
    """Left and right exchanged."""
    return img.transpose(0) if is_image(img) else of(wg.flip(img, axis=-1))


def vflip(img: Any) -> Any:
    """Top and bottom exchanged."""
    return img.transpose(1) if is_image(img) else of(wg.flip(img, axis=-2))


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """The image with an edge: a number, (left and right, top and bottom), or (left, top, right, bottom)."""
    sides = [padding] * 4 if isinstance(padding, numbers.Number) else list(padding)
    left, top, right, bottom = sides * (4 // len(sides)) if len(sides) < 4 else sides
    if is_image(img):
        array = np.asarray(img)
        ends = [(top, bottom), (left, right), *[(0, 0)] * (array.ndim - 2)]
        modes = {"constant": "constant", "edge": "edge", "reflect": "reflect", "symmetric": "symmetric"}
        if padding_mode == "constant":
            wide = np.full((array.shape[0] + top + bottom, array.shape[1] + left + right, *array.shape[2:]), fill)
            wide = wide.astype(array.dtype)
            wide[top : top + array.shape[0], left : left + array.shape[1]] = array
        else:
            wide = np.pad(array, ends, modes[padding_mode])  # type: ignore[call-overload]
        return pillow().fromarray(wide)
    if padding_mode == "constant":
        return of(wg.pad(img, (left, right, top, bottom), value=fill))
    mode = {"edge": "replicate", "reflect": "reflect"}[padding_mode]
    batch = img if img.node.ndim == 4 else img[None]
    made = of(wg.pad(batch, (left, right, top, bottom), mode=mode))
    return made if img.node.ndim == 4 else made[0]


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """The image without its colours."""
    if is_image(img):
        grey = img.convert("L")
        return grey if num_output_channels == 1 else pillow().merge("RGB", (grey, grey, grey))
    red, green, blue = (img[..., c, :, :] for c in range(3))
    made = wg.expand_dims(
        wg.add(wg.add(wg.multiply(red, 0.2989), wg.multiply(green, 0.587)), wg.multiply(blue, 0.114)), -3
    )
    made = of(made, img.node.dtype)
    return made if num_output_channels == 1 else of(wg.concat([made] * 3, axis=-3))


to_grayscale = rgb_to_grayscale


def rotate(
    img: Any,
    angle: float,
    interpolation: Any = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Any = None,
    fill: Any = None,
) -> Any:
    """The image turned counter-clockwise, by degrees."""
    if is_image(img):
        return img.rotate(angle, _pillow_mode(interpolation), expand, center, fillcolor=fill)
    return rotated(img, angle, InterpolationMode(interpolation).value, expand, center, fill)


def affine(
    img: Any,
    angle: float,
    translate: Any,
    scale: float,
    shear: Any,
    interpolation: Any = InterpolationMode.NEAREST,
    fill: Any = None,
    center: Any = None,
) -> Any:
    """The image turned clockwise by degrees, translated by points, scaled, and sheared by degrees."""
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    mode = _pillow_mode(interpolation) if is_image(img) else InterpolationMode(interpolation).value
    return geometry.affine(img, angle, translate, scale, shear, mode, fill, center)


def _enhanced(img: Any, other: Any, factor: float) -> Any:
    if is_image(img):
        return pillow().blend(other, img, factor)
    mixed = wg.add(wg.multiply(img, factor), wg.multiply(other, 1.0 - factor))
    bound = 1.0 if img.node.dtype.kind == "f" else 255.0
    return of(wg.clip(mixed, 0, bound), img.node.dtype)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """The image, brighter by a factor."""
    black = pillow().new(img.mode, img.size) if is_image(img) else wg.zeros_like(img)
    return _enhanced(img, black, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """The image with differences from its mean grey scaled by a factor."""
    if is_image(img):
        mean = int(np.asarray(img.convert("L")).mean() + 0.5)
        return _enhanced(img, pillow().new("L", img.size, mean).convert(img.mode), contrast_factor)
    grey = rgb_to_grayscale(img) if img.node.shape[-3] == 3 else img
    mean = wg.mean(of(grey, wg.float32), axis=(-3, -2, -1), keepdims=True)
    return _enhanced(img, mean, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """The image with differences from grey scaled by a factor."""
    if is_image(img):
        return _enhanced(img, img.convert("L").convert(img.mode), saturation_factor)
    return _enhanced(img, rgb_to_grayscale(img, 3), saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """The image with its hue moved by a share of the circle."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if not is_image(img):
        return img if img.node.shape[-3] == 1 else _hue_moved(img, hue_factor)
    if img.mode in ("L", "1", "I", "F"):
        return img
    hue, saturation, value = img.convert("HSV").split()
    moved = (np.asarray(hue).astype(np.int16) + int(hue_factor * 255)).astype(np.uint8)
    return pillow().merge("HSV", (pillow().fromarray(moved), saturation, value)).convert(img.mode)


def _hue_moved(img: Any, share: float) -> Tensor:
    """Tensors (..., 3, H, W) by way of hue, saturation and value, as fractions."""
    dtype = img.node.dtype
    image = convert_image_dtype(img) if dtype.kind in "iu" else img
    red, green, blue = (image[..., c, :, :] for c in range(3))
    top, low = wg.max(image, axis=-3), wg.min(image, axis=-3)
    spread = top - low
    divisor = wg.where(spread == 0, 1.0, spread)
    from_red, from_green, from_blue = ((top - each) / divisor for each in (red, green, blue))
    sector = wg.where(
        top == red,
        from_blue - from_green,
        wg.where(top == green, 2.0 + from_red - from_blue, 4.0 + from_green - from_red),
    )
    hue = (sector / 6.0 + 1.0 + share) % 1.0
    saturation = spread / wg.where(spread == 0, 1.0, top)
    made = wg.stack([_channel(hue, saturation, top, first) for first in (5.0, 3.0, 1.0)], axis=-3)
    return convert_image_dtype(of(made), dtype) if dtype.kind in "iu" else of(made, dtype)


def _channel(hue: Any, saturation: Any, value: Any, first: float) -> Any:
    """A colour's channel: `first` is 5 for red, 3 for green, 1 for blue, where the wheel of hues has 6 sectors."""
    k = (hue * 6.0 + first) % 6.0
    return value * (1.0 - saturation * wg.clip(wg.minimum(k, 4.0 - k), 0.0, 1.0))


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """The tensor with a rectangle filled."""
    made = img if inplace else img.clone()
    made[..., i : i + h, j : j + w] = v
    return made


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """The image blurred by a Gaussian."""
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    given = [size * 0.15 + 0.35 for size in sizes] if sigma is None else sigma
    widths = [given] * 2 if isinstance(given, (int, float)) else (list(given) * 2)[:2]
    planes = of(as_tensor(img), wg.float32) if is_image(img) else of(img, wg.float32)
    weight = None
    for size, width in zip(sizes, widths):
        x = np.linspace(-(size - 1) / 2, (size - 1) / 2, size)
        line = np.exp(-0.5 * (x / width) ** 2)
        line /= line.sum()
        weight = line if weight is None else np.outer(line, weight)
    kernel = wg.tensor(np.asarray(weight, np.float32)[None, None])
    batch = wg.reshape(planes, (-1, 1, *planes.node.shape[-2:]))
    edge = (sizes[0] // 2, sizes[0] // 2, sizes[1] // 2, sizes[1] // 2)
    made = of(wg.reshape(wg.conv2d(wg.pad(batch, edge, mode="reflect"), kernel), planes.node.shape))
    if is_image(img):
        return as_image(of(wg.round(made), wg.uint8))
    return of(wg.round(made), img.node.dtype) if img.node.dtype.kind in "iu" else made
