"""`torchvision` through Wengert: data sets from files of their form, transforms, grids, models' shapes and names."""

import gzip
import pickle
import struct

import numpy as np
import pytest

import wengert.torch as torch
from wengert.torch.vision import datasets, models, transforms, utils
from wengert.torch.vision.transforms import functional as F

Image = pytest.importorskip("PIL.Image")


@pytest.fixture
def mnist(tmp_path):
    """A folder with the files of MNIST, as torchvision lays them: five images to train on, three to test."""
    raw = tmp_path / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part, count in (("train", 5), ("t10k", 3)):
        images = rng.integers(0, 256, (count, 28, 28), np.uint8)
        labels = rng.integers(0, 10, count, np.uint8)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(
            struct.pack(">HBB3I", 0, 8, 3, count, 28, 28) + images.tobytes()
        )
        packed = gzip.compress(struct.pack(">HBBI", 0, 8, 1, count) + labels.tobytes())
        (raw / f"{part}-labels-idx1-ubyte.gz").write_bytes(packed)
    return tmp_path


def test_mnist(mnist):
    data = datasets.MNIST(mnist, train=False, transform=transforms.ToTensor())
    image, label = data[1]
    assert len(data) == 3 and image.shape == (1, 28, 28) and isinstance(label, int)
    assert image.max() <= 1 and (image[0] * 255).round().to(torch.uint8).equal(data.data[1])
    with pytest.raises(RuntimeError, match="download=True"):
        datasets.FashionMNIST(mnist)


def test_cifar_reads_numbers_and_no_other_objects(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    batch = {"data": np.arange(2 * 3072).reshape(2, 3072).astype(np.uint8), "labels": [3, 7]}
    for name in (*datasets.CIFAR10.train_files, *datasets.CIFAR10.test_files):
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": list("abcdefghij")}))
    data = datasets.CIFAR10(tmp_path, train=False)
    assert data[1][1] == 7 and np.asarray(data[0][0]).shape == (32, 32, 3) and data.class_to_idx["c"] == 2
    (folder / "test_batch").write_bytes(pickle.dumps(print))
    with pytest.raises(pickle.UnpicklingError, match="print"):
        datasets.CIFAR10(tmp_path, train=False)


def test_a_folder_of_images(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (6, 4), (255, 0, 0)).save(tmp_path / name / "one.png")
    data = datasets.ImageFolder(tmp_path, transform=transforms.ToTensor())
    assert data.classes == ["cat", "dog"] and data[1][1] == 1 and data[0][0].shape == (3, 4, 6)


def _image(height=8, width=10):
    return Image.fromarray(np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8))


@pytest.mark.parametrize("as_tensor", [False, True])
def test_transforms_of_images_and_tensors(as_tensor):
    image = _image()
    given = transforms.ToTensor()(image) if as_tensor else image
    size = F.get_image_size
    assert size(transforms.Resize(4)(given)) == [5, 4]
    assert size(transforms.Resize((4, 6))(given)) == [6, 4]
    assert size(transforms.CenterCrop(6)(given)) == [6, 6]
    assert size(transforms.CenterCrop(12)(given)) == [12, 12]
    assert size(transforms.RandomCrop(8, padding=2)(given)) == [8, 8]
    assert size(transforms.RandomResizedCrop(5)(given)) == [5, 5]
    assert size(transforms.Pad((1, 2))(given)) == [12, 12]
    assert F.get_dimensions(transforms.Grayscale()(given))[0] == 1
    flipped = transforms.RandomHorizontalFlip(p=1.0)(given)
    pixels = [np.asarray(x if as_tensor else F.to_tensor(x)) for x in (given, flipped)]
    np.testing.assert_array_equal(pixels[0][:, :, ::-1], pixels[1])
    jitter = transforms.ColorJitter(0.2, 0.2, 0.2, 0.1)(given)
    assert size(jitter) == [10, 8]


def test_to_tensor_normalize_and_back():
    image = _image()
    x = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5, 0.4, 0.3), (0.2, 0.3, 0.4))])(image)
    expected = (np.asarray(image).transpose(2, 0, 1) / 255 - np.array([0.5, 0.4, 0.3])[:, None, None]) / np.array(
        [0.2, 0.3, 0.4]
    )[:, None, None]
    np.testing.assert_allclose(x.numpy(), expected, atol=1e-6)
    assert np.array_equal(np.asarray(transforms.ToPILImage()(transforms.ToTensor()(image))), np.asarray(image))
    with pytest.raises(TypeError, match="float tensor"):
        F.normalize(torch.zeros(3, 2, 2, dtype=torch.uint8), [0.5], [0.5])


def test_a_grid_of_images(tmp_path):
    images = torch.arange(5 * 3 * 4 * 4).reshape(5, 3, 4, 4).float() / 240
    grid = utils.make_grid(images, nrow=3)
    assert grid.shape == (3, 2 * 6 + 2, 3 * 6 + 2)
    assert grid[:, 2:6, 2:6].equal(images[0]) and grid[:, 8:12, 8:12].equal(images[4])
    utils.save_image(images, tmp_path / "grid.png", normalize=True)
    assert Image.open(tmp_path / "grid.png").size == (5 * 6 + 2, 6 + 2)


def test_models_have_torchvisions_parts():
    model = models.resnet18(num_classes=5)
    names = [name for name, _ in model.named_children()]
    assert names == ["conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3", "layer4", "avgpool", "fc"]
    assert len(model.state_dict()) == 122 and "layer4.1.bn2.num_batches_tracked" in model.state_dict()
    with torch.no_grad():
        assert model.eval()(torch.zeros(1, 3, 32, 32)).shape == (1, 5)
    assert sum(1 for _ in models.vgg11_bn(num_classes=2, init_weights=False).features.children()) == 29
    with pytest.raises(RuntimeError, match="downloads are not supported"):
        models.resnet18(weights="DEFAULT")
