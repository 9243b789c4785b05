"""Copies and files: `copy.deepcopy` and pickling of tensors and views, which keep who shares memory with whom."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from wengert.ops.core import data, stop_gradient, to_device
from wengert.tensor import engine
from wengert.torch.memory import view_class
from wengert.torch.registry import methods
from wengert.torch.tensor import Tensor
from wengert.torch.views import Geometry, View, ViewOf, detached

# --- copies and files -------------------------------------------------------------------------------------------------


def deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    """A deep copy, including the memory that it shares."""
    if id(self) in memo:
        return memo[id(self)]
    if self.node.tracked and not self._is_variable():
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )
    if isinstance(self, View):
        twin: Any = ViewOf(self._chain, self._geometry, self._is_detached)(_copied_root(self._root, memo))
    else:
        twin = Tensor(stop_gradient(self.node))
    memo[id(self)] = twin
    twin = _as_class(twin, self, memo)
    return twin


def _copied_root(root: Any, memo: dict[int, Any]) -> Any:
    if id(root) in memo or isinstance(root, View) or not root.node.tracked or root._is_variable():
        return copy.deepcopy(root, memo)
    memo[id(root)] = twin = Tensor(stop_gradient(root.node))
    return twin


def _as_class(twin: Any, of: Any, memo: dict[int, Any]) -> Any:
    """The twin with the class, the attributes and the gradient of its model."""
    kind = _kind_of(of)
    if type(twin) is not kind:
        twin.__class__ = kind
    for name, value in vars(of).items():
        if name not in vars(twin) and name not in _OURS:
            setattr(twin, name, copy.deepcopy(value, memo))
    if of._is_variable():
        twin.requires_grad = True
    if of._grad is not None:
        twin._grad = copy.deepcopy(of._grad, memo)
    return twin


def _kind_of(x: Any) -> type:
    """The class of a tensor, apart from whether it shares an array's memory just now."""
    kind: type = getattr(x, "_kind", type(x))
    return kind


_OURS = {
    "_writes",
    "_looks",
    "_place",
    "_kind",
    "_array",
    "_is_frozen",
    "_named",
    *vars(View(Tensor(data(np.zeros(0))), (), Geometry((0,), (1,), 0))),
}


def _reduce(self: Any, protocol: Any = None) -> Any:
    """Pickling keeps the value, whether it is a leaf, and what it shares memory with."""
    extra = {name: value for name, value in vars(self).items() if name not in _OURS}
    if isinstance(self, View):
        kind = next(c for c in type(self).__mro__ if not issubclass(c, View))
        kind = type(self) if type(self) is View else kind
        made = (self._root, self._chain, self._geometry, self._is_detached)
        return _view_again, (*made, kind, self._is_variable(), extra)
    array = np.array(engine.value(self.node))
    return _tensor_again, (array, self.node.device, _kind_of(self), self._is_variable(), extra)


def _tensor_again(array: Any, device: str, kind: type, requires_grad: bool, extra: dict[str, Any]) -> Any:
    try:
        node = to_device(data(array), device)
    except Exception:  # a device that this machine has not
        node = data(array)
    made = Tensor(node)
    if kind is not Tensor:
        made.__class__ = kind
    vars(made).update(extra)
    return made.requires_grad_() if requires_grad else made


def _view_again(
    root: Any, chain: Any, at: Any, is_detached: bool, kind: type, requires_grad: bool, extra: dict[str, Any]
) -> Any:
    made = View(root, chain, at, is_detached=is_detached)
    if kind is not View:
        made.__class__ = view_class(kind)
    vars(made).update(extra)
    return made.requires_grad_() if requires_grad else made


methods["__deepcopy__"] = deepcopy
View.__deepcopy__ = deepcopy  # type: ignore[method-assign]
methods["__copy__"] = lambda self: detached(self) if not self._is_variable() else detached(self).requires_grad_()
methods["__reduce_ex__"] = _reduce
