"""Functions of Wengert's that are PyTorch's but for what an argument is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.torch.nn.accepted import require_one_dtype

WEIGHTED = {"linear", *(f"conv{how}{n}d" for how in ("", "_transpose") for n in (1, 2, 3))}
_NAMES = (  # noqa: SIM905
    "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
    "adaptive_max_pool3d affine_grid avg_pool1d avg_pool2d avg_pool3d batch_norm channel_shuffle conv1d "
    "conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d ctc_loss embedding fold fractional_max_pool2d "
    "fractional_max_pool3d gaussian_nll_loss grid_sample group_norm instance_norm interpolate layer_norm linear "
    "local_response_norm logsigmoid lp_pool1d lp_pool2d lp_pool3d max_pool1d max_pool2d max_pool3d max_unpool1d "
    "max_unpool2d max_unpool3d pdist pixel_shuffle pixel_unshuffle rms_norm sigmoid softsign tanh unfold"
).split()

_ARGUMENTS = {"x": "input", "axis": "dim"}


def renamed(function: Callable[..., Any], names: dict[str, str] = _ARGUMENTS) -> Callable[..., Any]:
    """A function that accepts some arguments of another one under PyTorch's names."""
    signature = inspect.signature(function)
    given = [p.replace(name=names.get(name, name)) for name, p in signature.parameters.items() if name != "generator"]
    given = [p.replace(kind=p.POSITIONAL_OR_KEYWORD) if p.kind is p.POSITIONAL_ONLY else p for p in given]
    only = {names.get(n, n): i for i, (n, p) in enumerate(signature.parameters.items()) if p.kind is p.POSITIONAL_ONLY}
    back = {new: old for old, new in names.items() if old in signature.parameters}

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            positional = [kwargs.pop(name) for name, i in only.items() if i >= len(args) and name in kwargs]
            return function(*args, *positional, **{back.get(name, name): value for name, value in kwargs.items()})
        return function(*args)

    call.__signature__ = signature.replace(parameters=given)  # type: ignore[attr-defined]
    return call


def of_one_dtype(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of an input and a weight that refuses two dtypes."""
    name = function.__name__

    @functools.wraps(function)
    def call(x: Any, weight: Any, *args: Any, **kwargs: Any) -> Any:
        require_one_dtype(name, x, weight)
        return function(x, weight, *args, **kwargs)

    return call


for _name in _NAMES:
    _function = getattr(wg, _name)
    globals()[_name] = renamed(of_one_dtype(_function) if _name in WEIGHTED else _function)

bilinear = renamed(wg.bilinear, {"x1": "input1", "x2": "input2"})
pairwise_distance = renamed(wg.pairwise_distance)

__all__ = [*_NAMES, "bilinear", "pairwise_distance"]
