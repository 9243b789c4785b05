"""The bundled handwritten digits: small enough to carry along, hard enough to learn something from.

Reads `digits.npz` beside this file (where it comes from: `DIGITS.md`) and gives NumPy arrays, ready to train on.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np

TRAINING_IMAGES = 1437
"""The stored images are already shuffled: this many are for training, the remaining 360 for testing."""

BRIGHTEST_PIXEL = 16
"""A stored pixel counts the dots that are on in a 4x4 block."""


def load_digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return `(train_images, train_labels, test_images, test_labels)`.

    Images are float32 rows of 64 pixels from 0 (paper) to 1 (ink), labels int64 from 0 to 9.
    The split is the same every time.

    >>> train_images, train_labels, test_images, test_labels = load_digits()
    >>> train_images.shape, test_images.shape
    ((1437, 64), (360, 64))
    >>> for row in train_images[1].reshape(8, 8):
    ...     print("".join(".-+#"[int(3.99 * ink)] for ink in row))
    ..###...
    .##-#-..
    .+..#...
    ...+##-.
    ..###-..
    ..+#....
    ..++....
    ..#.....
    >>> int(train_labels[1])
    7
    """
    with files(__package__).joinpath("digits.npz").open("rb") as file, np.load(file) as stored:
        images = stored["images"].astype(np.float32) / BRIGHTEST_PIXEL
        labels = stored["labels"].astype(np.int64)
    return images[:TRAINING_IMAGES], labels[:TRAINING_IMAGES], images[TRAINING_IMAGES:], labels[TRAINING_IMAGES:]
