"""Weights from safetensors files, by name: into any Module, checked as a whole before anything is set."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wengert as wg
from wengert import nn

Rename = Callable[[str], str | None]


def load_weights(
    model: nn.Module, path: str | os.PathLike[str], *, rename: Rename | None = None, strict: bool = True
) -> Any:
    """Load a model's parameters by name from a safetensors file, or from several that an `.index.json` lists.

    `rename` maps a file's name to the model's, or to None to skip it; a model may define its own (`weight_name`). A
    tied parameter may be in the file under any of its names. Missing and unexpected names and wrong shapes raise one
    error that lists them all, and then nothing is loaded. With `strict=False` only wrong shapes raise, and missing and
    unexpected names are returned.

    >>> import tempfile, wengert as wg
    >>> path = tempfile.mkdtemp() + "/mlp.safetensors"
    >>> trained, fresh = wg.models.MLP(3, [4, 1]), wg.models.MLP(3, [4, 1])
    >>> wg.save(path, trained.state_dict())
    >>> wg.models.load_weights(fresh, path)
    LoadedKeys(missing_keys=[], unexpected_keys=[])
    >>> bool(wg.all(fresh.layers[0].weight == trained.layers[0].weight))
    True
    """
    path = Path(path)
    files = _shards(path) if path.suffix == ".json" else [path]
    rename = rename or getattr(model, "weight_name", None) or (lambda name: name)
    weights: dict[str, wg.Tensor] = {}
    for file in files:
        _merge(weights, _tensors(file), rename, file)
    _share(model, weights)
    try:
        return model.load_state_dict(weights, strict)
    except wg.errors.ArgumentError as error:
        raise wg.errors.ArgumentError(f"load_weights: {str(path)!r}: {error.message}") from None


def _tensors(file: Path) -> dict[str, wg.Tensor]:
    loaded = wg.load(file)
    if not isinstance(loaded, dict) or not all(isinstance(value, wg.Tensor) for value in loaded.values()):
        parts = f"a dict of {', '.join(map(repr, loaded))}" if isinstance(loaded, dict) else type(loaded).__name__
        raise wg.errors.FileError(
            f"load_weights: {str(file)!r} holds {parts}, not tensors by name alone. Load it with wg.load and pass the "
            "part that is a state dict to model.load_state_dict"
        )
    return loaded


def _merge(weights: dict[str, wg.Tensor], found: dict[str, wg.Tensor], rename: Rename, file: Path) -> None:
    for name, value in found.items():
        known_as = rename(name)
        if known_as is None:
            continue
        if known_as in weights:
            raise wg.errors.FileError(f"load_weights: {str(file)!r} has more than one tensor for {known_as!r}")
        weights[known_as] = value


def _share(model: nn.Module, weights: dict[str, wg.Tensor]) -> None:
    """Give all names of a tied parameter the value that the file has under one of them."""
    own = {
        f"{path}.{name}" if path else name: parameter
        for path, layer in model.named_modules(remove_duplicate=False)
        for name, parameter in layer.own_parameters()
    }
    values = {id(own[name]): value for name, value in weights.items() if name in own}
    for name, slot in own.items():
        if id(slot) in values:
            weights.setdefault(name, values[id(slot)])


def _shards(index: Path) -> list[Path]:
    """The files that an index names, which lie beside it."""
    try:
        names = json.loads(index.read_text())["weight_map"].values()
    except (ValueError, KeyError, TypeError, AttributeError):
        raise wg.errors.FileError(
            f"load_weights: {str(index)!r} is not an index of safetensors files: it has no weight_map from names to "
            "files"
        ) from None
    files = [index.with_name(name) for name in sorted(set(names))]
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise FileNotFoundError(f"load_weights: {str(index)!r} names {', '.join(missing)}, which is not in its folder")
    return files
