"""Loading a state into a module: Wengert's way, which looks at all of it first, with PyTorch's answers and errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import wengert as wg
from wengert.nn.state import LoadedKeys, LoadReport, StateBeingLoaded, collect
from wengert.torch.devices import Size


class _IncompatibleKeys(NamedTuple):
    """What was missing from a state, and what was in it that the module does not know."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys!r}, unexpected_keys={self.unexpected_keys!r})"

    def __str__(self) -> str:
        return repr(self)


def load(module: Any, state: Any, strict: bool, assign: bool) -> _IncompatibleKeys:
    """Give a module's parameters and buffers the values of a state."""
    if not isinstance(state, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state)}.")
    report = LoadReport(LoadedKeys([], []))
    metadata = getattr(state, "_metadata", None) or {}
    collect(module, StateBeingLoaded(state.items(), report), "", metadata, assign)
    messages = _misfits(module, state, report) + report.errors
    if messages or not report.afterwards:
        _raise(module, report, messages, strict)
    with wg.no_grad():
        for set_value in (*report.assignments, *report.afterwards):
            set_value()
    _raise(module, report, messages, strict)
    return _IncompatibleKeys(*report.keys)


def _misfits(module: Any, state: Mapping[str, Any], report: LoadReport) -> list[str]:
    slots = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers())}
    found = []
    for key in (text.partition(": ")[0] for text in report.misfits):
        given, own = (Size(tuple(x.shape)) for x in (state[key], slots[key]))
        found.append(
            f"size mismatch for {key}: copying a param with shape {given} from checkpoint, "
            f"the shape in current model is {own}."
        )
    return found


def _raise(module: Any, report: LoadReport, messages: list[str], strict: bool) -> None:
    listed = list(messages)
    if strict:
        lists = zip(("Missing", "Unexpected"), report.keys)
        named = [(what, ", ".join(f'"{key}"' for key in keys)) for what, keys in lists if keys]
        listed = [f"{what} key(s) in state_dict: {names}. " for what, names in named] + listed
    if listed:
        text = "\n\t".join(listed)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{text}")
