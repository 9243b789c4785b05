"""The readers of published data sets: formats, checksums, downloads, and what is said where files are missing."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import struct
import tarfile
import threading

import numpy as np
import pytest

from wengert.core.errors import ArgumentError, FileError
from wengert.data import cifar, files, load_cifar10, load_mnist, mnist

RNG = np.random.default_rng(0)


def idx(array):
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


ARRAYS = {
    "train-images-idx3-ubyte": RNG.integers(0, 256, (6, 28, 28)).astype(np.uint8),
    "train-labels-idx1-ubyte": np.arange(6, dtype=np.uint8),
    "t10k-images-idx3-ubyte": RNG.integers(0, 256, (2, 28, 28)).astype(np.uint8),
    "t10k-labels-idx1-ubyte": np.arange(2, dtype=np.uint8),
}
CONTENTS = {name: idx(array) for name, array in ARRAYS.items()}
ROWS = {name: RNG.integers(0, 10, (3, 3073)).astype(np.uint8) for name in cifar.CHECKSUMS}


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def small(monkeypatch):
    """Data sets of a few images, published nowhere."""
    published = mnist.MNIST._replace(
        urls=("http://localhost:1/",), checksums={name: sha256(content) for name, content in CONTENTS.items()}
    )
    monkeypatch.setattr(mnist, "MNIST", published)
    monkeypatch.setattr(cifar, "CHECKSUMS", {name: sha256(rows.tobytes()) for name, rows in ROWS.items()})
    monkeypatch.setattr(cifar, "URL", "http://localhost:1/cifar-10-binary.tar.gz")
    return published


@pytest.fixture
def server(tmp_path):
    """The address of a folder on the network, and the folder."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=folder)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("localhost", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://localhost:{running.server_port}/", folder
        running.shutdown()


def check(loaded):
    train_images, train_labels, test_images, _ = loaded
    assert (train_images[:, 0] == ARRAYS["train-images-idx3-ubyte"]).all() and train_images.dtype == np.uint8
    assert train_labels.tolist() == list(range(6)) and train_labels.dtype == np.int64
    assert test_images.shape == (2, 1, 28, 28)


def test_files_are_read_compressed_or_not(small, tmp_path):
    for i, (name, content) in enumerate(CONTENTS.items()):
        (tmp_path / (f"{name}.gz" if i % 2 else name)).write_bytes(gzip.compress(content) if i % 2 else content)
    check(load_mnist(tmp_path))


def test_missing_files_are_downloaded_once(small, server, tmp_path, monkeypatch):
    address, folder = server
    for name, content in CONTENTS.items():
        (folder / f"{name}.gz").write_bytes(gzip.compress(content))
    monkeypatch.setattr(mnist, "MNIST", small._replace(urls=("http://localhost:1/", address)))
    monkeypatch.setenv("WENGERT_DATA", str(tmp_path / "data"))
    check(load_mnist())
    assert len(list((tmp_path / "data" / "mnist").iterdir())) == 4
    monkeypatch.setattr(mnist, "MNIST", small)
    check(load_mnist())


def test_without_a_network_the_message_says_what_to_do(small, tmp_path):
    with pytest.raises(FileError, match=r"MNIST: there is no train-images.*could not be downloaded.*--data-folder"):
        load_mnist(tmp_path / "nowhere")
    with pytest.raises(FileError, match=r"CIFAR-10: there is no cifar-10-binary.tar.gz"):
        load_cifar10(tmp_path)


@pytest.mark.parametrize("damage", ["altered", "truncated", "no gzip"])
def test_files_that_are_not_the_published_ones_are_refused(small, tmp_path, damage):
    for name, content in CONTENTS.items():
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content))
    path = tmp_path / "t10k-images-idx3-ubyte.gz"
    content = CONTENTS["t10k-images-idx3-ubyte"]
    damaged = {
        "altered": gzip.compress(content[:-1] + bytes([content[-1] ^ 1])),
        "truncated": path.read_bytes()[:-20],
        "no gzip": b"<html>",
    }
    path.write_bytes(damaged[damage])
    with pytest.raises(FileError, match=r"t10k-images.*(is not the published file|is corrupt).*Remove it"):
        load_mnist(tmp_path)


def test_a_download_that_breaks_off_leaves_nothing(tmp_path, monkeypatch):
    class Answer(io.BytesIO):
        def __init__(self, content):
            super().__init__(content)
            self.headers = {"Content-Length": "1000"}

    monkeypatch.setattr(files.urllib.request, "urlopen", lambda *a, **k: Answer(b"x" * 10))
    with pytest.raises(FileError, match="broke off after 10 of 1000 bytes"):
        files.download("MNIST", ["http://x/y"], tmp_path / "y")
    assert list(tmp_path.iterdir()) == []


def test_cifar_comes_from_its_files_or_its_archive(small, server, tmp_path, monkeypatch):
    address, folder = server
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name, rows in ROWS.items():
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.size = rows.nbytes
            archive.addfile(entry, io.BytesIO(rows.tobytes()))
    monkeypatch.setattr(cifar, "URL", f"{address}cifar-10-binary.tar.gz")
    images, labels, test_images, test_labels = load_cifar10(tmp_path / "cifar10")
    assert images.shape == (15, 3, 32, 32) and test_images.shape == (3, 3, 32, 32)
    assert labels[:3].tolist() == ROWS["data_batch_1.bin"][:, 0].tolist() and len(test_labels) == 3
    assert len(load_cifar10(tmp_path / "cifar10", batches=2)[0]) == 6
    with pytest.raises(ArgumentError, match="there are 5 training batches, not 6"):
        load_cifar10(tmp_path, batches=6)
    assert (images[4, 2].reshape(-1) == ROWS["data_batch_2.bin"][1, 2049:]).all()


def test_an_archive_with_something_else_than_files_is_damaged(small, server, tmp_path, monkeypatch):
    address, folder = server
    with tarfile.open(folder / "cifar-10-binary.tar.gz", "w:gz") as archive:
        for name in ROWS:
            entry = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
    monkeypatch.setattr(cifar, "URL", f"{address}cifar-10-binary.tar.gz")
    with pytest.raises(FileError, match=r"is corrupt: data_batch_1\.bin is not a file in it"):
        load_cifar10(tmp_path / "cifar10")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not in the IDX format"),
        (bytes([0, 0, 13, 1]), "starts with 00 00 0d 01"),
        (bytes([0, 0, 8, 3, 0]), "is truncated in its header"),
        (bytes([0, 0, 8, 1, 0, 0, 0, 9, 1]), r"1 bytes for an array of shape \(9,\)"),
    ],
)
def test_what_is_not_idx_is_refused(content, message):
    with pytest.raises(FileError, match=message):
        mnist.read_idx(content)
    with pytest.raises(FileError, match="are not images of 3073 bytes"):
        cifar.read_batch(content + b"12")
