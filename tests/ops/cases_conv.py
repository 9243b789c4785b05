"""Cases for convolutions and their transposes: strides, paddings, dilations, groups, uneven sizes, no batch axis."""

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


def _plain_conv(x: Any, w: Any, b: Any = None, stride: int = 1, padding: int = 0, dilation: int = 1) -> Any:
    """A 2-d convolution by its definition: a loop over every output element."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    height = (x.shape[2] - (w.shape[2] - 1) * dilation - 1) // stride + 1
    width = (x.shape[3] - (w.shape[3] - 1) * dilation - 1) // stride + 1
    y = np.zeros((x.shape[0], w.shape[0], height, width))
    for i in range(height):
        for j in range(width):
            rows = slice(i * stride, i * stride + (w.shape[2] - 1) * dilation + 1, dilation)
            columns = slice(j * stride, j * stride + (w.shape[3] - 1) * dilation + 1, dilation)
            y[:, :, i, j] = np.einsum("ncij,ocij->no", x[:, :, rows, columns], w)
    return y if b is None else y + b[:, None, None]


def _case(name: str, args: tuple[Any, ...], numpy: Any = None, **kwargs: Any) -> Case:
    return Case(name, args, kwargs, numpy=numpy, torch=_torch(name))


_line, _filter, _bias = arrays(1, (2, 3, 7), (4, 3, 3), (4,))
_plane, _kernel, _offset = arrays(2, (2, 2, 5, 4), (3, 2, 3, 2), (3,))
_small, _square = arrays(3, (1, 2, 5, 5), (2, 2, 3, 3))
_grouped, _depthwise, _paired = arrays(4, (1, 4, 4, 3), (4, 1, 2, 2), (2, 2, 2, 2))
_volume, _cube = arrays(5, (1, 2, 3, 3, 3), (2, 2, 2, 2, 1))
_up, _up_kernel = arrays(6, (1, 2, 3, 3), (2, 3, 3, 2))

CASES = [
    _case("conv1d", (_line, _filter)),
    _case("conv1d", (_line, _filter, _bias), stride=2, padding=1),
    _case("conv1d", (_line, _filter), padding="same", dilation=2),
    _case("conv1d", (_line[:1], _filter[..., :2]), padding="same"),
    _case("conv1d", (_line[0], _filter, _bias), padding="valid"),
    _case("conv1d", (_line[:1, :2, ::2], _filter[:2, :1]), groups=2, padding=2, stride=3),
    _case("conv1d", (_line[:0], _filter)),
    _case("conv1d", (_line[:, :, :1], _filter[..., :1])),
    _case("conv2d", (_plane, _kernel), numpy=_plain_conv),
    _case("conv2d", (_plane, _kernel, _offset), numpy=_plain_conv),
    _case("conv2d", (_small, _square), numpy=_plain_conv, stride=2, padding=1),
    _case("conv2d", (_small, _square[:, :, :2, :2]), numpy=_plain_conv, dilation=2, stride=2),
    _case("conv2d", (_small, _square), stride=(2, 1), padding=(1, 2), dilation=(1, 2)),
    _case("conv2d", (_small, _square), stride=4),  # the last column of the input is never read
    _case("conv2d", (_plane[:1], _kernel, _offset), padding="same"),
    _case("conv2d", (_grouped, _depthwise), groups=4, padding=1),
    _case("conv2d", (_grouped, _paired), groups=2, stride=2, padding=1),
    _case("conv2d", (_grouped.transpose(0, 1, 3, 2), _paired.transpose(0, 1, 3, 2)), groups=2),
    _case("conv2d", (_plane[0], _kernel), padding=3),
    _case("conv2d", (_plane[:, :, :1, :1], _kernel[:, :, :1, :1])),
    _case("conv2d", (_plane[:0], _kernel, _offset)),
    _case("conv3d", (_volume, _cube)),
    _case("conv3d", (_volume, _cube), stride=2, padding=1),
    _case("conv3d", (_volume, _cube), padding="same"),
    _case("conv3d", (_volume[0], _cube, _offset[:2]), dilation=(2, 1, 1)),
    _case("conv3d", (_volume, _cube[:, :1]), groups=2, stride=(1, 2, 1)),
    _case("conv_transpose1d", (_line[:1], _filter.transpose(1, 0, 2))),
    _case("conv_transpose1d", (_line[0, :, :3], _filter.transpose(1, 0, 2), _bias), stride=2),
    _case("conv_transpose1d", (_line[:1, :, :3], _filter[:3, :2]), stride=3, padding=1, output_padding=2),
    _case("conv_transpose1d", (_line[:1, :2, :4], _filter[:2, :2]), groups=2, dilation=2, padding=2),
    _case("conv_transpose1d", (_line[:0], _filter.transpose(1, 0, 2))),
    _case("conv_transpose1d", (_line[:, :, :1], _filter[:3, :1, ::2]), stride=2),
    _case("conv_transpose2d", (_up, _up_kernel)),
    _case("conv_transpose2d", (_up, _up_kernel, _offset), stride=2, padding=1, output_padding=1),
    _case("conv_transpose2d", (_up[0], _up_kernel), stride=(1, 2), padding=(2, 0), output_padding=(0, 1)),
    _case("conv_transpose2d", (_up, _up_kernel[:, :1]), groups=2, dilation=2),
    _case("conv_transpose2d", (_grouped, _depthwise.repeat(2, 1)[:, ::-1]), groups=2, padding=1),
    _case("conv_transpose2d", (_up[:0], _up_kernel), stride=2),
    _case("conv_transpose3d", (_volume[..., :2], _cube)),
    _case("conv_transpose3d", (_volume[..., :1], _cube, _offset[:2]), stride=2, padding=(1, 0, 0)),
    _case(
        "conv_transpose3d", (_volume[0, ..., :1], _cube[:, :1]), groups=2, stride=(1, 2, 1), output_padding=(0, 1, 0)
    ),
    _case("conv_transpose3d", (_volume[:, :, :2, :2, :2], _cube), dilation=2),
    _case("conv_transpose3d", (_volume[:0], _cube)),
]
