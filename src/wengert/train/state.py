"""The state of a run as a checkpoint holds it: the required fields and their types, checked before a run resumes from
it.

A checkpoint's checksums prove that it is unchanged, not that a run wrote it. In: a loaded state. Out: nothing, or
a FileError that names the field.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wengert.core.errors import FileError, WengertError

FIELDS: dict[str, tuple[type, ...]] = {
    "step": (int,),
    "recipe": (dict,),
    "model": (dict,),
    "optimizer": (dict,),
    "scaler": (dict,),
    "random": (dict,),
    "order": (dict,),
    "evaluated": (int,),
    "waited": (int,),
    "best": (int, float, type(None)),
    "history": (list,),
    "epoch_sums": (dict,),
    "tokenizer": (dict, type(None)),
}


def check_state(state: dict[str, Any]) -> None:
    """Raise an error unless a state has the fields of a run, with the right types."""
    for name, kinds in FIELDS.items():
        if name not in state:
            raise FileError(
                f"the checkpoint has no {name!r}: it was not written by a run, or by another version of Wengert"
            )
        value = state[name]
        if not isinstance(value, kinds) or isinstance(value, bool):
            _refuse(name, value)
        if isinstance(value, int) and name != "best" and value < 0:
            _refuse(name, value)
    for point in state["history"]:
        if not isinstance(point, dict) or not isinstance(point.get("kind"), str) or not _is_count(point.get("step")):
            _refuse("history", point)
        if not all(_is_number(value) for name, value in point.items() if name != "kind"):
            _refuse("history", point)
    if not all(isinstance(name, str) and _is_number(value) for name, value in state["epoch_sums"].items()):
        _refuse("epoch_sums", state["epoch_sums"])
    order = {"seed": 0, **state["order"]}  # which older checkpoints have not
    if not all(_is_count(order.get(name)) for name in ("epoch", "batch", "seed")):
        _refuse("order", state["order"])


def recipe_values(state: dict[str, Any]) -> dict[str, Any]:
    """The recipe's values in a state."""
    values = state.get("recipe")
    if not isinstance(values, dict):
        raise FileError(f"the checkpoint's recipe is {_shortened(values)}, which no run would write")
    return values


@contextmanager
def fitting(name: str) -> Iterator[None]:
    """A context in which mismatches are reported for this field of the checkpoint."""
    try:
        yield
    except (WengertError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        what = error.message if isinstance(error, WengertError) else f"{type(error).__name__}: {error}"
        raise FileError(f"the checkpoint's {name} does not fit this run: {what}") from error


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _refuse(name: str, value: Any) -> None:
    raise FileError(f"the checkpoint's {name.replace('_', ' ')} is {_shortened(value)}, which no run would write")


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
