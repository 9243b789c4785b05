"""Cases for pooling, unfold and fold: strides, paddings, ceil_mode, sizes that do not divide, no batch axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

try:
    import torch.nn.functional as F
except ImportError:
    F = None  # type: ignore[assignment]


def _torch(name: str) -> Callable[..., Any] | None:
    return getattr(F, name) if F is not None else None


def _apart(seed: int, shape: tuple[int, ...]) -> Any:
    """Values in random order that are at least a tenth apart: no ties near, in any precision."""
    count = int(np.prod(shape))
    return (np.random.default_rng(seed).permutation(count).reshape(shape) - count / 2) / 10


def _case(name: str, x: Any, *args: Any, numpy: Any = None, **kwargs: Any) -> Case:
    return Case(name, (x, *args), kwargs, numpy=numpy, torch=_torch(name))


def _blocks(x: Any, k: int) -> Any:
    return x.reshape(*x.shape[:-2], x.shape[-2] // k, k, x.shape[-1] // k, k)


_line, _plane, _tall = _apart(1, (2, 2, 7)), _apart(2, (1, 2, 5, 5)), _apart(3, (2, 1, 6, 4))
_nothing = np.zeros((0, 2, 5, 5))
_columns = arrays(4, (1, 8, 6), (4, 9), (2, 4, 4))

CASES = [
    _case("max_pool1d", _line, 2),
    _case("max_pool1d", _line, 3, stride=1, padding=1),
    _case("max_pool1d", _line[0], 2, stride=3, ceil_mode=True),
    _case("max_pool1d", _line[..., ::2], 2, 1, 1, 2),
    _case("max_pool1d", _line[:0], 2),
    _case("max_pool1d", _line[..., :1], 1),
    _case("max_pool1d", _line, 2, return_indices=True),
    _case("max_pool2d", _tall, 2, numpy=lambda x, k: _blocks(x, k).max((-3, -1))),
    _case("max_pool2d", _plane, 3, stride=2, padding=1),
    _case("max_pool2d", _plane, (2, 3), stride=(2, 1), padding=(1, 0)),
    _case("max_pool2d", _plane, 2, stride=2, ceil_mode=True),
    _case("max_pool2d", _plane, 2, stride=3, padding=1, ceil_mode=True),
    _case("max_pool2d", _plane, 2, stride=1, dilation=(2, 3)),
    _case("max_pool2d", _plane[0].transpose(0, 2, 1), 3, stride=1),
    _case("max_pool2d", _plane, 2, padding=1, return_indices=True),
    _case("max_pool2d", _nothing, 2),
    _case("max_pool2d", _plane[..., :1, :1], 1),
    _case("avg_pool1d", _line, 2),
    _case("avg_pool1d", _line, 3, stride=2, padding=1),
    _case("avg_pool1d", _line, 3, stride=2, padding=1, count_include_pad=False),
    _case("avg_pool1d", _line[0], 2, ceil_mode=True),
    _case("avg_pool1d", _line[..., ::2], 3, stride=3, padding=1, ceil_mode=True),
    _case("avg_pool1d", _line[:0], 2),
    _case("avg_pool2d", _tall, 2, numpy=lambda x, k: _blocks(x, k).mean((-3, -1))),
    _case("avg_pool2d", _plane, 3, stride=2, padding=1),
    _case("avg_pool2d", _plane, 3, stride=2, padding=1, count_include_pad=False),
    _case("avg_pool2d", _plane, (2, 3), stride=(3, 1), padding=(0, 1), ceil_mode=True),
    _case("avg_pool2d", _plane, 2, stride=2, padding=1, ceil_mode=True, count_include_pad=False),
    _case("avg_pool2d", _plane[0].transpose(0, 2, 1), 2, stride=1, divisor_override=3),
    _case("avg_pool2d", _nothing, 2),
    _case("avg_pool2d", _plane[..., :1, :1], 1),
    _case("adaptive_avg_pool1d", _line, 3),
    _case("adaptive_avg_pool1d", _line, 1, numpy=lambda x, n: x.mean(-1, keepdims=True)),
    _case("adaptive_avg_pool1d", _line[0], 9),
    _case("adaptive_avg_pool1d", _line[..., ::2], 2),
    _case("adaptive_avg_pool1d", _line, 7),
    _case("adaptive_avg_pool1d", _line[:0], 3),
    _case("adaptive_avg_pool2d", _plane, 2),
    _case("adaptive_avg_pool2d", _plane, 1, numpy=lambda x, n: x.mean((-2, -1), keepdims=True)),
    _case("adaptive_avg_pool2d", _tall, (3, None)),
    _case("adaptive_avg_pool2d", _tall, (4, 3)),
    _case("adaptive_avg_pool2d", _plane[0].transpose(0, 2, 1), (7, 3)),
    _case("adaptive_avg_pool2d", _nothing, 2),
    _case("adaptive_max_pool1d", _line, 3),
    _case("adaptive_max_pool1d", _line, 1, numpy=lambda x, n: x.max(-1, keepdims=True)),
    _case("adaptive_max_pool1d", _line[0], 5),
    _case("adaptive_max_pool1d", _line[..., ::2], 2),
    _case("adaptive_max_pool1d", _line[:0], 2),
    _case("adaptive_max_pool2d", _plane, 2),
    _case("adaptive_max_pool2d", _plane, 1, numpy=lambda x, n: x.max((-2, -1), keepdims=True)),
    _case("adaptive_max_pool2d", _tall, (4, 3)),
    _case("adaptive_max_pool2d", _plane[0].transpose(0, 2, 1), (3, 5)),
    _case("adaptive_max_pool2d", _nothing, (2, 3)),
    _case("unfold", _plane, 2),
    _case("unfold", _plane, (2, 3), padding=1, stride=2),
    _case("unfold", _plane[0], 2, dilation=(1, 2), padding=(0, 1)),
    _case("unfold", _tall.transpose(0, 1, 3, 2), 3, stride=(1, 3)),
    _case("unfold", _nothing, 2),
    _case("unfold", _plane[..., :1, :1], 1),
    _case("fold", _columns[0], (3, 4), 2),
    _case("fold", _columns[1], (4, 4), 2, stride=1),
    _case("fold", _columns[2], (4, 4), 2, stride=2),
    _case("fold", _columns[2].transpose(0, 2, 1), (2, 2), 2, padding=1, stride=2),
    _case("fold", _columns[0], (3, 5), (2, 1), dilation=2, padding=(1, 0), stride=2),
    _case("fold", _columns[0][:0], (3, 4), 2),
]
