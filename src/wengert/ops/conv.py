"""Convolutions as PyTorch names them, 1 to 3 spatial dimensions, and their transposes, over the primitive `convolve`.

Here are their arguments: what may be a number or one for each axis, what fits together, what is said when it does not.
"""

from __future__ import annotations

from typing import Any

from wengert.core.dtypes import result_dtype
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, Pairs, extent
from wengert.ops.core import cast, operands, require_floating
from wengert.ops.movement import reshape

# --- arguments ------------------------------------------------------------------------------------------------------


def per_axis(value: Any, axes: int, name: str, what: str, least: int = 1) -> Shape:
    """An option given as one integer for all spatial axes or one for each."""
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes
    if len(items) == 1:
        items *= axes
    try:
        found = tuple(int(item.__index__()) for item in items)
    except AttributeError:
        raise DTypeError(f"{name}: {what} is an integer or {axes} of them, not {value!r}") from None
    if len(found) != axes:
        raise ArgumentError(f"{name}: {what} is an integer or {axes} of them, not {value!r}")
    if any(item < least for item in found):
        raise ArgumentError(f"{name}: {what} is at least {least}, not {value!r}")
    return found


def _padding_pairs(padding: Any, kernel: Shape, stride: Shape, dilation: Shape, name: str) -> Pairs:
    if not isinstance(padding, str):
        return tuple((p, p) for p in per_axis(padding, len(kernel), name, "padding", least=0))
    if padding == "valid":
        return ((0, 0),) * len(kernel)
    if padding != "same":
        raise ArgumentError(f'{name}: padding is an integer, a tuple of them, "same" or "valid", not {padding!r}')
    if any(s != 1 for s in stride):
        raise ArgumentError(f'{name}: padding "same" goes with stride 1 only; the stride is {stride}')
    totals = [extent(k, d) - 1 for k, d in zip(kernel, dilation)]
    return tuple((total // 2, total - total // 2) for total in totals)


def _prepare(name: str, axes: int, x: Any, weight: Any, bias: Any) -> tuple[Node, Node, Node | None]:
    """The operands as nodes of one floating dtype, checked for their number of axes; `x` with a batch axis."""
    nodes = operands(*(v for v in (x, weight, bias) if v is not None))
    require_floating(name, *nodes)
    meet = result_dtype(*[node.dtype for node in nodes])
    x, weight, *rest = [cast(node, meet) for node in nodes]
    if weight.ndim != axes + 2:
        raise ShapeError(f"{name}: the weight is (O, C / groups, {axes} kernel sizes); its shape is {weight.shape}")
    if x.ndim not in (axes + 1, axes + 2):
        layout = ", ".join(("C", *("D", "H", "W")[3 - axes :]))
        raise ShapeError(f"{name}: the input is (N, {layout}) or, unbatched, ({layout}); its shape is {x.shape}")
    return (x if x.ndim == axes + 2 else reshape(x, (1, *x.shape))), weight, rest[0] if rest else None


def _check_groups(name: str, groups: Any, **counts: int) -> None:
    if not isinstance(groups, int) or groups < 1:
        raise ArgumentError(f"{name}: groups is an integer of at least 1, not {groups!r}")
    for what, count in counts.items():
        if count % groups:
            raise ShapeError(f"{name}: {count} {what.replace('_', ' ')} do not divide into {groups} groups")


def _finish(name: str, y: Node, bias: Node | None, unbatched: bool) -> Node:
    """The result with its bias, and without the batch axis if the input had none."""
    if bias is not None:
        if bias.shape != (y.shape[1],):
            raise ShapeError(
                f"{name}: the bias of {y.shape[1]} output channels has shape ({y.shape[1]},), not {bias.shape}"
            )
        y = y + reshape(bias, (y.shape[1], *(1,) * (y.ndim - 2)))
    return reshape(y, y.shape[1:]) if unbatched else y


# --- convolutions ---------------------------------------------------------------------------------------------------


def _conv(axes: int, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> Node:
    name = f"conv{axes}d"
    given = x
    x, weight, bias = _prepare(name, axes, x, weight, bias)
    _check_groups(name, groups, input_channels=x.shape[1], output_channels=weight.shape[0])
    if weight.shape[1] * groups != x.shape[1]:
        raise ShapeError(
            f"{name}: the input {x.shape} has {x.shape[1]} channels; the weight {weight.shape} takes "
            f"{weight.shape[1]} in each of {groups} groups, {weight.shape[1] * groups} in all"
        )
    kernel = weight.shape[2:]
    steps, apart = per_axis(stride, axes, name, "stride"), per_axis(dilation, axes, name, "dilation")
    pairs = _padding_pairs(padding, kernel, steps, apart, name)
    for size, k, d, (low, high) in zip(x.shape[2:], kernel, apart, pairs):
        if not 0 < extent(k, d) <= size + low + high:
            raise ShapeError(
                f"{name}: a kernel of {kernel} with dilation {apart} does not fit into the padded input: one axis of "
                f"{x.shape[2:]} has {size + low + high} elements and the kernel spans {extent(k, d)}"
            )
    y = CONVOLVE(x, weight, stride=steps, padding=pairs, dilation=apart, groups=groups)
    return _finish(name, y, bias, len(given.shape) == axes + 1)


def conv1d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Node:
    """Convolve `x` (N, C, L) with `weight` (O, C / groups, K); as in PyTorch the kernel is not flipped.

    `padding` is a number of zeros for both ends, "same" or "valid".

    >>> import wengert as wg
    >>> wg.conv1d(wg.tensor([[1.0, 2.0, 4.0]]), wg.tensor([[[1.0, 1.0]]])).tolist()
    [[3.0, 6.0]]
    """
    return _conv(1, x, weight, bias, stride, padding, dilation, groups)


def conv2d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Node:
    """Convolve `x` (N, C, H, W) with `weight` (O, C / groups, KH, KW); options are numbers or one for each axis.

    >>> import wengert as wg
    >>> wg.conv2d(wg.ones((1, 3, 8, 8)), wg.ones((4, 3, 3, 3)), padding=1).shape
    (1, 4, 8, 8)
    """
    return _conv(2, x, weight, bias, stride, padding, dilation, groups)


def conv3d(
    x: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1
) -> Node:
    """Convolve `x` (N, C, D, H, W) with `weight` (O, C / groups, KD, KH, KW).

    >>> import wengert as wg
    >>> wg.conv3d(wg.ones((1, 1, 4, 4, 4)), wg.ones((2, 1, 3, 3, 3))).shape
    (1, 2, 2, 2, 2)
    """
    return _conv(3, x, weight, bias, stride, padding, dilation, groups)


# --- their transposes -----------------------------------------------------------------------------------------------


def _conv_transpose(
    axes: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Node:
    name = f"conv_transpose{axes}d"
    given = x
    x, weight, bias = _prepare(name, axes, x, weight, bias)
    _check_groups(name, groups, input_channels=x.shape[1])
    if weight.shape[0] != x.shape[1]:
        raise ShapeError(
            f"{name}: the input {x.shape} has {x.shape[1]} channels, the weight {weight.shape} takes "
            f"{weight.shape[0]}; a transposed convolution's weight is (C, O / groups, *kernel)"
        )
    steps, apart = per_axis(stride, axes, name, "stride"), per_axis(dilation, axes, name, "dilation")
    trims = per_axis(padding, axes, name, "padding", least=0)
    extras = per_axis(output_padding, axes, name, "output_padding", least=0)
    sizes, pairs = [], []
    for size, k, s, d, trim, extra in zip(x.shape[2:], weight.shape[2:], steps, apart, trims, extras):
        if extra >= max(s, d):
            raise ArgumentError(
                f"{name}: output_padding {extra} must be smaller than the stride {s} or the dilation {d}"
            )
        sizes.append(extent(size, s) + extent(k, d) - 1 - 2 * trim + extra)
        if sizes[-1] < 1:
            raise ShapeError(f"{name}: padding {trims} leaves nothing of an input of {x.shape[2:]}")
        pairs.append((trim, trim - extra))
    form = {"stride": steps, "padding": tuple(pairs), "dilation": apart, "groups": groups}
    y = CONVOLVE_INPUT(x, weight, sizes=tuple(sizes), **form)
    return _finish(name, y, bias, len(given.shape) == axes + 1)


def conv_transpose1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Node:
    """The transpose of `conv1d` as a map of its input: `x` (N, C, L) with `weight` (C, O / groups, K).

    >>> import wengert as wg
    >>> wg.conv_transpose1d(wg.ones((1, 2, 4)), wg.ones((2, 3, 3)), stride=2).shape
    (1, 3, 9)
    """
    return _conv_transpose(1, x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Node:
    """The transpose of `conv2d` as a map of its input: `x` (N, C, H, W) with `weight` (C, O / groups, KH, KW).

    >>> import wengert as wg
    >>> wg.conv_transpose2d(wg.ones((1, 2, 4, 4)), wg.ones((2, 3, 2, 2)), stride=2).shape
    (1, 3, 8, 8)
    """
    return _conv_transpose(2, x, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Node:
    """The transpose of `conv3d` as a map of its input: `weight` is (C, O / groups, KD, KH, KW).

    >>> import wengert as wg
    >>> wg.conv_transpose3d(wg.ones((1, 2, 2, 2, 2)), wg.ones((2, 1, 2, 2, 2)), stride=2).shape
    (1, 1, 4, 4, 4)
    """
    return _conv_transpose(3, x, weight, bias, stride, padding, output_padding, groups, dilation)
