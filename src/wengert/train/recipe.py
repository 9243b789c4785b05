"""Recipes: all that a training run is told, from a TOML file, a Python file or the command line; checked as a whole.

A recipe names a data set and a model, and has the numbers of the training. Those that come with Wengert, one for each
data set and model, are in the folder `recipes` beside this file.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_origin, get_type_hints

from wengert.core.devices import HOST
from wengert.core.errors import ArgumentError, FileError

RECIPES = Path(__file__).parent / "recipes"
DTYPES = ("float32", "float64", "bfloat16", "float16")
MODELS = ("mlp", "convnet", "resnet18", "gpt")
SCHEDULES = ("constant", "linear", "cosine")
SHARE_TO_STOP_BY = 0.1  # of the training examples, where a run may stop early


@dataclass(frozen=True)
class Recipe:
    """What to train, on what, and how.

    >>> Recipe(data="mnist", model="mlp", epochs=3).batch_size
    128
    """

    data: str
    """A data set by name, or a Python file."""
    model: str = ""
    epochs: int = 10
    batch_size: int = 128
    accumulate: int = 1
    """Batches whose gradients make one update."""
    seed: int = 0
    device: str = HOST
    dtype: str = "float32"
    """float32, float64, or bfloat16 and float16 as mixed precision."""
    compile: bool = True
    tune: float = 0.0
    """Seconds in which the kernels of each program on a GPU may be chosen by timing them."""
    clip: float = 0.0
    """The largest norm of the gradients; 0 for any."""
    smoothing: float = 0.0
    """The share of a label that is spread over all classes."""
    patience: int = 0
    """Epochs without a better result after which the training stops; 0 for never."""
    validation: float = 0.0
    """The share of the training examples that is held back to choose by; with patience a tenth if it is 0."""
    limit: int = 0
    """How many training examples to use; 0 for all."""
    save_every: int = 0
    """Updates between checkpoints, besides that at the end of every epoch; 0 for none."""
    keep: int = 2
    """Checkpoints to keep, besides the best."""
    workers: int = 0
    """Processes that prepare batches; with 0 a thread does."""
    file: str = ""
    """The text to learn from."""
    data_folder: str = ""
    """Where the data set's files are."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The model's own options, such as its sizes."""
    optimizer: Mapping[str, Any] = field(default_factory=lambda: {"name": "adamw", "lr": 1e-3})
    schedule: Mapping[str, Any] = field(default_factory=lambda: {"name": "constant"})
    augment: Mapping[str, Any] = field(default_factory=dict)
    text: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, kind in _kinds().items():
            _check_kind(name, getattr(self, name), kind)
        for name in ("epochs", "batch_size", "accumulate", "keep"):
            _check(name, getattr(self, name), getattr(self, name) >= 1, "from 1 on")
        for name in ("clip", "tune", "patience", "limit", "save_every", "workers"):
            _check(name, getattr(self, name), getattr(self, name) >= 0, "not negative")
        for name in ("smoothing", "validation"):
            _check(name, getattr(self, name), 0 <= getattr(self, name) < 1, "from 0 to below 1")
        one_of("dtype", self.dtype, DTYPES)
        known_names("schedule", self.schedule, ("name", "warmup", "final"))
        one_of("schedule", self.schedule.get("name"), SCHEDULES)
        known_names("augment", self.augment, ("crop", "flip", "cutout", "mixup"))
        known_names("text", self.text, ("tokens", "length", "unit", "buckets", "validation", "vocabulary"))

    @property
    def title(self) -> str:
        """A short name, such as mnist-mlp."""
        return "-".join(filter(None, (Path(self.data).stem, self.model)))

    @property
    def held_back(self) -> float:
        """The share of the training examples to choose by."""
        return self.validation or (SHARE_TO_STOP_BY if self.patience else 0.0)

    def changed(self, changes: Mapping[str, Any]) -> Recipe:
        """The recipe with some values replaced. `lr` is the optimizer's."""
        changes = dict(changes)
        if "lr" in changes:
            _check("lr", changes["lr"], changes["lr"] > 0, "above 0")
            changes["optimizer"] = {**self.optimizer, "lr": changes.pop("lr")}
        return make({**dataclasses.asdict(self), **changes})

    def to_toml(self) -> str:
        """The recipe as TOML."""
        values = dataclasses.asdict(self)
        plain = [f"{name} = {json.dumps(v)}" for name, v in values.items() if not isinstance(v, dict)]
        tables = [
            "\n".join(["", f"[{name}]", *(f"{key} = {json.dumps(v)}" for key, v in table.items())])
            for name, table in values.items()
            if isinstance(table, dict) and table
        ]
        return "\n".join([*plain, *tables, ""])


def make(values: Mapping[str, Any], source: str = "the recipe") -> Recipe:
    """A recipe from its values by name; raises for one that there is not."""
    names = [f.name for f in dataclasses.fields(Recipe)]
    known_names(source, values, names)
    if not values.get("data"):
        raise ArgumentError(f"{source} names no data set: it takes data = ...")
    return Recipe(**values)


def read(path: Path) -> Recipe:
    """The recipe of a TOML file."""
    try:
        return make(tomllib.loads(path.read_text()), str(path))
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{str(path)!r} is not TOML: {error}") from None


def built_in(data: str, model: str) -> Recipe:
    """The recipe that comes with Wengert for a data set and a model; for the simplest model if none is named."""
    titles = sorted(path.stem for path in RECIPES.glob("*.toml"))
    recipes = [read(RECIPES / f"{title}.toml") for title in titles]
    of_data = [recipe for recipe in recipes if recipe.data == data]
    if not of_data:
        raise unknown("data set", data, sorted({recipe.data for recipe in recipes}), " or a .toml or .py file")
    fitting = [recipe for recipe in of_data if not model or recipe.model == model]
    if not fitting:
        raise unknown(f"model for {data}", model, [recipe.model for recipe in of_data])
    return min(fitting, key=lambda recipe: MODELS.index(recipe.model))


# --- checks ---------------------------------------------------------------------------------------------------------


def _kinds() -> dict[str, Any]:
    return get_type_hints(Recipe)


_DESCRIBED = {bool: "true or false", int: "an integer", float: "a number", str: "text"}


def _check_kind(name: str, value: Any, kind: Any) -> None:
    """Raise unless a value is of a field's type; an integer serves where a float is asked for."""
    wanted = get_origin(kind) or kind
    allowed = (int, float) if wanted is float else (wanted,)
    if not isinstance(value, allowed) or (isinstance(value, bool) and wanted is not bool):
        raise ArgumentError(f"{name} is {value!r}; it is {_DESCRIBED.get(wanted, 'a table')}")


def _check(name: str, value: Any, holds: bool, what: str) -> None:
    if not holds:
        raise ArgumentError(f"{name.replace('_', ' ')} is {value!r}; it is {what}")


def one_of(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise unless a value is one of the choices, and name the nearest."""
    if value not in choices:
        raise unknown(name, value, list(choices))


def known_names(source: str, values: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise for the first name in a table that is not among those there are."""
    names = list(names)
    for name in values:
        if name not in names:
            raise unknown(f"setting in {source}", name, names)


def unknown(what: str, name: Any, choices: list[str], besides: str = "") -> ArgumentError:
    """The error for a name that there is not, with the nearest that there is."""
    near = get_close_matches(str(name), choices, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(choices)}{besides}"
    return ArgumentError(f"there is no {what} {name!r}; {hint}")
