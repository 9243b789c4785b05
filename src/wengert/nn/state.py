"""A model's state by name: taken out as a dict of Tensors, and put back, checked as a whole before anything is set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import wengert as wg

if TYPE_CHECKING:
    from wengert.nn.module import Module


class LoadedKeys(NamedTuple):
    """What `load_state_dict` did not find in the state, and what it did not find in the model."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def slots(module: Module) -> Iterator[tuple[str, wg.Tensor]]:
    """The parameters and persistent buffers with their names. What several modules share comes under each name."""
    for path, layer in module.named_modules(remove_duplicate=False):
        own = [*layer.own_parameters(), *layer.own_buffers(persistent_only=True)]
        yield from ((f"{path}.{name}" if path else name, slot) for name, slot in own)


def load(module: Module, state: Mapping[str, Any], strict: bool) -> LoadedKeys:
    """Give every slot of a module its value in `state`; raise one error for all that does not fit, and set nothing."""
    own = dict(slots(module))
    values = {name: from_anywhere(state[name]) for name in own if name in state}
    missing = [name for name in own if name not in state]
    unexpected = [name for name in state if name not in own]
    misfits = [
        f"{name}: {own[name].shape} in the model, {value.shape} in the state"
        for name, value in values.items()
        if value.shape != own[name].shape
    ]
    listed = _listed("of another shape", misfits)
    if strict:
        listed = _listed("missing from the state", missing) + _listed("not in the model", unexpected) + listed
    if listed:
        hint = "" if misfits else "\n  With strict=False what fits by name is loaded and the rest reported"
        raise wg.errors.ArgumentError(
            f"this state does not fit {type(module).__name__}, and nothing was loaded.{listed}{hint}"
        )
    for name, value in values.items():
        own[name].assign(value)
    return LoadedKeys(missing, unexpected)


def from_anywhere(value: Any) -> wg.Tensor:
    """A Tensor from a Tensor, an array, a number, or another library's tensor that may be tracked or on a device."""
    if isinstance(value, wg.Tensor):
        return value.detach()
    for step in ("detach", "cpu"):
        if hasattr(value, step):
            value = getattr(value, step)()
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":  # NumPy cannot read it; float32 holds it exactly
        value = value.float()
    return wg.tensor(value)


def _listed(what: str, items: Iterable[str]) -> str:
    lines = [f"\n    {item}" for item in items]
    return f"\n  {len(lines)} {what}:{''.join(lines)}" if lines else ""
