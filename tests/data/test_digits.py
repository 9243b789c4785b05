"""The bundled digits: shapes, ranges, a split that never moves, and images that look like their labels."""

import numpy as np

from wengert.data import load_digits


def test_shapes_dtypes_and_ranges():
    train_images, train_labels, test_images, test_labels = load_digits()
    assert train_images.shape == (1437, 64) and test_images.shape == (360, 64)
    assert train_labels.shape == (1437,) and test_labels.shape == (360,)
    for images in (train_images, test_images):
        assert images.dtype == np.float32
        assert images.min() == 0.0 and images.max() == 1.0
    for labels in (train_labels, test_labels):
        assert labels.dtype == np.int64
        assert set(labels.tolist()) == set(range(10))


def test_the_whole_data_set_is_there():
    _, train_labels, _, test_labels = load_digits()
    per_digit = np.bincount(np.concatenate([train_labels, test_labels]))
    assert per_digit.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_the_split_is_fixed():
    _, train_labels, _, test_labels = load_digits()
    assert train_labels[:8].tolist() == [8, 7, 1, 3, 1, 3, 9, 8]
    assert test_labels[:8].tolist() == [9, 2, 2, 1, 9, 1, 6, 9]


def test_no_image_is_in_both_halves():
    train_images, _, test_images, _ = load_digits()
    train = {image.tobytes() for image in train_images}
    assert not any(image.tobytes() in train for image in test_images)


def test_each_call_gives_arrays_of_its_own():
    load_digits()[0][:] = 0.0
    assert load_digits()[0].max() == 1.0


def test_images_and_labels_belong_together():
    """The nearest training image has the same label for nearly every test image, as is known of this data set."""
    train_images, train_labels, test_images, test_labels = load_digits()
    distances = (train_images**2).sum(1) - 2 * test_images @ train_images.T
    assert np.mean(train_labels[distances.argmin(axis=1)] == test_labels) > 0.97
