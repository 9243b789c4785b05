"""`torchvision.datasets`: from the files where torchvision keeps them, or lays them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.data import mnist as _mnist
from wengert.data.files import download as _download
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.tensor import Tensor
from wengert.torch.vision.images import pillow

_IMAGES = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


class VisionDataset:
    """A data set of images, with transforms of images and targets."""

    def __init__(
        self,
        root: Any = None,
        transforms: Callable[..., Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.root = os.path.expanduser(root) if isinstance(root, str) else root
        self.transform, self.target_transform, self.transforms = transform, target_transform, transforms

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} defines no __len__")

    def _pair(self, image: Any, target: Any) -> tuple[Any, Any]:
        if self.transforms is not None:
            made: tuple[Any, Any] = self.transforms(image, target)
            return made
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def __repr__(self) -> str:
        return f"Dataset {type(self).__name__}\n    Number of datapoints: {len(self)}\n    Root location: {self.root}"


class MNIST(VisionDataset):
    """Handwritten digits, 28 x 28: 60,000 to train on and 10,000 to test."""

    _published = _mnist.MNIST
    classes: tuple[str, ...] = (
        *("0 - zero", "1 - one", "2 - two", "3 - three", "4 - four"),
        *("5 - five", "6 - six", "7 - seven", "8 - eight", "9 - nine"),
    )

    def __init__(
        self,
        root: Any,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, None, transform, target_transform)
        self.train = train
        part = "train" if train else "t10k"
        images, labels = (self._read(f"{part}-{kind}", download) for kind in ("images-idx3-ubyte", "labels-idx1-ubyte"))
        self.data = Tensor(wg.tensor(images).node)
        self.targets = Tensor(wg.tensor(labels.astype(np.int64)).node)
        self._images, self._labels = images, labels

    @property
    def raw_folder(self) -> str:
        """Where the files are."""
        return os.path.join(str(self.root), type(self).__name__, "raw")

    def _read(self, name: str, download: bool) -> np.ndarray[Any, Any]:
        folder = Path(self.raw_folder)
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                import gzip

                content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
                return _mnist.read_idx(content, str(path))
        if not download:
            raise RuntimeError("Dataset not found. You can use download=True to download it")
        folder.mkdir(parents=True, exist_ok=True)
        _download(self._published.title, [f"{url}{name}.gz" for url in self._published.urls], folder / f"{name}.gz")
        return self._read(name, False)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._pair(pillow().fromarray(self._images[index]), int(self._labels[index]))

    def __len__(self) -> int:
        return len(self._images)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The number of each class."""
        return {name: i for i, name in enumerate(self.classes)}


class FashionMNIST(MNIST):
    """Pictures of clothes, in MNIST's sizes."""

    _published = _mnist.FASHION_MNIST
    classes = (
        *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
        *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    )


class KMNIST(MNIST):
    """Characters of cursive Japanese, in MNIST's sizes."""

    _published = _mnist.MNIST._replace(
        title="Kuzushiji-MNIST", name="kmnist", urls=("http://codh.rois.ac.jp/kmnist/dataset/kmnist/",), checksums={}
    )
    classes = ("o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo")


