"""A model's state by name: saved as a dict of Tensors, and loaded after checking the whole state first.

Each module saves and loads its own part, in methods that a subclass may replace (`_save_to_state_dict`,
`_load_from_state_dict`, `get_extra_state`, `set_extra_state`), and hooks see the dict on both ways, as in PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import wengert as wg
from wengert.nn.hooks import Hook, HookHandle
from wengert.nn.parts import ModuleParts

_EXTRA = "_extra_state"


class LoadedKeys(NamedTuple):
    """The names that `load_state_dict` did not find in the state, and those it did not find in the model."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class StateBeingLoaded(dict[str, Any]):
    """The part of a state for one module to load, and the report on the whole state."""

    def __init__(self, items: Iterable[tuple[str, Any]], report: LoadReport) -> None:
        super().__init__(items)
        self.report = report


@dataclass
class LoadReport:
    """The results of loading a state so far. Nothing is set before the whole state has been checked."""

    keys: LoadedKeys
    misfits: list[str] = field(default_factory=list)  # values of another shape
    errors: list[str] = field(default_factory=list)  # what methods of the user's have to say
    assignments: list[Callable[[], Any]] = field(default_factory=list)
    afterwards: list[Callable[[], Any]] = field(default_factory=list)  # hooks that want to see what was loaded


