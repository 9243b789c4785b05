"""Augmentation: what each transform does to the pixels and the labels."""

from __future__ import annotations

import numpy as np
import pytest

from wengert.core.errors import ShapeError
from wengert.data import Crop, Cutout, Flip, Mixup, Normalize

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(1, 256, (200, 3, 8, 6)).astype(np.uint8)
LABELS = RNG.integers(0, 10, 200)


def test_crop_moves_images_by_up_to_the_padding():
    images, labels = Crop(2)((IMAGES, LABELS), np.random.default_rng(1))
    assert images.shape == IMAGES.shape and images.dtype == np.uint8 and labels is LABELS
    padded = np.pad(IMAGES, ((0, 0), (0, 0), (2, 2), (2, 2)))
    windows = {(y, x): padded[:, :, y : y + 8, x : x + 6] for y in range(5) for x in range(5)}
    places = [next(place for place, w in windows.items() if (w[i] == images[i]).all()) for i in range(len(images))]
    assert len(set(places)) == 25


def test_flip_mirrors_half_of_the_images():
    images, _ = Flip()((IMAGES, LABELS), np.random.default_rng(1))
    flipped = (images == IMAGES[..., ::-1]).all((1, 2, 3))
    assert 70 < flipped.sum() < 130 and (images[~flipped] == IMAGES[~flipped]).all()


def test_cutout_clears_a_square():
    images, _ = Cutout(4)((IMAGES, LABELS), np.random.default_rng(1))
    cleared = (images == 0).all(1)
    assert (images[:, 0][~cleared] == IMAGES[:, 0][~cleared]).all()
    assert cleared.sum((1, 2)).max() == 16 and cleared.sum((1, 2)).min() >= 4
    assert (IMAGES > 0).all()  # the originals stay


def test_normalize_gives_each_channel_its_mean_and_std():
    mean, std = (0.1, 0.2, 0.3), (0.5, 1.0, 2.0)
    images, _ = Normalize(mean, std)((IMAGES, LABELS), RNG)
    expected = (IMAGES / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    assert images.dtype == np.float32
    np.testing.assert_allclose(images, expected, atol=1e-5)
    with pytest.raises(ShapeError, match="1 means and 1 stds for images of 3 channels"):
        Normalize([0.0], [1.0])((IMAGES, LABELS), RNG)


def test_mixup_mixes_images_and_labels_alike():
    images = np.eye(10, dtype=np.float32)[LABELS][:, None, None]  # whose pixels are their labels
    mixed, targets = Mixup(0.5, 10)((images, LABELS), np.random.default_rng(2))
    assert targets.dtype == np.float32 and targets.shape == (200, 10)
    np.testing.assert_allclose(targets.sum(1), 1, rtol=1e-6)
    np.testing.assert_allclose(mixed[:, 0, 0], targets, rtol=1e-6)
    assert (targets.max(1) < 1).sum() > 0


@pytest.mark.parametrize("transform", [Crop(1), Flip(), Cutout(2), Normalize([0.0], [1.0])])
def test_rows_of_pixels_are_refused(transform):
    with pytest.raises(ShapeError, match=r"images must be \(N, channels, height, width\); these are \(5, 64\)"):
        transform((np.zeros((5, 64)),), RNG)
