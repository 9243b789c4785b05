"""Checks of settings: the allowed values of a recipe's fields and tables, with clear errors for others.

In: values by name as TOML, Python or a checkpoint gives them. Out: nothing, or an ArgumentError for the first that does
not fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import UnionType
from typing import Any, get_args, get_origin

from wengert.core.errors import ArgumentError

LARGEST = 1e38  # of a number: float32 holds it


@dataclass(frozen=True)
class Allowed:
    """The allowed values of a setting: of a kind, at least `least` and below `below`; or a list of these."""

    kind: type
    least: float = -LARGEST
    below: float = LARGEST
    is_list: bool = False

    def check(self, name: str, value: Any) -> None:
        """Raise an error unless the value is allowed."""
        name = name.replace("_", " ")
        if self.is_list and not isinstance(value, (list, tuple)):
            raise ArgumentError(f"{name} must be a list of {_SEVERAL[self.kind]}, not {value!r}")
        for part in value if self.is_list else [value]:
            self.check_kind(name, part)
            if isinstance(part, (int, float)) and not isinstance(part, bool) and not self.least <= part < self.below:
                raise ArgumentError(f"{name} must be {self._range()}, not {part!r}")

    def check_kind(self, name: str, value: Any) -> None:
        """Raise an error unless the value has the right kind; an integer is accepted as a float."""
        allowed: tuple[type, ...] = (int, float) if self.kind is float else (self.kind,)
        if not isinstance(value, allowed) or (isinstance(value, bool) and self.kind is not bool):
            raise ArgumentError(f"{name} must be {_DESCRIBED.get(self.kind, 'a table')}, not {value!r}")

    def _range(self) -> str:
        if self.below < LARGEST:
            return f"at least {self.least:g} and below {self.below:g}"
        if self.least == 0:
            return "non-negative"
        return f"at least {self.least:g}" if self.least > -LARGEST else f"a number of at most {LARGEST:g}"


_DESCRIBED = {bool: "true or false", int: "an integer", float: "a number", str: "text"}
_SEVERAL = {int: "integers", float: "numbers"}
COUNT = Allowed(int, 1, math.inf)
COUNTS = Allowed(int, 1, math.inf, is_list=True)
AMOUNT = Allowed(float, 0)
SHARE = Allowed(float, 0, 1)
TEXT = Allowed(str)

TABLES = {
    "schedule": {"name": TEXT, "warmup": Allowed(float, 0, 1), "final": AMOUNT},
    "augment": {"crop": Allowed(int, 0), "flip": Allowed(bool), "cutout": Allowed(int, 0), "mixup": AMOUNT},
    "text": {
        "tokens": TEXT,
        "length": COUNT,
        "unit": TEXT,
        "buckets": COUNTS,
        "validation": SHARE,
        "vocabulary": TEXT,
    },
}
"""What the tables of a recipe may hold."""


def check_table(source: str, values: Mapping[str, Any], settings: Mapping[str, Allowed]) -> None:
    """Raise an error for an unknown name in a table, and for a value that is not allowed."""
    known_names(source, values, settings)
    for name, value in values.items():
        settings[name].check(f"{name} under [{source}]", value)


def like(default: Any) -> Allowed | None:
    """The allowed values of a setting, inferred from its default; None if it implies nothing."""
    if isinstance(default, (list, tuple)):
        return Allowed(float, is_list=True)
    return Allowed(float if type(default) is int else type(default)) if type(default) in _DESCRIBED else None


def of_type(hint: Any) -> Allowed:
    """The allowed values of a setting, from a field's type; sizes are integers of at least 1."""
    if isinstance(hint, UnionType):  # such as int | None, where None cannot be written in TOML
        hint = next(part for part in get_args(hint) if part is not type(None))
    kind = get_origin(hint) or hint
    return COUNT if kind is int else Allowed(kind)


def check_kind(name: str, value: Any, hint: Any) -> None:
    """Raise an error unless a value has a field's type."""
    Allowed(get_origin(hint) or hint).check_kind(name, value)


def check(name: str, value: Any, holds: bool, what: str) -> None:
    """Raise an error unless a condition on a value holds."""
    if not holds:
        raise ArgumentError(f"{name.replace('_', ' ')} must be {what}, not {value!r}")


def one_of(name: str, value: Any, choices: Iterable[str]) -> None:
    """Raise an error unless a value is one of the choices; suggests the closest match."""
    choices = list(choices)
    if value not in choices:
        raise unknown(name, value, choices)


def known_names(source: str, values: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise an error for the first unknown name in a table."""
    names = list(names)
    for name in values:
        if name not in names:
            raise unknown(f"setting in {source}", name, names)


def unknown(what: str, name: Any, choices: list[str], besides: str = "") -> ArgumentError:
    """The error for an unknown name, with the closest match."""
    near = get_close_matches(str(name), choices, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there is {', '.join(choices)}{besides}"
    return ArgumentError(f"there is no {what} {name!r}; {hint}")
