"""`torchvision.transforms`: what is done to images before they are learned from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.vision.transforms import functional
from wengert.torch.vision.transforms import functional as F
from wengert.torch.vision.transforms.base import Compose, _pair, _Plain, _Transform
from wengert.torch.vision.transforms.functional import InterpolationMode
from wengert.torch.vision.transforms.random import (
    ColorJitter,
    GaussianBlur,
    RandomAffine,
    RandomApply,
    RandomChoice,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomOrder,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
)


class ToTensor(_Plain):
    """An image or array (H, W, C) as a float32 tensor (C, H, W); bytes become numbers from 0 to 1."""

    def __call__(self, pic: Any) -> Any:
        return F.to_tensor(pic)


class PILToTensor(_Plain):
    """An image as a tensor of its numbers."""

    def __call__(self, pic: Any) -> Any:
        return F.pil_to_tensor(pic)


class ToPILImage(_Plain):
    """A tensor or array as an image."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)


class Lambda(_Plain):
    """A function of one's own."""

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)


class ConvertImageDtype(_Transform):
    """A tensor in another dtype, scaled to that one's range."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Any) -> Any:
        """The tensor in the dtype."""
        return F.convert_image_dtype(image, self.dtype)


class Normalize(_Transform):
    """`(x - mean) / std` a channel."""

    _shown = ("mean", "std")

    def __init__(self, mean: Any, std: Any, inplace: bool = False) -> None:
        super().__init__()
        self.mean, self.std, self.inplace = mean, std, inplace

    def forward(self, tensor: Any) -> Any:
        """The normalised tensor."""
        return F.normalize(tensor, self.mean, self.std, self.inplace)


class Resize(_Transform):
    """The image at another size: (height, width), or a number for the shorter side."""

    _shown = ("size", "interpolation", "max_size", "antialias")

    def __init__(
        self,
        size: Any,
        interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size, self.interpolation, self.max_size, self.antialias = size, interpolation, max_size, antialias

    def forward(self, img: Any) -> Any:
        """The resized image."""
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop(_Transform):
    """The rectangle in the middle."""

    _shown = ("size",)

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = _pair(size)

    def forward(self, img: Any) -> Any:
        """The rectangle."""
        return F.center_crop(img, self.size)


class Pad(_Transform):
    """The image with an edge."""

    _shown = ("padding", "fill", "padding_mode")

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> None:
        super().__init__()
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def forward(self, img: Any) -> Any:
        """The larger image."""
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class Grayscale(_Transform):
    """The image without its colours."""

    _shown = ("num_output_channels",)

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        """The grey image."""
        return F.rgb_to_grayscale(img, self.num_output_channels)


class FiveCrop(_Transform):
    """The four corners and the middle."""

    def __init__(self, size: Any) -> None:
        super().__init__()
        self.size = _pair(size)

    def forward(self, img: Any) -> tuple[Any, ...]:
        """Five images."""
        (width, height), (rows, columns) = F.get_image_size(img), self.size
        corners = [(top, left) for top in (0, height - rows) for left in (0, width - columns)]
        return (*[F.crop(img, *corner, rows, columns) for corner in corners], F.center_crop(img, self.size))


def __getattr__(name: str) -> Any:
    return _missing_attribute("torchvision.transforms", name)
