"""Stand-ins for what the programs download, of the same form, generated from a seed, each in a folder."""

from __future__ import annotations

import gzip
import io
import pickle
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np


def _words(rng: np.random.Generator, count: int, vocabulary: int) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    lengths = rng.integers(2, 9, vocabulary)
    names = ["".join(rng.choice(list(letters), length)) for length in lengths]
    frequency = 1 / np.arange(1, vocabulary + 1)
    return [names[i] for i in rng.choice(vocabulary, count, p=frequency / frequency.sum())]


def _text(seed: int, lines: int, width: int = 12, vocabulary: int = 400) -> str:
    words = _words(np.random.default_rng(seed), lines * width, vocabulary)
    return "".join(" ".join(words[i * width : (i + 1) * width]) + "\n" for i in range(lines))


def mnist(raw: Path, train: int = 1920, test: int = 512) -> None:
    """MNIST's four files: each digit a pattern of strokes of its own, moved and with noise."""
    raw.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    patterns = np.zeros((10, 28, 28))
    for pattern in patterns:
        for _ in range(3):
            top, left = rng.integers(4, 18, 2)
            height, width = rng.permutation([3, 12])
            pattern[top : min(top + height, 24), left : min(left + width, 24)] = 1
    for part, count in (("train", train), ("t10k", test)):
        labels = rng.integers(0, 10, count)
        moved = [np.roll(patterns[k], tuple(rng.integers(-2, 3, 2)), (0, 1)) for k in labels]
        pixels = np.clip(
            np.stack(moved) * rng.uniform(120, 255, (count, 1, 1)) + rng.normal(0, 12, (count, 28, 28)), 0, 255
        )
        images = struct.pack(">iiii", 2051, count, 28, 28) + pixels.astype(np.uint8).tobytes()
        (raw / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images, 1))
        named = struct.pack(">ii", 2049, count) + labels.astype(np.uint8).tobytes()
        (raw / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(named, 1))
        for kind, content in (("images-idx3", images), ("labels-idx1", named)):
            (raw / f"{part}-{kind}-ubyte").write_bytes(content)


def mnist_above(work: Path) -> None:
    """MNIST where most examples look for it."""
    mnist(work.parent / "data" / "MNIST" / "raw")


def mnist_inside(work: Path) -> None:
    """MNIST in the program's own folder."""
    mnist(work / "data" / "MNIST" / "raw")


def mnist_two_above(work: Path) -> None:
    """MNIST where PyTorch-GAN looks for it."""
    mnist(work.parent.parent / "data" / "mnist" / "MNIST" / "raw", 640, 64)


def mnist_in_tutorial(work: Path) -> None:
    """MNIST where the tutorials look for it: their working folder is the repository, and they name `../../data`."""
    mnist(work.parent.parent / "data" / "MNIST" / "raw")


def _images(folder: Path, count: int, size: int, seed: int) -> None:
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    for i in range(count):
        coarse = rng.integers(0, 256, (8, 8, 3), np.uint8)
        Image.fromarray(coarse).resize((size, size), Image.Resampling.BICUBIC).save(folder / f"{i:03}.png")


def bsds(work: Path) -> None:
    """BSDS300's folders of photographs: smooth random images."""
    for part, count in (("train", 6), ("test", 2)):
        _images(work / "dataset" / "BSDS300" / "images" / part, count, 280, len(part))


def photographs(work: Path) -> None:
    """A folder of classes of photographs, and an image of a style."""
    _images(work / "photographs" / "one", 6, 80, 1)
    _images(work / "style", 1, 64, 2)


def wikitext(work: Path) -> None:
    """WikiText's three files: words by Zipf's law."""
    folder = work / "data" / "wikitext-2"
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (part, lines) in enumerate((("train", 900), ("valid", 60), ("test", 60))):
        (folder / f"{part}.txt").write_text(_text(seed, lines))


def treebank(work: Path) -> None:
    """The Penn Treebank's file of words."""
    (work / "data").mkdir(exist_ok=True)
    (work / "data" / "train.txt").write_text(_text(0, 60))