class Stateful(ModuleParts):
    """The part of a module that saves and loads its state; see `Module`."""

    _version: int = 1  # of the form of a module's state, for `_load_from_state_dict` of a later one
    _state_hooks: tuple[Hook, ...] = ()

    def state_dict(
        self, destination: MutableMapping[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """The current parameters and persistent buffers by name; later changes do not affect the result.

        They are added to `destination` if it is given. With `keep_vars` they are the Tensors themselves, not copies of
        their values.

        >>> import wengert as wg
        >>> {name: value.shape for name, value in wg.nn.Linear(3, 2).state_dict().items()}
        {'weight': (2, 3), 'bias': (2,)}
        """
        state: Any = {} if destination is None else destination
        metadata = {"version": self._version}
        if hasattr(state, "_metadata"):
            state._metadata[prefix[:-1]] = metadata
        for hook in self._state_hooks_of("before saving"):
            hook.function(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, child in self.named_children():
            child.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_hooks_of("after saving"):
            replaced = hook.function(self, state, prefix, metadata)
            state = state if replaced is None else replaced
        return state

    def _save_to_state_dict(self, destination: MutableMapping[str, Any], prefix: str, keep_vars: bool) -> None:
        """Put what is set on this module itself into a state; a subclass may add to it."""
        for name, slot in [*self.own_parameters(), *self.own_buffers(persistent_only=True)]:
            destination[prefix + name] = slot if keep_vars else slot.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> LoadedKeys:
        """Load values into parameters and buffers by name: Tensors, NumPy arrays or another library's tensors.

        A value is cast to the dtype of its parameter; with `assign` the parameter takes the value's dtype and device.
        Missing and unexpected names raise an error if `strict`, shapes that do not match always do. One error lists
        them all, and then nothing is loaded.
        """
        if not isinstance(state_dict, Mapping):
            raise wg.errors.DTypeError(f"load_state_dict takes a dict of names, not a {type(state_dict).__name__}")
        report = LoadReport(LoadedKeys([], []))
        metadata = getattr(state_dict, "_metadata", None) or {}
        collect(self, StateBeingLoaded(state_dict.items(), report), "", metadata, assign)
        if not report.afterwards:  # which may take names off the lists
            _raise_for(self, report, strict)
        elif report.misfits or report.errors:
            _raise_for(self, report, strict=False)
        for set_value in (*report.assignments, *report.afterwards):
            set_value()
        _raise_for(self, report, strict)
        return report.keys

    def _load_from_state_dict(
        self,
        state_dict: MutableMapping[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take what is set on this module itself from a state; a subclass may look at it first, and change it."""
        for hook in self._state_hooks_of("before loading"):
            owner = (self,) if hook.with_module else ()
            given = (prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
            hook.function(*owner, state_dict, *given)
        report = getattr(state_dict, "report", None)
        own = dict([*self.own_parameters(), *self.own_buffers(persistent_only=True)])
        for name, slot in own.items():
            key = prefix + name
            if key not in state_dict:
                missing_keys.append(key)
                continue
            value = from_anywhere(state_dict[key])
            if value.shape != slot.shape:
                listed = error_msgs if report is None else report.misfits
                listed.append(f"{key}: {slot.shape} in the model, {value.shape} in the state")
            else:
                whole = local_metadata.get("assign_to_params_buffers", False)
                _soon(report, partial(_give, slot, value, whole))
        self._load_extra(state_dict, prefix, strict, missing_keys)
        unexpected_keys += _unexpected(self, state_dict, prefix, own) if strict else []

    def _load_extra(
        self, state_dict: MutableMapping[str, Any], prefix: str, strict: bool, missing_keys: list[str]
    ) -> None:
        if type(self).set_extra_state is Stateful.set_extra_state:
            return
        if prefix + _EXTRA in state_dict:
            state = state_dict[prefix + _EXTRA]
            _soon(getattr(state_dict, "report", None), lambda: self.set_extra_state(state))
        elif strict:
            missing_keys.append(prefix + _EXTRA)

    def get_extra_state(self) -> Any:
        """Extra state of this module to save; a subclass that has some defines this method and `set_extra_state`."""
        raise wg.errors.ArgumentError(f"{type(self).__name__} has no extra state: define get_extra_state(self)")

    def set_extra_state(self, state: Any) -> None:
        """Restore what `get_extra_state` returned."""
        raise wg.errors.ArgumentError(f"{type(self).__name__} has no extra state: define set_extra_state(self, state)")

    # --- hooks ------------------------------------------------------------------------------------------------------

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(module, prefix, keep_vars)` before this module's part of a state is collected."""
        return self._state_hooked(Hook(hook, "before saving"))

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after this module's part is collected; it may change
        it."""
        return self._state_hooked(Hook(partial(_without_answer, hook), "after saving"))

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """As `register_state_dict_post_hook`, of a hook that may return another dict."""
        return self._state_hooked(Hook(hook, "after saving"))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`
        before this module's part is loaded; it may change the dict, to rename what an older model saved.
        """
        return self._state_hooked(Hook(hook, "before loading", with_module=True))

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., Any], with_module: bool = False) -> HookHandle:
        """As `register_load_state_dict_pre_hook`, without the module unless asked for."""
        return self._state_hooked(Hook(hook, "before loading", with_module=with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(module, incompatible_keys)` when everything is loaded; it may remove names from those lists."""
        return self._state_hooked(Hook(partial(_without_answer, hook), "after loading"))

    def _state_hooked(self, hook: Hook) -> HookHandle:
        self._state_hooks = (*self._state_hooks, hook)
        return HookHandle(self, hook, "_state_hooks")

    def _state_hooks_of(self, when: str) -> Iterator[Hook]:
        return (hook for hook in self._state_hooks if hook.when == when)


def _without_answer(hook: Callable[..., Any], *args: Any) -> None:
    if hook(*args) is not None:
        raise wg.errors.ArgumentError(
            f"{hook!r} returned a value; this hook must change its arguments in place and return None"
        )


def collect(module: Any, state: StateBeingLoaded, prefix: str, metadata: Any, assign: bool) -> None:
    """Have a module and its submodules check their parts of a state; the values to set go into the report."""
    report = state.report
    local = dict(metadata.get(prefix[:-1], {}))
    if assign:
        local["assign_to_params_buffers"] = True
    module._load_from_state_dict(state, prefix, local, True, *report.keys, report.errors)
    for name, child in module.named_children():
        inner = f"{prefix}{name}."
        part = StateBeingLoaded(((key, value) for key, value in state.items() if key.startswith(inner)), report)
        collect(child, part, inner, metadata, assign)
    hooks = module._state_hooks_of("after loading")
    report.afterwards += [partial(hook.function, module, report.keys) for hook in hooks]


def _unexpected(module: Stateful, state: Iterable[str], prefix: str, own: Mapping[str, Any]) -> list[str]:
    """The names in a state that begin with a module's prefix and belong to nothing in it."""
    children = {name for name, _ in module.named_children()}
    found = []
    for key in state:
        if key.startswith(prefix):
            name, dot, _ = key[len(prefix) :].partition(".")
            is_extra = key == prefix + _EXTRA and type(module).set_extra_state is not Stateful.set_extra_state
            if not is_extra and name not in (children if dot else own):
                found.append(key)
    return found


def _soon(report: LoadReport | None, act: Callable[[], Any]) -> None:
    """Do something when the whole state was looked at; at once, where a method was called with a dict of its own."""
    if report is None:
        act()
    else:
        report.assignments.append(act)


def _give(slot: wg.Tensor, value: wg.Tensor, whole: bool) -> None:
    if whole:
        slot.to_(value.dtype, value.device)
    slot.assign(value)


def _raise_for(module: Any, report: LoadReport, strict: bool) -> None:
    listed = _listed("of another shape", report.misfits) + _listed("that could not be loaded", report.errors)
    if strict:
        missing, unexpected = report.keys
        listed = _listed("missing from the state", missing) + _listed("not in the model", unexpected) + listed
    if listed:
        hint = "" if report.misfits else "\n  With strict=False the names that match are loaded and the rest reported"
        done = "the rest was loaded" if report.afterwards and not report.misfits else "nothing was loaded"
        raise wg.errors.ArgumentError(f"this state does not fit {type(module).__name__}, and {done}.{listed}{hint}")


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
