"""Transforms that draw: each call another crop, flip, rotation or change of colours, by `torch`'s random numbers."""

from __future__ import annotations

import math
import numbers
import random
from typing import Any

import wengert as wg
from wengert.torch.random import randint, randn, randperm
from wengert.torch.tensor import of
from wengert.torch.vision.transforms import functional as F
from wengert.torch.vision.transforms.base import Compose, _pair, _Plain, _Transform
from wengert.torch.vision.transforms.functional import InterpolationMode


def _uniform(low: float = 0.0, high: float = 1.0) -> float:
    return float(of(wg.zeros(1)).uniform_(low, high).item())


def _integer(low: int, high: int) -> int:
    """A number from `low` up to, not including, `high`."""
    return int(randint(low, high, (1,)).item())


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
        self.degrees = _both_ways(degrees)
        self.interpolation, self.expand, self.center, self.fill = interpolation, expand, center, fill

    def forward(self, img: Any) -> Any:
        """The turned image."""
        return F.rotate(img, _uniform(*self.degrees), self.interpolation, self.expand, self.center, self.fill)


class RandomAffine(_Transform):
    """The image turned, moved, scaled and sheared at random, its middle kept."""

    _shown = ("degrees", "translate", "scale", "shear")

    def __init__(
        self,
        degrees: Any,
        translate: Any = None,
        scale: Any = None,
        shear: Any = None,
        interpolation: Any = InterpolationMode.NEAREST,
        fill: Any = 0,
        center: Any = None,
    ) -> None:
        super().__init__()
        self.degrees = _both_ways(degrees)
        self.translate, self.scale, self.shear = translate, scale, None if shear is None else _both_ways(shear)
        self.interpolation, self.fill, self.center = interpolation, fill, center

    def forward(self, img: Any) -> Any:
        """The mapped image."""
        size = F.get_image_size(img)
        angle, moved, scale, shear = self.get_params(self.degrees, self.translate, self.scale, self.shear, size)
        return F.affine(img, angle, moved, scale, shear, self.interpolation, self.fill, self.center)

    @staticmethod
    def get_params(degrees: Any, translate: Any, scale_ranges: Any, shears: Any, img_size: Any) -> tuple[Any, ...]:
        """An angle, a translation, a scale and two shears."""
        angle, moved, scale, shear = _uniform(*degrees), (0, 0), 1.0, [0.0, 0.0]
        if translate is not None:
            moved = tuple(round(_uniform(-t * n, t * n)) for t, n in zip(translate, img_size))  # type: ignore[assignment]
        if scale_ranges is not None:
            scale = _uniform(*scale_ranges)
        if shears is not None:
            shear = [_uniform(*shears[i : i + 2]) if len(shears) > i else 0.0 for i in (0, 2)]
        return angle, moved, scale, shear


def _both_ways(degrees: Any) -> tuple[float, ...]:
    """A range of angles: from -x to x for a number."""
    return (-degrees, degrees) if isinstance(degrees, numbers.Number) else tuple(degrees)  # type: ignore


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
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        changes = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for i in order.tolist():
            if factors[i] is not None:
                img = changes[i](img, factors[i])
        return img

    @staticmethod
    def get_params(brightness: Any, contrast: Any, saturation: Any, hue: Any) -> tuple[Any, ...]:
        """The order of the four changes, and a factor for each or None."""
        ranges = (brightness, contrast, saturation, hue)
        return (randperm(4), *(None if each is None else _uniform(*each) for each in ranges))


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
                    value = randn(channels, h, w)
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
