"""Cases for padding and resizing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

try:
    import torch.nn.functional as F
except ImportError:
    F = None  # type: ignore[assignment]

_NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _torch(name: str) -> Callable[..., Any] | None:
    return getattr(F, name) if F is not None else None


def _numpy_pad(x: Any, pad: tuple[int, ...], mode: str = "constant", value: float = 0) -> Any:
    pairs = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2]))[::-1]
    if mode == "constant":
        return np.pad(x, pairs, mode, constant_values=value)
    return np.pad(x, pairs, _NUMPY_MODES[mode])  # type: ignore[call-overload]


def _pad(x: Any, pad: tuple[int, ...], numpy: bool = True, torch: bool = True, **kwargs: Any) -> Case:
    reference = _torch("pad") if torch else None
    return Case("pad", (x, pad), kwargs, numpy=_numpy_pad if numpy else None, torch=reference)


def _case(name: str, x: Any, *args: Any, numpy: Any = None, **kwargs: Any) -> Case:
    return Case(name, (x, *args), kwargs, numpy=numpy, torch=_torch(name))


_square, _line, _plane, _volume = arrays(1, (3, 4), (1, 2, 5), (1, 2, 3, 4), (1, 1, 2, 3, 3))
_channels, _pixels = arrays(2, (2, 4, 2, 2), (1, 2, 4, 2))

CASES = [
    _pad(_square, (1, 2)),
    _pad(_square, (0, 1, 2, 0), value=-1.5),
    _pad(_square.T, (-1, 2), numpy=False),
    _pad(_square, (-1, -1, 2, -2), numpy=False, value=0.5),
    _pad(np.array(2.0), (), numpy=False),
    _pad(_square[:0], (1, 1, 2, 0), value=3.0),
    _pad(_volume, (0, 1, 1, 0, 0, 2, 1, 0, 0, 1)),
    _pad(_line, (2, 1), mode="reflect"),
    _pad(_plane, (1, 3, 2, 0), mode="reflect"),
    _pad(_line[..., ::2], (-1, 1), mode="reflect", numpy=False),
    _pad(_square, (3, 3, 2, 2), mode="reflect", torch=False),
    _pad(_volume, (1, 1, 2, 0, 0, 1), mode="reflect"),
    _pad(_line, (3, 7), mode="replicate"),
    _pad(_plane.transpose(0, 1, 3, 2), (1, 0, 0, 2), mode="replicate"),
    _pad(_line, (2, -3), mode="replicate", numpy=False),
    _pad(_plane[..., :1], (2, 2), mode="replicate", torch=False),
    _pad(_volume, (1, 1, 0, 0, 1, 2), mode="replicate"),
    _pad(_line, (5, 2), mode="circular"),
    _pad(_plane, (1, 2, 3, 1), mode="circular"),
    _pad(_square.T, (1, 1, 2, 2), mode="circular", torch=False),
    _pad(_volume, (3, 0, 0, 1, 2, 1), mode="circular"),
    _case("interpolate", _line, 10, numpy=lambda x, n: x.repeat(2, -1)),
    _case("interpolate", _line, 3),
    _case("interpolate", _line, scale_factor=1.7),
    _case("interpolate", _plane, (7, 5)),
    _case("interpolate", _plane, scale_factor=2, numpy=lambda x, scale_factor: x.repeat(2, -1).repeat(2, -2)),
    _case("interpolate", _plane.transpose(0, 1, 3, 2), scale_factor=(0.5, 1.4)),
    _case("interpolate", _volume, (3, 2, 5)),
    _case("interpolate", _plane[:0], 2),
    _case("interpolate", _line, 8, mode="linear"),
    _case("interpolate", _line, 3, mode="linear", align_corners=True),
    _case("interpolate", _line, scale_factor=1.5, mode="linear"),
    _case("interpolate", _line[..., ::2], 1, mode="linear", align_corners=True),
    _case("interpolate", _line[..., :1], 3, mode="linear"),
    _case("interpolate", _plane, (5, 3), mode="bilinear", align_corners=False),
    _case("interpolate", _plane, (5, 7), mode="bilinear", align_corners=True),
    _case("interpolate", _plane, scale_factor=2, mode="bilinear"),
    _case("interpolate", _plane.transpose(0, 1, 3, 2), scale_factor=(0.6, 1.3), mode="bilinear"),
    _case("interpolate", _plane, (3, 4), mode="bilinear"),
    _case("interpolate", _volume, (3, 2, 4), mode="trilinear"),
    _case("pixel_shuffle", _channels, 2),
    _case("pixel_shuffle", _channels[0].transpose(0, 2, 1), 2),
    _case("pixel_shuffle", _channels, 1),
    _case("pixel_shuffle", _channels[:0], 2),
    _case("pixel_shuffle", _channels[None, :, :, :1], 2),
    _case("pixel_unshuffle", _pixels, 2),
    _case("pixel_unshuffle", _pixels[0].transpose(0, 2, 1), 2),
    _case("pixel_unshuffle", _pixels, 1),
    Case("pixel_unshuffle", (_pixels[:0], 2), numpy=lambda x, r: np.zeros((0, 8, 2, 1))),  # torch keeps the shape
    _case("pixel_unshuffle", _pixels[None, :, :1, ::2], 2),
]
