"""Lazy layers with PyTorch's looks before their first input: uninitialised parameters, and 0 for the size to come."""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.nn.lazy import LazyModule
from wengert.torch.nn.module import layer_of, part_of, parts
from wengert.torch.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy

LAZY = tuple(name for name, kind in vars(wg.nn).items() if isinstance(kind, type) and issubclass(kind, LazyModule))
_SIZES = ("in_features", "in_channels", "num_features")


class LazyModuleMixin:
    """What a layer that is made by its first input inherits from, beside the layer: see `initialize_parameters`."""

    cls_to_become: Any = None

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or a buffer is still to be made."""
        return any(map(is_lazy, [*self._parameters.values(), *self._buffers.values()]))

    def initialize_parameters(self: Any, *args: Any, **kwargs: Any) -> None:
        """Make the parameters that an input like this asks for; a subclass says how."""
        raise NotImplementedError(f"initialize_parameters is not implemented for {type(self).__name__}")

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.has_uninitialized_params():
            self.initialize_parameters(*args, **kwargs)
            if self.cls_to_become is not None:
                object.__setattr__(self, "__class__", self.cls_to_become)
        return super().__call__(*args, **kwargs)  # type: ignore[misc]


def _plain(kind: Any, options: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """The layer to come, for one feature, or one channel a group, with parameters that were not drawn."""
    undrawn = type(kind.__name__, (kind,), {"reset_parameters": lambda self: None})
    return undrawn(named.get("groups", 1), *options, **named)


@part_of(*LAZY)
def _adapt(self: Any) -> None:
    """Have the attributes of the layer to come, with 0 for its size, and parameters that wait."""
    if "_options" not in self.__dict__:
        return
    made = _plain(self.cls_to_become, self._options, self._named)
    for name, value in made.__dict__.items():
        if name in _SIZES:
            object.__setattr__(self, name, 0)
        elif name not in self.__dict__ and not isinstance(value, wg.Tensor):
            self.__dict__[name] = value
    self.__dict__["_persistent"] = dict(made._persistent)
    for name in made._parameters:
        absent = getattr(made, name) is None
        self._declare(name, "parameter", None if absent else UninitializedParameter(**_place(made, name)))
    for name in made._buffers:
        slot = getattr(made, name)
        self._declare(
            name, "buffer", UninitializedBuffer(**_place(made, name)) if slot is not None and slot.ndim else slot
        )


def _place(made: Any, name: str) -> dict[str, Any]:
    slot = getattr(made, name)
    return {"device": slot.node.device, "dtype": slot.node.dtype}


@part_of(*LAZY)
def extra_repr(self: Any) -> str:
    """What the layer to come shows."""
    return self.cls_to_become.extra_repr(self)


@part_of(*LAZY)
def has_uninitialized_params(self: Any) -> bool:
    """Whether the parameters are still to be made."""
    return any(map(is_lazy, [*self._parameters.values(), *self._buffers.values()]))


@part_of(*LAZY)
def initialize_parameters(self: Any, input: Any, *args: Any, **kwargs: Any) -> None:
    """Make the parameters that an input like this asks for, in the tensors that wait for them."""
    before = {name: self.__dict__[name] for name in self._slot_names() if self.__dict__[name] is not None}
    for name in [*_SIZES, *self._slot_names(), "_persistent", "_declared"]:
        self.__dict__.pop(name, None)
    LazyModule.initialize_parameters(self, input)
    for name, slot in before.items():
        self.__dict__[name] = slot.materialize_from(self.__dict__[name]) if is_lazy(slot) else slot


@part_of(*LAZY)
def _load_from_state_dict(self: Any, state_dict: Any, prefix: str, *args: Any) -> None:
    """Take the shapes of what is loaded."""
    for name in self._slot_names():
        given = state_dict.get(prefix + name)
        if is_lazy(self.__dict__[name]) and given is not None and not is_lazy(given):
            self.__dict__[name].materialize(given.shape)
    LazyModule._load_from_state_dict(self, state_dict, prefix, *args)


@part_of(*LAZY)
def _slot_names(self: Any) -> list[str]:
    """The names of parameters and buffers."""
    return [*self._parameters, *self._buffers]


for _name in LAZY:
    _becomes: Any = getattr(wg.nn, _name).cls_to_become
    parts[_name]["cls_to_become"] = layer_of(_becomes)
    parts[_name]["transposed"] = getattr(_becomes, "transposed", False)
