"""Augmentation: transforms of batches of images (N, channels, height, width) and labels, all random choices from `rng`.

Each takes a batch whose first array holds the images, and gives the batch with others in their place. `by_row` says
that it treats each image by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from wengert.core.errors import ArgumentError, ShapeError
from wengert.data.dataset import Array, Batch


@dataclass(frozen=True)
class Crop:
    """Each image moved by up to `padding` pixels, zeros coming in at the edges: a crop of the padded image.

    >>> import numpy as np, wengert as wg
    >>> images, = wg.data.Crop(1)((np.ones((1, 1, 3, 3)),), np.random.default_rng(0))
    >>> images.shape
    (1, 1, 3, 3)
    """

    padding: int

    by_row = True

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        images = _images("Crop", batch)
        n, _, height, width = images.shape
        p = self.padding
        padded = np.pad(images, ((0, 0), (0, 0), (p, p), (p, p)))
        windows = sliding_window_view(padded, (height, width), axis=(2, 3))
        y, x = rng.integers(0, 2 * p + 1, (n, 2)).T
        return windows[np.arange(n), :, y, x], *batch[1:]


@dataclass(frozen=True)
class Flip:
    """Each image mirrored, left to right, with probability one half.

    >>> import numpy as np, wengert as wg
    >>> (images,) = wg.data.Flip()((np.ones((4, 1, 2, 2)),), np.random.default_rng(0))
    >>> images.shape
    (4, 1, 2, 2)
    """

    by_row = True

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        images = _images("Flip", batch)
        flipped = np.flatnonzero(rng.random(len(images)) < 0.5)
        turned = images.copy()
        turned[flipped] = images[flipped, :, :, ::-1]
        return turned, *batch[1:]


@dataclass(frozen=True)
class Cutout:
    """A square of `size` pixels of each image set to 0, at a random place (DeVries and Taylor, 2017).

    >>> import numpy as np, wengert as wg
    >>> (images,) = wg.data.Cutout(2)((np.ones((1, 1, 8, 8)),), np.random.default_rng(0))
    >>> images.shape
    (1, 1, 8, 8)
    """

    size: int

    by_row = True

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        images = _images("Cutout", batch)
        n, _, height, width = images.shape
        y, x = (rng.integers((0, 0), (height, width), (n, 2)) - self.size // 2).T[:, :, None]
        rows, columns = np.arange(height), np.arange(width)
        in_rows = (rows >= y) & (rows < y + self.size)
        in_columns = (columns >= x) & (columns < x + self.size)
        kept = ~(in_rows[:, None, :, None] & in_columns[:, None, None, :])
        return images * kept, *batch[1:]


@dataclass(frozen=True)
class Normalize:
    """Pixels as float32, from [0, `top`] to (x / top - mean) / std, with a mean and a std for each channel.

    >>> import numpy as np, wengert as wg
    >>> images, = wg.data.Normalize([0.5], [0.5])((np.full((1, 1, 1, 2), 255, np.uint8),), None)
    >>> images.tolist()
    [[[[1.0, 1.0]]]]
    """

    mean: Sequence[float]
    std: Sequence[float]
    top: float = 255.0

    by_row = True

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        images = _images("Normalize", batch)
        if len(self.mean) != images.shape[1] or len(self.std) != images.shape[1]:
            raise ShapeError(
                f"Normalize: {len(self.mean)} means and {len(self.std)} stds for images of {images.shape[1]} channels"
            )
        std = np.asarray(self.std, np.float32)
        scale = 1 / (self.top * std)
        shift = -np.asarray(self.mean, np.float32) / std
        moved = images.astype(np.float32)
        moved *= scale.astype(np.float32)[:, None, None]
        moved += shift[:, None, None]
        return moved, *batch[1:]


@dataclass(frozen=True)
class Mixup:
    """Images and labels mixed in pairs: l x + (1 - l) x' with l from Beta(alpha, alpha) (Zhang et al., 2018).

    The labels become probabilities, float32 (N, classes), which `wg.cross_entropy` takes.

    >>> import numpy as np, wengert as wg
    >>> images, labels = np.ones((4, 1, 2, 2), np.float32), np.array([0, 1, 2, 0])
    >>> images, shares = wg.data.Mixup(0.2, classes=3)((images, labels), np.random.default_rng(0))
    >>> shares.shape
    (4, 3)
    """

    alpha: float
    classes: int

    def __post_init__(self) -> None:
        if self.alpha <= 0:
            raise ArgumentError(f"Mixup: alpha is above 0, not {self.alpha}")

    def __call__(self, batch: Batch, rng: np.random.Generator) -> Batch:
        images, labels = batch
        share = np.float32(rng.beta(self.alpha, self.alpha))
        other = rng.permutation(len(images))
        targets = np.eye(self.classes, dtype=np.float32)[labels]
        return share * images + (1 - share) * images[other], share * targets + (1 - share) * targets[other]


def _images(name: str, batch: Batch) -> Array:
    if batch[0].ndim != 4:
        raise ShapeError(f"{name}: images are (N, channels, height, width); these are {batch[0].shape}")
    return batch[0]