class CIFAR10(VisionDataset):
    """Photographs of ten things, 32 x 32: 50,000 to train on and 10,000 to test."""

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    train_files: tuple[str, ...] = tuple(f"data_batch_{i}" for i in range(1, 6))
    test_files: tuple[str, ...] = ("test_batch",)
    labels = "labels"
    meta = ("batches.meta", "label_names")

    def __init__(
        self,
        root: Any,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, None, transform, target_transform)
        self.train = train
        folder = Path(str(root), self.base_folder)
        if not folder.is_dir():
            if not download:
                raise RuntimeError("Dataset not found or corrupted. You can use download=True to download it")
            self._fetch(folder)
        batches = [_unpickled(folder / name) for name in (self.train_files if train else self.test_files)]
        rows = np.concatenate([np.asarray(batch["data"], np.uint8) for batch in batches])
        self.data = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self.targets = [int(label) for batch in batches for label in batch[self.labels]]
        self.classes = list(_unpickled(folder / self.meta[0])[self.meta[1]])
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def _fetch(self, folder: Path) -> None:
        import tarfile

        archive = folder.parent / self.url.rsplit("/", 1)[1]
        archive.parent.mkdir(parents=True, exist_ok=True)
        if not archive.is_file():
            _download(type(self).__name__, [self.url], archive)
        with tarfile.open(archive) as tar:
            folder.mkdir(exist_ok=True)
            for name in (*self.train_files, *self.test_files, self.meta[0]):
                file = tar.extractfile(f"{self.base_folder}/{name}")
                if file is not None:
                    (folder / name).write_bytes(file.read())

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._pair(pillow().fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)


class CIFAR100(CIFAR10):
    """Photographs of a hundred things."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    train_files, test_files = ("train",), ("test",)
    labels = "fine_labels"
    meta = ("meta", "fine_label_names")


class _Numbers(pickle.Unpickler):
    """Reads dicts of arrays, lists, numbers and strings, and no other objects."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")}
        allowed |= {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}
        if (module, name) not in allowed:
            raise pickle.UnpicklingError(f"a data set's file refers to {module}.{name}, which is not allowed")
        return super().find_class(module, name)


def _unpickled(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        found: dict[str, Any] = _Numbers(file, encoding="latin1").load()
    return found


def default_loader(path: str) -> Any:
    """The image in a file, in colours."""
    with open(path, "rb") as file:
        return pillow().open(file).convert("RGB")


class DatasetFolder(VisionDataset):
    """Files in a folder a class."""

    def __init__(
        self,
        root: Any,
        loader: Callable[[str], Any],
        extensions: tuple[str, ...] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, None, transform, target_transform)
        self.loader, self.extensions = loader, extensions
        self.classes = sorted(entry.name for entry in os.scandir(str(self.root)) if entry.is_dir())
        if not self.classes:
            raise FileNotFoundError(f"Couldn't find any class folder in {self.root}.")
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        fits = is_valid_file or (lambda path: path.lower().endswith(extensions or ("",)))
        self.samples = [
            (path, number)
            for name, number in self.class_to_idx.items()
            for path in sorted(str(p) for p in Path(str(self.root), name).rglob("*") if p.is_file())
            if fits(path)
        ]
        self.targets = [number for _, number in self.samples]
        empty = set(range(len(self.classes))) - set(self.targets)
        if empty and not allow_empty:
            raise FileNotFoundError(f"Found no valid file for the classes {', '.join(self.classes[i] for i in empty)}.")

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._pair(self.loader(path), target)

    def __len__(self) -> int:
        return len(self.samples)


class ImageFolder(DatasetFolder):
    """Images in a folder a class."""

    def __init__(
        self,
        root: Any,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, loader, _IMAGES, transform, target_transform, is_valid_file, allow_empty)
        self.imgs = self.samples


class FakeData(VisionDataset):
    """Random images and labels, the same for the same index."""

    def __init__(
        self,
        size: int = 1000,
        image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        random_offset: int = 0,
    ) -> None:
        super().__init__(None, None, transform, target_transform)
        self.size, self.num_classes, self.image_size, self.random_offset = size, num_classes, image_size, random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexError(f"{type(self).__name__} index out of range")
        rng = np.random.default_rng(index + self.random_offset)
        channels, height, width = self.image_size
        pixels = rng.integers(0, 256, (height, width, channels), np.uint8)
        image = pillow().fromarray(pixels[:, :, 0] if channels == 1 else pixels)
        return self._pair(image, int(rng.integers(self.num_classes)))

    def __len__(self) -> int:
        return self.size


def __getattr__(name: str) -> Any:
    return _missing_attribute("torchvision.datasets", name)
