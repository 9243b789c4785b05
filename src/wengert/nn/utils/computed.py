"""Attributes of a module that are computed when they are read: the module's class becomes a subclass with a property.

`forward` reads `self.weight` as before, also while it is recorded, and gets the formula's value from other parameters.
A formula is an object with `read(module)` and `write(module, value)`.
"""

from __future__ import annotations

from typing import Any, Protocol

import wengert as wg
from wengert.nn.module import Module


class Formula(Protocol):
    """How to read a computed attribute, and what setting it does."""

    def read(self, module: Any) -> Any:
        """The attribute's value."""

    def write(self, module: Any, value: Any) -> None:
        """What setting the attribute does."""


def compute(module: Module, name: str, formula: Formula) -> None:
    """Make an attribute of one module computed: it no longer has a value of its own."""
    kind = type(module)
    if "_computed" not in kind.__dict__:
        own = {"_computed": {}, "__reduce_ex__": _reduced, "__module__": kind.__module__, "__doc__": kind.__doc__}
        kind = type(f"Parametrized{kind.__name__}", (kind,), own)
        object.__setattr__(module, "__class__", kind)
    formulas: dict[str, Formula] = kind.__dict__["_computed"]
    formulas[name] = formula
    setattr(kind, name, property(formula.read, formula.write))
    wg.config.changed()


def keep(module: Module, name: str) -> None:
    """Make a computed attribute a plain one again; after the last one the module gets its original class back."""
    kind = type(module)
    formulas: dict[str, Formula] = kind.__dict__["_computed"]
    del formulas[name]
    delattr(kind, name)
    if not formulas:
        object.__setattr__(module, "__class__", kind.__mro__[1])
    wg.config.changed()


def formula_of(module: Module, name: str) -> Formula | None:
    """The formula of a computed attribute; None for others."""
    found: dict[str, Formula] = type(module).__dict__.get("_computed", {})
    return found.get(name)


def original_class(module: Module) -> type[Module]:
    """The class that a module had before it got computed attributes."""
    kind = type(module)
    return kind.__mro__[1] if "_computed" in kind.__dict__ else kind


def _reduced(self: Any, protocol: Any) -> Any:
    """For copies and pickles: the class is made anew, from what it was and the formulas."""
    kind = type(self)
    return _rebuilt, (kind.__mro__[1], dict(kind.__dict__["_computed"])), dict(self.__dict__)


def _rebuilt(kind: type[Module], formulas: dict[str, Formula]) -> Module:
    module = kind.__new__(kind)
    for name, formula in formulas.items():
        compute(module, name, formula)
    return module
