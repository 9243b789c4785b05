"""`torch.nn.init`: initial values; drawn as Wengert's, or as PyTorch's with `--torch-random`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.nn import init as _init
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.random import randperm


def _filling(name: str) -> Callable[..., Any]:
    """The function that fills a tensor, without recording it for gradients; views are filled where they lie."""
    function = getattr(_init, name)

    @functools.wraps(function)
    def fill(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        with wg.no_grad():
            function(tensor, *args, **kwargs)
        return tensor

    return fill


uniform_, normal_, trunc_normal_ = map(_filling, ("uniform_", "normal_", "trunc_normal_"))
constant_, ones_, zeros_, eye_, dirac_ = map(_filling, ("constant_", "ones_", "zeros_", "eye_", "dirac_"))
xavier_uniform_, xavier_normal_ = map(_filling, ("xavier_uniform_", "xavier_normal_"))
kaiming_uniform_, kaiming_normal_ = map(_filling, ("kaiming_uniform_", "kaiming_normal_"))
orthogonal_ = _filling("orthogonal_")


def sparse_(tensor: Any, sparsity: float, std: float = 0.01, generator: Any = None) -> Any:
    """Normally distributed numbers, a fraction of each column being 0, at random rows."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    normal_(tensor, 0, std, generator)
    with wg.no_grad():
        for column in range(columns):
            tensor[randperm(rows, generator=generator)[:zeros], column] = 0
    return tensor


calculate_gain = _init.calculate_gain
_calculate_fan_in_and_fan_out = _init.fan_in_and_fan_out


def _calculate_correct_fan(tensor: Any, mode: str) -> int:
    """The fan in, or the fan out."""
    if mode.lower() not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    fan_in, fan_out = _init.fan_in_and_fan_out(tensor)
    return fan_in if mode.lower() == "fan_in" else fan_out


# Their names before PyTorch 0.4.
uniform, normal, constant, eye, dirac = uniform_, normal_, constant_, eye_, dirac_
xavier_uniform, xavier_normal = xavier_uniform_, xavier_normal_
kaiming_uniform, kaiming_normal, orthogonal, sparse = kaiming_uniform_, kaiming_normal_, orthogonal_, sparse_


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.nn.init", name)
