"""`Optimizer` as PyTorch has it: groups that are dicts, a state that is a defaultdict, hooks, and steps of one's own.

Wengert's optimizers, under PyTorch's names, are this class and Wengert's (`optimizer_of`). A program's own subclass
defines `step`, as in PyTorch, and its options are plain values.
"""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar

import wengert as wg
from wengert.optim import Optimizer as _Optimizer
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import _named
from wengert.torch.tensor import Tensor, of


class _Required:
    """What stands for an option without a default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class Handle:
    """The handle returned by registering a hook: `remove()` removes it."""

    def __init__(self, hooks: dict[int, Any]) -> None:
        self._hooks = hooks
        self.id = id(self)

    def remove(self) -> None:
        """Remove the hook; calling it again does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def _register(hooks: Any, hook: Any, prepend: bool = False) -> Handle:
    handle = Handle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


class Group(ParameterGroup, dict[str, Any]):
    """A parameter group: a dict with any keys, whose learning rate is stored where compiled steps read it."""

    __hash__ = None

    @classmethod
    def of(cls, group: ParameterGroup) -> Group:
        """The same group, as a dict."""
        made = cls.__new__(cls)
        made.__dict__ = group.__dict__
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Copies and pickles have the attributes, which hold the items."""
        return super().__reduce_ex__(max(2, int(protocol)))[:3]

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "params":
            self._items[name] = [value] if isinstance(value, wg.Tensor) else list(value)
        elif name in self._items:
            super().__setitem__(name, value)
        else:
            self._items[name] = value

    def __delitem__(self, name: str) -> None:
        del self._items[name]

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, dict) and dict(self.items()) == dict(other.items()))

    def __or__(self, other: Any) -> Any:
        return {**dict(self.items()), **other}

    def __ror__(self, other: Any) -> Any:
        return {**other, **dict(self.items())}

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def copy(self) -> dict[str, Any]:
        """A copy of the options as a plain dict."""
        return dict(self.items())


class _State(dict[str, Any]):
    """What an optimizer keeps of a parameter, by name, and how many steps that has taken as `step`."""

    def __init__(self, items: dict[str, Any], counts: Any, parameter: Any) -> None:
        super().__init__(items)
        self._counts = counts
        self._parameter = parameter

    def __missing__(self, name: str) -> Any:
        if name != "step":
            raise KeyError(name)
        return of(self._counts.of(self._parameter).astype(wg.float32))

    def __contains__(self, name: object) -> bool:
        return name == "step" or super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """What is kept under a name."""
        found = name in self
        return self[name] if found else default


class Optimizer(_Optimizer):
    """The base class of the optimizers; a subclass defines `step`."""

    slots: ClassVar[tuple[str, ...]] = ()
    param_groups: list[Any]
    _optimizer_step_pre_hooks: dict[int, Callable[..., Any]]
    _optimizer_step_post_hooks: dict[int, Callable[..., Any]]
    _optimizer_state_dict_pre_hooks: dict[int, Callable[..., Any]]
    _optimizer_state_dict_post_hooks: dict[int, Callable[..., Any]]
    _optimizer_load_state_dict_pre_hooks: dict[int, Callable[..., Any]]
    _optimizer_load_state_dict_post_hooks: dict[int, Callable[..., Any]]

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        _prepare(self)
        super().__init__(params, defaults)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = _with_hooks(vars(cls)["step"])  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "state" and type(value) is dict:
            value = defaultdict(dict, value)
        super().__setattr__(name, value)

    def __getstate__(self) -> dict[str, Any]:
        groups = [dict(group.items()) for group in self.param_groups]
        return {"defaults": self.defaults, "groups": groups, "saved": type(self)._state(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was pickled; a subclass may add options that came later."""
        if "saved" not in state:
            self.__dict__.update(state)
            return
        _prepare(self)
        self.__dict__.update(defaults=state["defaults"], param_groups=[], _counts=[], state=defaultdict(dict))
        for group in state["groups"]:
            self.add_param_group(group)
        type(self)._load(self, state["saved"])

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for i, group in enumerate(self.param_groups):
            options = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            text += f"\nParameter Group {i}\n" + "".join(options)
        return text + ")"

    def initial(self, parameter: Any, group: Any) -> dict[str, Any]:
        """The state of a parameter before its first step, as tensors of this package."""
        return {name: of(value) for name, value in super().initial(parameter, group).items()}

    def check_parameter(self, parameter: Any) -> None:
        """Raise an error for a tensor that cannot be optimised."""
        if not isinstance(parameter, wg.Tensor):
            raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {_name_of(parameter)}")
        if not parameter.is_leaf:
            raise ValueError("can't optimize a non-leaf Tensor")

    # --- groups -----------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own options, and any other keys of the user's."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        names, params = _named(given)
        if not params:
            raise ValueError("optimizer got an empty parameter list")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
        params = list(dict.fromkeys(params))
        if any(p in self.state for p in params):
            raise ValueError("some parameters appear in more than one parameter group")
        known = {name: value for name, value in param_group.items() if name in self.defaults}
        super().add_param_group({**known, "params": list(zip(names, params)) if names else params})
        group = self.param_groups[-1] = Group.of(self.param_groups[-1])
        for name, value in param_group.items():
            if name not in known and name != "params":
                group[name] = value
        if type(self).rule is not _Optimizer.rule:
            self.state.update({p: _State(self.state[p], self._counts[-1], p) for p in params})

    def _take_new_parameters(self) -> None:
        """Have a state and a count for parameters that the program put into a group since."""
        for group, counts in zip(self.param_groups, self._counts):
            fresh = [p for p in group["params"] if p not in counts.missed]
            if fresh:
                for p in fresh:
                    counts.missed[p] = wg.tensor(0, wg.int64, device=p.node.device)
                counts.params[:] = group["params"]
                self._group_changed(group)

    # --- the step ---------------------------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients to None, or to zeros."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad = wg.zeros_like(parameter.grad)

    def _apply(self, gradients: Any, skip: Any) -> None:
        self._take_new_parameters()
        used = {p: p.grad for group in self.param_groups for p in group["params"] if p.grad is not None}
        if used:
            super()._apply(used, skip)

    def step(self, closure: Callable[[], Any] | None = None, *, skip: Any = None) -> Any:
        """Update the parameters from their gradients; defined by subclasses."""
        if type(self).rule is _Optimizer.rule:
            raise NotImplementedError
        return super().step(closure, skip=skip)

    def profile_hook_step(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function; profiling steps needs no hook here."""
        return func

    # --- hooks ------------------------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(optimizer, args, kwargs)` before every step; it may return other arguments."""
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> Handle:
        """Call `hook(optimizer, args, kwargs)` after every step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` before `state_dict`."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` after `state_dict`; it may return another one."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another dict."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> Handle:
        """Call `hook(optimizer)` after loading."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # --- saving and loading -----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """State by parameter index, and the groups' options as plain values."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        found = self._state()
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, found)
            found = found if replaced is None else replaced
        return found

    def _state(self) -> dict[str, Any]:
        if type(self).rule is _Optimizer.rule:
            return self._plain_state()
        found = super().state_dict()
        for held in found["state"].values():
            held.update({name: of(value) for name, value in held.items()}, step=of(held["step"].astype(wg.float32)))
        for group, saved in zip(self.param_groups, found["param_groups"]):
            saved.update({name: group[name] for name in group.slots}, params=saved.pop("params"))
        return found

    def _plain_state(self) -> dict[str, Any]:
        place = {p: i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        groups = [g.copy() for g in self.param_groups]
        for group in groups:
            group["params"] = [place[p] for p in group.pop("params")]
        return {
            "state": {place.get(p, p): dict(held) for p, held in self.state.items() if held},
            "param_groups": groups,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that `state_dict()` returned."""
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            state_dict = state_dict if replaced is None else replaced
        if len(self.param_groups) != len(state_dict["param_groups"]):
            raise ValueError("loaded state dict has a different number of parameter groups")
        self._load(state_dict)
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _load(self, state_dict: dict[str, Any]) -> None:
        if type(self).rule is _Optimizer.rule:
            self._load_plain(state_dict)
        else:
            super().load_state_dict(state_dict)

    def _load_plain(self, state_dict: dict[str, Any]) -> None:
        by_place: dict[Any, Any] = {}
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            if len(group["params"]) != len(saved["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                )
            by_place.update(zip(saved["params"], group["params"]))
            group.update({name: deepcopy(value) for name, value in saved.items() if name != "params"})
        self.state.clear()
        for place, held in state_dict["state"].items():
            p = by_place.get(place, place)
            self.state[p] = {name: _loaded(name, value, p) for name, value in held.items()}
        self.__setstate__({"state": self.state, "param_groups": self.param_groups})


def _prepare(optimizer: Any) -> None:
    for what in ("step", "state_dict", "load_state_dict"):
        for when in ("pre", "post"):
            optimizer.__dict__.setdefault(f"_optimizer_{what}_{when}_hooks", OrderedDict())


def _loaded(name: str, value: Any, p: Any) -> Any:
    """A part of a saved state as the optimizer keeps it: floating-point tensors in the parameter's dtype."""
    if not isinstance(value, wg.Tensor):
        return deepcopy(value)
    kind = p.dtype if name != "step" and wg.isdtype(p.dtype, "real floating") else value.dtype
    return Tensor(value.detach().node).clone().to(kind)


def _name_of(value: Any) -> str:
    return type(value).__name__


_global_pre_hooks: Any = OrderedDict()
_global_post_hooks: Any = OrderedDict()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(optimizer, args, kwargs)` before the steps of all optimizers."""
    return _register(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> Handle:
    """Call `hook(optimizer, args, kwargs)` after the steps of all optimizers."""
    return _register(_global_post_hooks, hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """The step of an optimizer with hooks around it; they see the outermost call alone."""

    @functools.wraps(step)
    def stepped(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not hasattr(self, "_optimizer_step_pre_hooks"):  # a wrapper of another optimizer, which has the hooks
            return step(self, *args, **kwargs)
        before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
        if self.__dict__.get("_is_stepping") or not (before or after or _global_pre_hooks or _global_post_hooks):
            return step(self, *args, **kwargs)
        self.__dict__["_is_stepping"] = True
        try:
            for hook in (*_global_pre_hooks.values(), *before.values()):
                args, kwargs = hook(self, args, kwargs) or (args, kwargs)
            found = step(self, *args, **kwargs)
            for hook in (*after.values(), *_global_post_hooks.values()):
                hook(self, args, kwargs)
        finally:
            del self.__dict__["_is_stepping"]
        return found

    return stepped


optimizers: dict[Any, Any] = {_Optimizer: Optimizer}
"""The class here for each of Wengert's."""


def optimizer_of(kind: Any) -> Any:
    """The optimizer class here for one of Wengert's: it combines that class with `Optimizer`."""
    if kind not in optimizers:
        body: dict[str, Any] = {"__doc__": kind.__doc__, "__module__": "wengert.torch.optim", "slots": kind.slots}
        body["step"] = kind.step

        @functools.wraps(kind.__init__)
        def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
            _prepare(self)
            kind.__init__(self, *args, **kwargs)

        optimizers[kind] = type(kind.__name__, (optimizer_of(kind.__bases__[0]), kind), {**body, "__init__": __init__})
    return optimizers[kind]