def shakespeare(work: Path) -> None:
    """nanoGPT's character-level text, as `prepare.py` leaves it."""
    text = _text(3, 1200)
    characters = sorted(set(text))
    number = {c: i for i, c in enumerate(characters)}
    ids = np.array([number[c] for c in text], np.uint16)
    folder = work / "data" / "shakespeare_char"
    folder.mkdir(parents=True, exist_ok=True)
    split = int(len(ids) * 0.9)
    ids[:split].tofile(folder / "train.bin")
    ids[split:].tofile(folder / "val.bin")
    meta = {"vocab_size": len(characters), "itos": dict(enumerate(characters)), "stoi": number}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def one_text(work: Path) -> None:
    """minGPT's text, which has the characters that it starts from."""
    (work / "input.txt").write_text("O God, O God!\n" + _text(4, 200))


def names(work: Path) -> None:
    """makemore's list of names."""
    rng = np.random.default_rng(5)
    (work / "names.txt").write_text("\n".join(_words(rng, 2000, 1500)) + "\n")


def cora(work: Path) -> None:
    """Cora's archive: papers with words and a subject, and which cites which."""
    rng = np.random.default_rng(6)
    papers, words = 1800, 200
    subjects = rng.integers(0, 7, papers)
    likely = rng.random((7, words)) < 0.1
    has = rng.random((papers, words)) < np.where(likely[subjects], 0.3, 0.01)
    has[:, 0] |= ~has.any(1)
    content = "".join(
        f"{1000 + i}\t" + "\t".join("1" if one else "0" for one in has[i]) + f"\tsubject_{subjects[i]}\n"
        for i in range(papers)
    )
    pairs = {(int(a), int(b)) for a, b in rng.integers(0, papers, (2 * papers, 2)) if a != b}
    cites = "".join(f"{1000 + a}\t{1000 + b}\n" for a, b in sorted(pairs))
    with tarfile.open(work / "cora.tgz", "w:gz") as tar:
        for name, text in (("cora/cora.content", content), ("cora/cora.cites", cites)):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))


def sines(work: Path) -> None:
    """The sine waves of `generate_sine_wave.py`, fewer and shorter, as a file of PyTorch's."""
    import torch

    rng = np.random.RandomState(2)
    x = np.arange(60)[None] + rng.randint(-80, 80, 12)[:, None]
    torch.save(np.sin(x / 20.0).astype("float64"), work / "traindata.pt")


def vgg_weights(checkpoints: Path) -> None:
    """VGG16's published file, with random convolutions; the classifier, which is not used, is one number expanded."""
    import torch

    torch.manual_seed(7)
    weights, inputs, at = {}, 3, 0
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            weights[f"features.{at}.weight"] = torch.randn(width, inputs, 3, 3) * (2 / (9 * inputs)) ** 0.5
            weights[f"features.{at}.bias"] = torch.zeros(width)
            inputs, at = width, at + 2
        at += 1
    for at, rows, columns in ((0, 4096, 25088), (3, 4096, 4096), (6, 1000, 4096)):
        weights[f"classifier.{at}.weight"] = torch.zeros(1).expand(rows, columns)
        weights[f"classifier.{at}.bias"] = torch.zeros(rows)
    checkpoints.mkdir(parents=True, exist_ok=True)
    torch.save(weights, checkpoints / "vgg16-397923af.pth")


def photographs_and_weights(work: Path) -> None:
    """Photographs, and VGG16's weights where TORCH_HOME says."""
    photographs(work)
    vgg_weights(work.parent / "torch_home" / "hub" / "checkpoints")


def nothing(work: Path) -> None:
    """For programs that draw their data."""


LAID: dict[Any, str] = {
    mnist_above: "MNIST",
    mnist_inside: "MNIST",
    mnist_two_above: "MNIST",
    mnist_in_tutorial: "MNIST",
    bsds: "BSDS300",
    photographs_and_weights: "photographs, VGG16's weights",
    wikitext: "WikiText-2",
    treebank: "Penn Treebank",
    shakespeare: "a text",
    one_text: "a text",
    names: "names",
    cora: "Cora",
    sines: "sine waves",
    nothing: "",
}
"""What is laid in the place of what would be downloaded."""
