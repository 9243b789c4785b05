"""Recipes: all settings of a training run, from a TOML file, a Python file or the command line; checked as a whole.

A recipe names a data set and a model, and has the numbers of the training. Those that come with Wengert, one for each
data set and model, are in the folder `recipes` beside this file.
"""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_type_hints

from wengert.core.devices import HOST
from wengert.core.errors import ArgumentError, FileError
from wengert.train.ranks import check_ranks
from wengert.train.settings import LARGEST, TABLES, check, check_kind, check_table, known_names, one_of, unknown

RECIPES = Path(__file__).parent / "recipes"
DTYPES = ("float32", "float64", "bfloat16", "float16")
MODELS = ("mlp", "convnet", "resnet18", "gpt")
SCHEDULES = ("constant", "linear", "cosine")
SHARE_TO_STOP_BY = 0.1  # of the training examples, where a run may stop early


@dataclass(frozen=True)
class Recipe:
    """A recipe: what to train, on what data, and how.

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
    ranks: int = 1
    """Processes that train together, each on its share of every batch."""
    shard: int = 0
    """The stage of ZeRO, for what ranks hold in blocks: 1 the optimizer's state, 2 sums of gradients too, 3 all."""
    parts: int = 0
    """Into how many parts a batch is cut, for the same bits on any number of ranks; 0 for one a rank."""
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
        for name, hint in get_type_hints(Recipe).items():
            check_kind(name, getattr(self, name), hint)
        for name in ("epochs", "batch_size", "accumulate", "keep", "ranks"):
            check(name, getattr(self, name), getattr(self, name) >= 1, "at least 1")
        for name in ("patience", "limit", "save_every", "workers", "parts"):
            check(name, getattr(self, name), getattr(self, name) >= 0, "non-negative")
        for name in ("clip", "tune"):
            check(name, getattr(self, name), 0 <= getattr(self, name) < LARGEST, f"non-negative and below {LARGEST:g}")
        for name in ("smoothing", "validation"):
            check(name, getattr(self, name), 0 <= getattr(self, name) < 1, "at least 0 and below 1")
        one_of("dtype", self.dtype, DTYPES)
        for name, settings in TABLES.items():
            check_table(name, getattr(self, name), settings)
        one_of("schedule", self.schedule.get("name"), SCHEDULES)
        check_ranks(self.ranks, self.shard, self.parts, self.batch_size, self.compile)
        if "lr" in self.optimizer:
            _check_rate(self.optimizer["lr"])

    @property
    def title(self) -> str:
        """A short name, such as mnist-mlp."""
        return "-".join(filter(None, (Path(self.data).stem, self.model)))

    @property
    def held_back(self) -> float:
        """The fraction of the training examples held back for validation."""
        return self.validation or (SHARE_TO_STOP_BY if self.patience else 0.0)

    def changed(self, changes: Mapping[str, Any]) -> Recipe:
        """A copy of the recipe with some values replaced. `lr` is the optimizer's."""
        changes = dict(changes)
        if "lr" in changes:
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
    """Make a recipe from values by name; unknown names raise an error that suggests the closest match."""
    names = [f.name for f in dataclasses.fields(Recipe)]
    if not isinstance(values, Mapping):
        raise ArgumentError(f"{source} must be a table, not {values!r}")
    known_names(source, values, names)
    if not values.get("data"):
        raise ArgumentError(f"{source} names no data set: add data = ...")
    return Recipe(**values)


def read(path: Path) -> Recipe:
    """Read the recipe in a TOML file."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{str(path)!r} is not TOML: {error}") from None
    except RecursionError:
        raise FileError(f"{str(path)!r} cannot be parsed as TOML: it is nested too deeply") from None
    return make(values, str(path))


def _check_rate(rate: Any) -> None:
    check_kind("lr", rate, float)
    check("lr", rate, 0 < rate < LARGEST, f"above 0 and below {LARGEST:g}")


def built_in(data: str, model: str) -> Recipe:
    """The built-in recipe for a data set and a model (by default the simplest model)."""
    titles = sorted(path.stem for path in RECIPES.glob("*.toml"))
    recipes = [read(RECIPES / f"{title}.toml") for title in titles]
    of_data = [recipe for recipe in recipes if recipe.data == data]
    if not of_data:
        raise unknown("data set", data, sorted({recipe.data for recipe in recipes}), " or a .toml or .py file")
    fitting = [recipe for recipe in of_data if not model or recipe.model == model]
    if not fitting:
        raise unknown(f"model for {data}", model, [recipe.model for recipe in of_data])
    return min(fitting, key=lambda recipe: MODELS.index(recipe.model))
