"""Cases for normalisation. Training with running statistics, which assigns them, is in test_normalize.py."""

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
    function = getattr(F, name) if F is not None else None
    if function is None:
        return None

    def call(*args: Any, axis: Any = None, **kwargs: Any) -> Any:
        return function(*args, **kwargs) if axis is None else function(*args, dim=axis, **kwargs)

    return call


def _case(name: str, *args: Any, numpy: Any = None, torch: bool = True, **kwargs: Any) -> Case:
    return Case(name, args, kwargs, numpy=numpy, torch=_torch(name) if torch else None)


def _layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    axes = tuple(range(-len(np.atleast_1d(shape)), 0))
    y = (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)
    return y * (1 if weight is None else weight) + (0 if bias is None else bias)


def _unit(x: Any, axis: int) -> Any:
    return x / np.maximum(np.linalg.norm(x, axis=axis, keepdims=True), 1e-12)


_rows, _cube, _scale, _shift = arrays(1, (4, 3), (2, 3, 4), (3,), (3,))
_images, _wide, _more = arrays(2, (2, 4, 2, 3), (4,), (4,))
_square_scale, _square_shift = arrays(3, (3, 4), (3, 4))
_mean, _var = arrays(4, (4,), (4,), low=0.5, high=2.0)
_left, _right = arrays(5, (3, 4), (3, 4))

CASES = [
    _case("layer_norm", _rows, (3,), numpy=_layer_norm),
    _case("layer_norm", _rows, 3, _scale, _shift, numpy=_layer_norm, torch=False),
    _case("layer_norm", _cube, (3, 4), _square_scale, _square_shift, numpy=_layer_norm),
    _case("layer_norm", _cube.transpose(2, 0, 1), (3,), _scale, eps=0.1, numpy=_layer_norm),
    _case("layer_norm", _rows[:0], (3,), _scale, _shift),
    _case("layer_norm", _rows[:, :1], (1,), eps=0.5, numpy=_layer_norm),
    _case("layer_norm", _rows[0], (3,), _scale, _shift, numpy=_layer_norm),
    _case("rms_norm", _rows, (3,)),
    _case("rms_norm", _rows, (3,), _scale, eps=0.1),
    _case(
        "rms_norm",
        _cube,
        (3, 4),
        _square_scale,
        numpy=lambda x, s, w: x / np.sqrt((x * x).mean((1, 2), keepdims=True)) * w,
    ),
    _case("rms_norm", _cube.transpose(2, 0, 1), (3,), _scale),
    _case("rms_norm", _rows[:0], (3,)),
    _case("rms_norm", _rows[:, :1], (1,)),
    _case("group_norm", _images, 2),
    _case("group_norm", _images, 4, _wide, _more),
    _case("group_norm", _images.transpose(0, 1, 3, 2), 1, _wide, eps=0.1),
    _case("group_norm", _images[:, :, 0, 0], 2, _wide, _more),
    _case("group_norm", _images[:0], 2, _wide, _more),
    _case("batch_norm", _images, None, None, training=True),
    _case("batch_norm", _images, None, None, _wide, _more, training=True, eps=0.1),
    _case("batch_norm", _images, _mean, _var),
    _case("batch_norm", _images.transpose(0, 1, 3, 2), _mean, _var, _wide, _more),
    _case("batch_norm", _images[:, :, 0, 0], _mean, _var, _wide),
    _case("batch_norm", _rows, None, None, _scale, _shift, training=True),
    _case("batch_norm", _images[:0], _mean, _var, _wide, _more),
    _case("batch_norm", _images[:1, :, :1], None, None, training=True),
    _case("instance_norm", _images),
    _case("instance_norm", _images, None, None, _wide, _more, eps=0.1),
    _case("instance_norm", _images.transpose(0, 1, 3, 2), _mean, _var, use_input_stats=False),
    _case("instance_norm", _images[..., 0], None, None, _wide),
    _case("instance_norm", _images[:1, :1]),
    _case("instance_norm", _images[:0], _mean, _var, use_input_stats=False),
    _case("local_response_norm", _images, 3, alpha=0.5),
    _case("local_response_norm", _images, 2, 1.0, 0.5, 2.0),
    _case("local_response_norm", _images[..., 0], 5, alpha=1.0),
    _case("local_response_norm", _images.transpose(0, 1, 3, 2), 1, alpha=1.0),
    _case("local_response_norm", _images[:0], 2),
    _case("normalize", _rows, numpy=lambda x: _unit(x, 1)),
    _case("normalize", _cube, axis=-1, numpy=lambda x, axis: _unit(x, axis)),
    _case("normalize", _cube.transpose(2, 0, 1), 3.0, axis=0),
    _case("normalize", _rows, 1.0, eps=10.0),
    _case("normalize", _rows[:0]),
    _case("normalize", _rows[:, :1]),
    _case("cosine_similarity", _left, _right),
    _case("cosine_similarity", _left, _right, axis=0),
    _case("cosine_similarity", _left.T, _right[:1].T, axis=0),
    _case(
        "cosine_similarity", _left[0], _right[0], axis=-1, numpy=lambda a, b, axis: a @ b / np.sqrt((a @ a) * (b @ b))
    ),
    _case("cosine_similarity", _left[:0], _right[:0]),
    _case("cosine_similarity", _cube, _cube[::-1], axis=2),
]
