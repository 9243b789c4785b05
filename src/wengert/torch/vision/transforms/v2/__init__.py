"""`torchvision.transforms.v2`: the transforms of images under their later names. Each takes one image."""

from __future__ import annotations

from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.vision import transforms as _transforms
from wengert.torch.vision.images import is_image
from wengert.torch.vision.transforms import (
    CenterCrop,
    ColorJitter,
    Compose,
    FiveCrop,
    GaussianBlur,
    Grayscale,
    InterpolationMode,
    Lambda,
    Normalize,
    Pad,
    PILToTensor,
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
    ToPILImage,
    ToTensor,
)
from wengert.torch.vision.transforms.base import _Plain, _Transform
from wengert.torch.vision.transforms.v2 import functional as functional


class ToImage(_Plain):
    """An image or array as a tensor of its numbers."""

    def __call__(self, inpt: Any) -> Any:
        """The tensor, (C, H, W)."""
        return functional.to_image(inpt)


class ToDtype(_Transform):
    """A tensor in another dtype; with `scale`, scaled to that one's range."""

    _shown = ("dtype", "scale")

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__()
        self.dtype, self.scale = dtype, scale

    def forward(self, inpt: Any) -> Any:
        """The tensor; images of Pillow's stay as they are."""
        return inpt if is_image(inpt) else functional.to_dtype(inpt, self.dtype, self.scale)


class Resize(_transforms.Resize):
    """The image at another size: (height, width), or a number for the shorter side."""

    def forward(self, img: Any) -> Any:
        """The resized image."""
        return functional.resize(img, self.size, self.interpolation, self.max_size, self.antialias)


class ToPureTensor(_Plain):
    """The tensor itself: no tensor here is of a class of torchvision's."""

    def __call__(self, inpt: Any) -> Any:
        """The tensor."""
        return inpt


class RGB(_Plain):
    """An image in grey as one of three equal channels; one in colours stays as it is."""

    def __call__(self, inpt: Any) -> Any:
        """The image."""
        return functional.grayscale_to_rgb(inpt)


class Identity(ToPureTensor):
    """The image as it is."""


def __getattr__(name: str) -> Any:
    return _missing_attribute("torchvision.transforms.v2", name)
