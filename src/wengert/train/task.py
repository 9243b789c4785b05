"""Tasks: what there is to learn. In: a recipe. Out: data sets, a model, and the objective that joins them.

An objective is a function of the model and the arrays of a batch. It gives values by name, one for each example (or for
each token): the `loss`, which is brought down, and what else is worth showing. An entry `weight` tells how much each
counts.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import numpy as np

import wengert as wg
from wengert import data as wgdata
from wengert import models, nn
from wengert.core import devices
from wengert.core.errors import ArgumentError, DTypeError, FileError
from wengert.data.dataset import Array, Transform
from wengert.data.tokens import Tokenizer, from_description
from wengert.train.recipe import Recipe
from wengert.train.settings import COUNT, COUNTS, check_table, known_names, of_type, one_of, unknown
from wengert.train.state import fitting

Objective = Callable[..., dict[str, wg.Tensor]]


@dataclass
class Task:
    """What there is to learn.

    >>> import wengert as wg
    >>> from wengert.train.task import build
    >>> task = build(wg.train.Recipe(data="digits", model="mlp", options={"hidden": [8]}))
    >>> isinstance(task, wg.train.Task), len(task.train)
    (True, 1437)
    """

    train: wgdata.Dataset
    test: wgdata.Dataset
    model: nn.Module
    objective: Objective
    validation: wgdata.Dataset | None = None
    """What is held back from training to choose by: when to stop, and which checkpoint is the best."""
    unit: str = "examples"
    """What is counted as seen in a second."""
    per_example: int = 1
    """How many of these an example is."""
    tokenizer: Tokenizer | None = None


def build(recipe: Recipe, tokenizer: Mapping[str, Any] | None = None) -> Task:
    """The task of a recipe, its model drawn anew from the recipe's seed. A checkpoint's tokenizer is used again."""
    wg.manual_seed(recipe.seed)
    if recipe.data.endswith(".py"):
        task = _from_file(recipe)
    elif recipe.data == "text":
        task = _language(recipe, tokenizer)
    else:
        task = _classification(recipe)
    if recipe.validation and task.validation is None:
        raise ArgumentError(
            "validation is a share of a data set of images; of a text the last part is tested with (validation under "
            "[text]), and a file's data() gives a third data set"
        )
    if recipe.dtype == "float64":
        task.model.to(wg.float64)
    task.model.to(devices.named(recipe.device, "train"))
    return task


# --- images and their classes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Images:
    """A data set of images: how to read it, and the mean and the deviation of its pixels by channel."""

    load: Callable[[str | None, int], tuple[Array, Array, Array, Array]]
    """From a folder, so many training examples at least, or all if that is 0."""
    mean: Sequence[float]
    std: Sequence[float]
    top: float = 255.0

    def scale_and_shift(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """What a pixel of each channel is multiplied by, and what is added, for a mean of 0 and a deviation of 1."""
        pairs = list(zip(self.mean, self.std))
        return tuple(1 / (self.top * std) for _, std in pairs), tuple(-mean / std for mean, std in pairs)


def _digits(folder: str | None, limit: int) -> tuple[Array, Array, Array, Array]:
    train_images, train_labels, test_images, test_labels = wgdata.load_digits()
    return train_images.reshape(-1, 1, 8, 8), train_labels, test_images.reshape(-1, 1, 8, 8), test_labels


def _cifar10(folder: str | None, limit: int) -> tuple[Array, Array, Array, Array]:
    return wgdata.load_cifar10(folder, batches=min(-(-limit // 10_000), 5) or 5)


IMAGES = {
    "digits": Images(_digits, (0.305,), (0.376,), top=1.0),
    "mnist": Images(lambda folder, limit: wgdata.load_mnist(folder), (0.1307,), (0.3081,)),
    "fashion-mnist": Images(lambda folder, limit: wgdata.load_fashion_mnist(folder), (0.2860,), (0.3530,)),
    "cifar10": Images(_cifar10, (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
}
CLASSES = 10
IMAGE_MODELS = ("mlp", "convnet", "resnet18")


def _classification(recipe: Recipe) -> Task:
    if recipe.data not in IMAGES:
        raise unknown("data set", recipe.data, [*IMAGES, "text"], " or a .py file")
    one_of(f"model for {recipe.data}", recipe.model, IMAGE_MODELS)
    images = IMAGES[recipe.data]
    train_images, train_labels, test_images, test_labels = images.load(recipe.data_folder or None, recipe.limit)
    count = min(recipe.limit or len(train_images), len(train_images))
    order = np.random.default_rng(recipe.seed % (1 << 64)).permutation(count)
    held_back = np.sort(order[: round(count * recipe.held_back)])
    learned = np.sort(order[len(held_back) :])
    return Task(
        wgdata.ArrayDataset(train_images[learned], train_labels[learned], transforms=_augmentation(recipe.augment)),
        wgdata.ArrayDataset(test_images, test_labels),
        _image_model(recipe, train_images.shape[1:]),
        Classification(recipe.smoothing, recipe.model == "mlp", *images.scale_and_shift()),
        wgdata.ArrayDataset(train_images[held_back], train_labels[held_back]) if len(held_back) else None,
        unit="images",
    )


def _augmentation(settings: Mapping[str, Any]) -> list[Transform]:
    made: list[Transform] = []
    if settings.get("crop"):
        made.append(wgdata.Crop(settings["crop"]))
    if settings.get("flip"):
        made.append(wgdata.Flip())
    if settings.get("cutout"):
        made.append(wgdata.Cutout(settings["cutout"]))
    if settings.get("mixup"):
        made.append(wgdata.Mixup(settings["mixup"], CLASSES))
    return made


def _image_model(recipe: Recipe, shape: tuple[int, ...]) -> nn.Module:
    channels, height, width = shape
    options = dict(recipe.options)
    if recipe.model == "mlp":
        check_table("options", options, {"hidden": COUNTS})
        return models.MLP(channels * height * width, [*options.get("hidden", (512, 256)), CLASSES])
    if recipe.model == "convnet":
        check_table("options", options, {"channels": COUNTS, "hidden": COUNT})
        return models.ConvNet(CLASSES, in_channels=channels, image_size=height, **options)
    known_names("options of resnet18", options, ())
    return models.resnet18(CLASSES, stem="cifar", in_channels=channels)


@dataclass(frozen=True)
class Classification:
    """The objective of telling classes apart: cross-entropy, and how many are right.

    Labels are class numbers, or probabilities (N, classes). `flat` is for models that take rows. Where a `scale` and a
    `shift` are given for each channel, inputs are pixels as they were stored: a byte each on their way to a device.
    """

    smoothing: float = 0.0
    flat: bool = False
    scale: tuple[float, ...] = ()
    shift: tuple[float, ...] = ()

    def __call__(self, model: nn.Module, inputs: wg.Tensor, labels: wg.Tensor) -> dict[str, wg.Tensor]:
        if self.scale:
            scale, shift = (_by_channel(numbers, inputs.device) for numbers in (self.scale, self.shift))
            inputs = inputs.to(wg.float32) * scale + shift
        scores = model(wg.flatten(inputs, 1) if self.flat else inputs)
        smoothing = self.smoothing if model.training else 0.0
        losses = wg.cross_entropy(scores, labels, reduction="none", label_smoothing=smoothing)
        classes = labels if labels.ndim == 1 else wg.argmax(labels, axis=1)
        return {"loss": losses, "accuracy": wg.argmax(scores, axis=1) == classes}


def _by_channel(numbers: Sequence[float], device: str) -> wg.Tensor:
    return wg.tensor(numbers, dtype=wg.float32, device=device).reshape((-1, 1, 1))


# --- text -----------------------------------------------------------------------------------------------------------

GPT_SIZES = {"n_embd": 128, "n_layer": 4, "n_head": 4}


def _language(recipe: Recipe, description: Mapping[str, Any] | None) -> Task:
    settings = _text_settings(recipe)
    text = _text_of(recipe)
    tokenizer = _described(description) if description else _tokenizer(settings, text)
    cut = int(len(text) * (1 - settings["validation"]))
    train: wgdata.Dataset
    test: wgdata.Dataset
    if settings["unit"] == "line":
        buckets = settings.get("buckets", [settings["length"]])
        train, test = _lines(tokenizer, text[:cut], buckets), _lines(tokenizer, text[cut:], buckets)
    else:
        train = wgdata.Windows(tokenizer.encode(text[:cut]), settings["length"], shift=True)
        test = wgdata.Windows(tokenizer.encode(text[cut:]), settings["length"])
    model, _ = language_model(recipe, tokenizer.description(), tokenizer)
    length = model.config.n_positions
    return Task(train, test, model, language, unit="tokens", per_example=length, tokenizer=tokenizer)


def language_model(
    recipe: Recipe, description: Mapping[str, Any], tokenizer: Tokenizer | None = None
) -> tuple[models.GPT, Tokenizer]:
    """The model of a recipe for text, and its tokenizer (made from its description unless it is there)."""
    one_of("model for text", recipe.model, ("gpt",))
    tokenizer = tokenizer or _described(description)
    settings = _text_settings(recipe)
    options = {**GPT_SIZES, "n_positions": max(settings.get("buckets", [settings["length"]])), **recipe.options}
    hints = get_type_hints(models.GPTConfig)
    check_table("options", options, {name: of_type(hint) for name, hint in hints.items() if name != "vocab_size"})
    return models.GPT(models.GPTConfig.modern(vocab_size=tokenizer.size, **options)), tokenizer


def _described(description: Mapping[str, Any]) -> Tokenizer:
    with fitting("tokenizer"):
        return from_description(dict(description))


def _text_settings(recipe: Recipe) -> dict[str, Any]:
    settings = {"tokens": "character", "length": 128, "unit": "window", "validation": 0.1, **recipe.text}
    one_of("unit of text", settings["unit"], ("window", "line"))
    return settings


def _text_of(recipe: Recipe) -> str:
    if not recipe.file:
        raise ArgumentError("text takes a file to learn from: --file book.txt")
    try:
        return Path(recipe.file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FileError(f"{recipe.file!r} is not text in UTF-8: {error}") from None


def _tokenizer(settings: Mapping[str, Any], text: str) -> Tokenizer:
    one_of("tokens", settings["tokens"], ("byte", "character", "gpt2"))
    if settings["tokens"] == "byte":
        return wgdata.ByteTokenizer()
    if settings["tokens"] == "character":
        return wgdata.CharacterTokenizer.of(text)
    if not settings.get("vocabulary"):
        raise ArgumentError("GPT-2's tokens take the folder of its vocabulary: vocabulary = ... under [text]")
    return wgdata.BytePairTokenizer(settings["vocabulary"])


def _lines(tokenizer: Tokenizer, text: str, buckets: Sequence[int]) -> wgdata.Sequences:
    lines = [tokenizer.encode(line) for line in text.splitlines(keepends=True)]
    return wgdata.Sequences([line for line in lines if len(line) > 1], buckets)


def language(model: nn.Module, tokens: wg.Tensor, targets: wg.Tensor) -> dict[str, wg.Tensor]:
    """The objective of predicting the next token: cross-entropy of each that counts."""
    scores = model(tokens)
    losses = wg.cross_entropy(scores.reshape((-1, scores.shape[-1])), targets.reshape((-1,)), reduction="none")
    return {"loss": losses.reshape(targets.shape), "weight": targets != wgdata.sequences.IGNORED}


# --- a Python file of the user's own --------------------------------------------------------------------------------


def module_of(path: str) -> ModuleType:
    """A Python file as a module, imported by its name, so that worker processes can import it too."""
    file = Path(path).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {path!r}")
    if str(file.parent) not in sys.path:
        sys.path.insert(0, str(file.parent))
    module = importlib.import_module(file.stem)
    if Path(module.__file__ or "").resolve() != file:
        raise ArgumentError(f"{path!r} has the name of the module {module.__file__!r}; rename it")
    return module


def _from_file(recipe: Recipe) -> Task:
    module = module_of(recipe.data)
    missing = [name for name in ("data", "model") if not callable(getattr(module, name, None))]
    if missing:
        raise ArgumentError(
            f"{recipe.data!r} has no function {missing[0]}(): a file to train defines data(), which gives data sets to "
            "learn from and to test with (and to choose by, if there is a third), and model(); objective(model, "
            "*batch) if it is not classification"
        )
    sets = module.data()
    if not isinstance(sets, tuple) or len(sets) not in (2, 3) or not all(isinstance(s, wgdata.Dataset) for s in sets):
        raise DTypeError(f"data() of {recipe.data!r} gives two or three wg.data.Dataset, not {type(sets).__name__}")
    model = module.model()
    if not isinstance(model, nn.Module):
        raise DTypeError(f"model() of {recipe.data!r} gives a wg.nn.Module, not {type(model).__name__}")
    objective = getattr(module, "objective", Classification(recipe.smoothing))
    train, test, *rest = sets
    return Task(train, test, model, objective, *rest)
