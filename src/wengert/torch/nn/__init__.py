"""`torch.nn`: Wengert's layers, as modules of this package."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any

import wengert as wg
from wengert.nn import cells as _cells
from wengert.nn import recurrent as _recurrent
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.nn import functional, init, parameter
from wengert.torch.nn import in_place as _in_place
from wengert.torch.nn import layer_parts as _layer_parts
from wengert.torch.nn import lazy as _lazy
from wengert.torch.nn import loss_arguments as _loss_arguments
from wengert.torch.nn.module import Module, layer_of
from wengert.torch.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

for _name, _kind in list(vars(wg.nn).items()):
    if isinstance(_kind, type) and issubclass(_kind, wg.nn.Module):
        globals()[_name] = layer_of(_kind)

from wengert.torch.nn.extra_layers import (  # noqa: E402  (which are made of those)
    AdaptiveLogSoftmaxWithLoss,
    Container,
    CrossMapLRN2d,
    LinearCrossEntropyLoss,
    LinearCrossEntropyOptions,
    NLLLoss2d,
    SyncBatchNorm,
)

RNNBase, RNNCellBase = layer_of(_recurrent._Recurrent), layer_of(_cells._Cell)


def factory_kwargs(kwargs: dict[str, Any] | None) -> dict[str, Any]:
    """The arguments for creating a layer's parameters, from `factory_kwargs` or given separately."""
    if kwargs is None:
        return {}
    names = {"device", "dtype", "memory_format"}
    others = kwargs.keys() - names - {"factory_kwargs"}
    if others:
        raise TypeError(f"unexpected kwargs {others}")
    found = dict(kwargs.get("factory_kwargs", {}))
    for name in kwargs.keys() & names:
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = kwargs[name]
    return found


def _forward_of_dropout2d(self: Any, input: Any) -> Any:
    """What the function does, which takes (N, C, L) and (N, C) too."""
    return functional.dropout2d(input, self.p, self.training, self.inplace)


globals()["Dropout2d"].forward = _forward_of_dropout2d


def __getattr__(name: str) -> Any:
    if name in ("attention", "common_types", "grad", "modules", "parallel", "utils"):
        return _import_module(f"wengert.torch.nn.{name}")
    if name in ("DataParallel", "DistributedDataParallel"):
        return getattr(_import_module("wengert.torch.nn.parallel"), name)
    return _missing_attribute("torch.nn", name)
