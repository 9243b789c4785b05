"""Cases for pooling in three dimensions and back, adaptive indices, resizing, sampling by a grid, windows, channels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = F = None  # type: ignore[assignment]


def _torch(name: str) -> Callable[..., Any] | None:
    return getattr(F, name) if F is not None else None


def _apart(seed: int, shape: tuple[int, ...]) -> Any:
    """Values in random order that are at least a tenth apart: no ties near, in any precision."""
    count = int(np.prod(shape))
    return (np.random.default_rng(seed).permutation(count).reshape(shape) - count / 2) / 10


def _case(name: str, x: Any, *args: Any, **kwargs: Any) -> Case:
    return Case(name, (x, *args), kwargs, torch=_torch(name))


_line, _plane, _volume = _apart(1, (2, 2, 7)), _apart(2, (1, 2, 5, 4)), _apart(3, (1, 2, 3, 4, 3))
_nothing = np.zeros((0, 2, 3, 4, 3))

_POOLS = [
    _case("max_pool3d", _volume, 2),
    _case("max_pool3d", _volume[0], (2, 3, 2), stride=1),
    _case("max_pool3d", _volume, 2, stride=2, padding=1, ceil_mode=True),
    _case("max_pool3d", _volume, (1, 2, 2), stride=1, dilation=(1, 2, 1), return_indices=True),
    _case("max_pool3d", _nothing, 2),
    _case("avg_pool3d", _volume, 2),
    _case("avg_pool3d", _volume[0], (2, 3, 2), stride=1),
    _case("avg_pool3d", _volume, 2, stride=2, padding=1, ceil_mode=True),
    _case("avg_pool3d", _volume, 2, padding=1, count_include_pad=False),
    _case("avg_pool3d", _volume, (1, 2, 2), stride=1, divisor_override=3),
    _case("adaptive_avg_pool3d", _volume, 2),
    _case("adaptive_avg_pool3d", _volume, 1),
    _case("adaptive_avg_pool3d", _volume[0], (3, 2, 1)),
    _case("adaptive_avg_pool3d", _volume, (None, 3, 2)),
    _case("adaptive_avg_pool3d", _nothing, 2),
    _case("adaptive_max_pool3d", _volume, 2),
    _case("adaptive_max_pool3d", _volume, (3, 2, 1), return_indices=True),
    _case("adaptive_max_pool3d", _volume[0], (2, 3, 2), return_indices=True),
    _case("adaptive_max_pool3d", _volume, (None, 3, 2)),
    _case("adaptive_max_pool3d", _nothing, 2),
    _case("adaptive_max_pool2d", _plane, (3, 2), return_indices=True),
    _case("adaptive_max_pool2d", _plane, (5, 2), return_indices=True),
    _case("adaptive_max_pool1d", _line, 3, return_indices=True),
    _case("lp_pool1d", np.abs(_line) + 0.1, 2, 2),
    _case("lp_pool1d", np.abs(_line) + 0.1, 3.0, 3, stride=2),
    _case("lp_pool1d", np.abs(_line[0]) + 0.1, 1, 2, ceil_mode=True),
    _case("lp_pool1d", _line + 0.05, 2, 3),
    _case("lp_pool1d", np.abs(_line) + 0.1, 0.5, 2, 1),
    _case("lp_pool2d", np.abs(_plane) + 0.1, 2, 2),
    _case("lp_pool2d", np.abs(_plane) + 0.1, 3.0, (2, 3), stride=1),
    _case("lp_pool2d", np.abs(_plane[0]) + 0.1, 1.5, 2, ceil_mode=True),
    _case("lp_pool2d", _plane + 0.05, 2, 3, 2),
    _case("lp_pool2d", np.abs(_plane) + 0.1, 4, 2, 3),
    _case("lp_pool3d", np.abs(_volume) + 0.1, 2, 2),
    _case("lp_pool3d", np.abs(_volume) + 0.1, 3.0, (2, 3, 1), stride=1),
    _case("lp_pool3d", np.abs(_volume[0]) + 0.1, 1.5, 2, ceil_mode=True),
    _case("lp_pool3d", _volume + 0.05, 2, 3),
    _case("lp_pool3d", np.abs(_volume) + 0.1, 4, 2, 3),
]


def _unpools() -> list[Case]:
    """Values with the places that pooling would give."""
    line, plane, volume = arrays(5, (2, 1, 3), (1, 2, 2, 2), (1, 1, 2, 1, 2))
    of_line, of_plane = np.array([[[0, 3, 4]], [[1, 2, 5]]]), np.array([[[[0, 3], [9, 14]], [[5, 2], [8, 11]]]])
    of_volume = np.array([[[[[0, 3]], [[9, 14]]]]])
    return [
        _case("max_unpool1d", line, of_line, 2),
        _case("max_unpool1d", line[0], of_line[0], 2, 2),
        _case("max_unpool1d", line, of_line, 2, output_size=(7,)),
        _case("max_unpool1d", line, of_line, 3, 2, 1, output_size=(2, 1, 6)),
        _case("max_unpool1d", line[:0], of_line[:0], 2),
        _case("max_unpool2d", plane, of_plane, 2),
        _case("max_unpool2d", plane[0], of_plane[0], (2, 2), (2, 2)),
        _case("max_unpool2d", plane, of_plane, 2, output_size=(5, 5)),
        _case("max_unpool2d", plane, of_plane, 3, 2, 1, output_size=(4, 4)),
        _case("max_unpool2d", plane[:0], of_plane[:0], 2),
        _case("max_unpool3d", volume, of_volume, 2),
        _case("max_unpool3d", volume[0], of_volume[0], 2, 2),
        _case("max_unpool3d", volume, of_volume, 2, output_size=(4, 2, 5)),
        _case("max_unpool3d", volume, of_volume, (2, 3, 2)),
        _case("max_unpool3d", volume[:0], of_volume[:0], 2),
    ]


def _fractional() -> list[Case]:
    plane, volume = _apart(6, (2, 2, 7, 6)), _apart(7, (1, 2, 5, 4, 6))
    two, three = arrays(8, (2, 2, 2), (1, 2, 3), low=0.01, high=0.99)
    return [
        Case(name, (x, kernel), {"_random_samples": samples, **options}, torch=_torch(name), half=False, vmap=False)
        for name, x, kernel, samples, options in (
            ("fractional_max_pool2d", plane, 2, two, {"output_size": (3, 4)}),
            ("fractional_max_pool2d", plane, (3, 2), two, {"output_size": 3, "return_indices": True}),
            ("fractional_max_pool2d", plane, 2, two, {"output_ratio": (0.6, 0.6)}),
            ("fractional_max_pool2d", plane, 2, two, {"output_ratio": (0.5, 0.7), "return_indices": True}),
            ("fractional_max_pool2d", plane, 3, two, {"output_size": (1, 2)}),
            ("fractional_max_pool3d", volume, 2, three, {"output_size": (3, 2, 4)}),
            ("fractional_max_pool3d", volume, (2, 1, 3), three, {"output_size": 3, "return_indices": True}),
            ("fractional_max_pool3d", volume, 2, three, {"output_ratio": (0.5, 0.5, 0.5)}),
            ("fractional_max_pool3d", volume, 2, three, {"output_ratio": (0.4, 0.5, 0.7), "return_indices": True}),
            ("fractional_max_pool3d", volume, 2, three, {"output_size": (1, 2, 3)}),
        )
    ]


_image, _signal = arrays(9, (1, 2, 4, 5), (2, 1, 6))
_small = _image[:, :1, :3, :4]
_RESIZED = [
    *[_case("interpolate", _image, size, mode="bicubic") for size in ((7, 3), (4, 5), 2)],
    _case("interpolate", _small, (6, 5), mode="bicubic", align_corners=True),
    _case("interpolate", _small, scale_factor=1.7, mode="bicubic"),
    _case("interpolate", _small, scale_factor=(1.7, 0.6), mode="bicubic", recompute_scale_factor=True),
    *[_case("interpolate", _image, size, mode="nearest-exact") for size in ((7, 3), 8)],
    _case("interpolate", _signal, scale_factor=0.7, mode="nearest-exact"),
    *[_case("interpolate", _image, size, mode="area") for size in ((2, 3), (7, 5))],
    _case("interpolate", _signal, scale_factor=0.5, mode="area"),
    _case("interpolate", _image, (2, 3), mode="bilinear", antialias=True),
    _case("interpolate", _image, (7, 2), mode="bilinear", antialias=True, align_corners=True),
    _case("interpolate", _image, (3, 9), mode="bicubic", antialias=True),
    _case("interpolate", _image, scale_factor=0.45, mode="bicubic", antialias=True),
    _case("interpolate", _image, scale_factor=0.55, mode="bilinear", recompute_scale_factor=True),
    _case("interpolate", _volume, scale_factor=1.5, mode="trilinear"),
]


def _grids() -> list[Case]:
    """Places inside and outside, none near a boundary between elements, where the derivative jumps."""
    image, volume = arrays(10, (2, 2, 4, 5), (1, 2, 3, 2, 4))
    rng = np.random.default_rng(11)

    def places(*sizes: int, aligned: bool) -> Any:
        shape = (2, 3, 2) if len(sizes) == 2 else (1, 2, 2, 2)
        cells = [rng.integers(-2, n + 1, shape) + rng.uniform(0.15, 0.35, shape) for n in reversed(sizes)]
        scaled = [2 * c / (n - 1) - 1 if aligned else (2 * c + 1) / n - 1 for c, n in zip(cells, reversed(sizes))]
        return np.stack(scaled, -1)

    found = [
        _case("grid_sample", image, places(4, 5, aligned=aligned), mode, padding, aligned)
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
        for aligned in (True, False)
    ]
    return found + [
        _case("grid_sample", volume, places(3, 2, 4, aligned=aligned), mode, padding, aligned)
        for mode, padding, aligned in (
            ("bilinear", "zeros", False),
            ("bilinear", "border", True),
            ("bilinear", "reflection", False),
            ("nearest", "reflection", True),
        )
    ]


_theta, _theta3 = arrays(12, (2, 2, 3), (1, 3, 4))
_OTHERS = [
    _case("affine_grid", _theta, (2, 1, 3, 4), align_corners=True),
    _case("affine_grid", _theta, (2, 1, 3, 4), align_corners=False),
    _case("affine_grid", _theta, (2, 3, 1, 2), align_corners=True),
    _case("affine_grid", _theta3, (1, 1, 2, 3, 2), align_corners=True),
    _case("affine_grid", _theta3, (1, 1, 2, 3, 2), align_corners=False),
    *[
        Case("channel_shuffle", (x, groups), torch=torch and torch.channel_shuffle)
        for x, groups in ((_image[:, [0, 1, 0, 1]], 2), (_image, 1), (_image, 2), (_volume, 2), (_image[:0], 2))
    ],
    *[
        Case("sliding_window", (x, *args), torch=torch and torch.Tensor.unfold)
        for x, *args in (
            (_signal, 2, 3, 2),
            (_signal, -1, 6, 1),
            (_image, 1, 2, 1),
            (_image, 3, 1, 3),
            (_image, 2, 0, 2),
        )
    ],
]

CASES = [*_POOLS, *_unpools(), *_fractional(), *_RESIZED, *_grids(), *_OTHERS]
