"""Transforms that draw: each call another crop, flip, rotation or change of colours, by `torch`'s random numbers."""

from __future__ import annotations

import math
import numbers
import random
from typing import Any

import wengert as wg
from wengert.torch.tensor import of
from wengert.torch.vision.transforms import functional as F
from wengert.torch.vision.transforms.base import Compose, _pair, _Plain, _Transform
from wengert.torch.vision.transforms.functional import InterpolationMode


def _uniform(low: float = 0.0, high: float = 1.0) -> float:
    return low + (high - low) * float(wg.random.uniform(()).item())


def _integer(low: int, high: int) -> int:
    """A number from `low` up to, not including, `high`."""
    return int(wg.random.randint(low, high).item())


class RandomCrop(_Transform):
    """A rectangle of the image, drawn anew each time."""

    _shown = ("size", "padding")

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size, self.padding, self.pad_if_needed = _pair(size), padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    def forward(self, img: Any) -> Any:
        """The rectangle."""
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        (width, height), (rows, columns) = F.get_image_size(img), self.size
        if self.pad_if_needed and width < columns:
            img = F.pad(img, [columns - width, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and height < rows:
            img = F.pad(img, [0, rows - height], self.fill, self.padding_mode)
        width, height = F.get_image_size(img)
        if height < rows or width < columns:
            raise ValueError(f"Required crop size {self.size} is larger than input image size {(height, width)}")
        if (height, width) == self.size:
            return img
        return F.crop(img, _integer(0, height - rows + 1), _integer(0, width - columns + 1), rows, columns)


class RandomHorizontalFlip(_Transform):
    """Left and right exchanged, with a probability."""

    _shown = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        """The image, or its mirror image."""
        return F.hflip(img) if _uniform() < self.p else img


class RandomVerticalFlip(RandomHorizontalFlip):
    """Top and bottom exchanged, with a probability."""

    def forward(self, img: Any) -> Any:
        """The image, or its mirror image."""
        return F.vflip(img) if _uniform() < self.p else img


class RandomResizedCrop(_Transform):
    """A rectangle of random size and shape, resized."""

    _shown = ("size", "scale", "ratio", "interpolation")

    def __init__(
        self,
        size: Any,
        scale: Any = (0.08, 1.0),
        ratio: Any = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size, self.scale, self.ratio = _pair(size), scale, ratio
        self.interpolation, self.antialias = interpolation, antialias

    def forward(self, img: Any) -> Any:
        """The rectangle at the size."""
        place = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, *place, self.size, self.interpolation, self.antialias)

    @staticmethod
    def get_params(img: Any, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
        """The top, left, height and width of a rectangle."""
        width, height = F.get_image_size(img)
        for _ in range(10):
            area = height * width * _uniform(*scale)
            aspect = math.exp(_uniform(math.log(ratio[0]), math.log(ratio[1])))
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return _integer(0, height - h + 1), _integer(0, width - w + 1), h, w
        whole = width / height
        w, h = width, height
        if whole < min(ratio):
            h = round(w / min(ratio))
        elif whole > max(ratio):
            w = round(h * max(ratio))
        return (height - h) // 2, (width - w) // 2, h, w


class RandomRotation(_Transform):
    """The image turned by an angle within degrees."""

    _shown = ("degrees",)

    def __init__(
        self,
        degrees: Any,
        interpolation: Any = InterpolationMode.NEAREST,
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees = (-degrees, degrees) if isinstance(degrees, numbers.Number) else tuple(degrees)  # type: ignore
        self.interpolation, self.expand, self.center, self.fill = interpolation, expand, center, fill

    def forward(self, img: Any) -> Any:
        """The turned image."""
        return F.rotate(img, _uniform(*self.degrees), self.interpolation, self.expand, self.center, self.fill)


class RandomGrayscale(_Transform):
    """The image without its colours, with a probability; it keeps its channels."""

    _shown = ("p",)

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        """The image, or the grey one."""
        return F.rgb_to_grayscale(img, F.get_dimensions(img)[0]) if _uniform() < self.p else img


class ColorJitter(_Transform):
    """Brightness, contrast, saturation and hue changed at random, in random order."""

    _shown = ("brightness", "contrast", "saturation", "hue")

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0) -> None:
        super().__init__()
        self.brightness = self._range(brightness, 1.0)
        self.contrast = self._range(contrast, 1.0)
        self.saturation = self._range(saturation, 1.0)
        self.hue = self._range(hue, 0.0)

    @staticmethod
    def _range(value: Any, centre: float) -> tuple[float, float] | None:
        if isinstance(value, numbers.Number):
            low = centre - value  # type: ignore[operator]
            found = (max(low, 0.0) if centre else low, centre + value)  # type: ignore[operator]
        else:
            found = (float(value[0]), float(value[1]))
        return None if found[0] == found[1] == centre else found

    def forward(self, img: Any) -> Any:
        """The changed image."""
        changes = [
            (F.adjust_brightness, self.brightness),
            (F.adjust_contrast, self.contrast),
            (F.adjust_saturation, self.saturation),
            (F.adjust_hue, self.hue),
        ]
        for i in wg.random.permutation(4).tolist():
            change, bounds = changes[i]
            if bounds is not None:
                img = change(img, _uniform(*bounds))
        return img


class RandomErasing(_Transform):
    """A rectangle of a tensor filled, with a probability."""

    def __init__(
        self,
        p: float = 0.5,
        scale: Any = (0.02, 0.33),
        ratio: Any = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        self.p, self.scale, self.ratio, self.value, self.inplace = p, scale, ratio, value, inplace

    def forward(self, img: Any) -> Any:
        """The tensor, or the one with a rectangle filled."""
        if _uniform() >= self.p:
            return img
        channels, height, width = img.node.shape[-3:]
        for _ in range(10):
            area = height * width * _uniform(*self.scale)
            aspect = math.exp(_uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if h < height and w < width:
                value = self.value
                if value == "random":
                    value = of(wg.random.normal((channels, h, w)))
                top, left = _integer(0, height - h + 1), _integer(0, width - w + 1)
                return F.erase(img, top, left, h, w, value, self.inplace)
        return img


class GaussianBlur(_Transform):
    """The image blurred by a Gaussian of random width."""

    _shown = ("kernel_size", "sigma")

    def __init__(self, kernel_size: Any, sigma: Any = (0.1, 2.0)) -> None:
        super().__init__()
        self.kernel_size = list(_pair(kernel_size))
        self.sigma = (sigma, sigma) if isinstance(sigma, numbers.Number) else sigma

    def forward(self, img: Any) -> Any:
        """The blurred image."""
        return F.gaussian_blur(img, self.kernel_size, _uniform(*self.sigma))


class RandomApply(_Transform):
    """Transforms that are carried out with a probability."""

    def __init__(self, transforms: Any, p: float = 0.5) -> None:
        super().__init__()
        self.transforms, self.p = transforms, p

    def forward(self, img: Any) -> Any:
        """The image, or what the transforms make of it."""
        return Compose(self.transforms)(img) if _uniform() < self.p else img


class RandomChoice(_Plain):
    """One of several transforms."""

    def __init__(self, transforms: Any, p: Any = None) -> None:
        self.transforms, self.p = transforms, p

    def __call__(self, *args: Any) -> Any:
        return random.choices(self.transforms, weights=self.p)[0](*args)


class RandomOrder(RandomChoice):
    """Several transforms, in random order."""

    def __call__(self, img: Any) -> Any:
        order = list(range(len(self.transforms)))
        random.shuffle(order)
        return Compose([self.transforms[i] for i in order])(img)
