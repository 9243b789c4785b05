"""The layer that an error came from: a note on the exception names it by its path in the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import wengert as wg

if TYPE_CHECKING:
    from wengert.nn.module import Module


class NoForward(wg.errors.ArgumentError, NotImplementedError):
    """Raised when a module without a `forward` is called."""


def name_layer(error: Exception, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Note on an error which layer raised it. Called for each module that the error passes through, innermost first.

    The note names the innermost module; each outer module extends its path.
    """
    facts = vars(error)
    layer, given = facts.setdefault("_layer", (module, _shapes([*args, *kwargs.values()])))
    path = next((path for path, inner in module.named_modules() if inner is layer), None)
    if path is None:  # called by this module without being part of it: the path found so far is the best there is
        return
    kind = type(layer).__name__
    name = f"{path} ({kind}) of {type(module).__name__}" if path else kind
    note = f"in {name}, called with {given}"
    notes = getattr(error, "__notes__", [])
    before = facts.get("_layer_note")
    if before in notes:
        notes[notes.index(before)] = note
    else:
        error.add_note(note)
    facts["_layer_note"] = note


def _shapes(values: list[Any]) -> str:
    """`float32 (2, 3), int64 (2,)`: what a layer was called with."""
    shown = [f"{v.dtype} {v.shape}" if isinstance(v, wg.Tensor) else type(v).__name__ for v in values]
    return ", ".join(shown) or "nothing"
