"""`torch.nn.modules`: the layers under the paths that PyTorch's files have."""

from __future__ import annotations

from importlib import import_module as _import_module
from pathlib import Path
from typing import Any

import wengert.torch.nn as nn
from wengert import nn as _wg
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.nn.extra_layers import NonDynamicallyQuantizableLinear
from wengert.torch.nn.lazy import LazyModuleMixin
from wengert.torch.nn.module import layer_of

_BASES = {
    "_BatchNorm": _wg.normalization._BatchNorm,
    "_NormBase": _wg.normalization._ByChannel,
    "_InstanceNorm": _wg.normalization._InstanceNorm,
    "_ConvNd": _wg.conv._ConvBase,
    "_ConvTransposeNd": _wg.conv._ConvTranspose,
    "RNNBase": _wg.recurrent._Recurrent,
    "RNNCellBase": _wg.cells._Cell,
    "_Loss": _wg.loss._Loss,
    "_WeightedLoss": _wg.loss._Loss,
    "_DropoutNd": _wg.dropout._Dropout,
    "_MaxPoolNd": _wg.pooling._MaxPool,
}

_FILES = {path.stem for path in Path(__file__).parent.glob("*.py")} - {"__init__"}


def layers_here() -> dict[str, Any]:
    """The layers of `torch.nn`, and the bases that PyTorch's files have, by name."""
    found = {name: value for name, value in vars(nn).items() if isinstance(value, type)}
    others = {"NonDynamicallyQuantizableLinear": NonDynamicallyQuantizableLinear, "LazyModuleMixin": LazyModuleMixin}
    return found | {name: layer_of(base) for name, base in _BASES.items()} | others


globals().update(layers_here())


def __getattr__(name: str) -> Any:
    if name in _FILES:
        return _import_module(f"wengert.torch.nn.modules.{name}")
    return _missing_attribute("torch.nn.modules", name)
