"""`torch.nn.grad`: the gradients of convolutions with respect to their input and their weight."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg


def _input(axes: int) -> Callable[..., Any]:
    convolve = getattr(wg, f"conv{axes}d")

    def conv_input(
        input_size: Any,
        weight: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        """The gradient with respect to an input of this size."""
        place = wg.zeros(tuple(input_size), dtype=grad_output.dtype, device=grad_output.device)
        _, pull = wg.vjp(lambda x: convolve(x, weight, None, stride, padding, dilation, groups), place)
        return _only(pull(grad_output), grad_output)

    conv_input.__name__ = conv_input.__qualname__ = f"conv{axes}d_input"
    return conv_input


def _weight(axes: int) -> Callable[..., Any]:
    convolve = getattr(wg, f"conv{axes}d")

    def conv_weight(
        input: Any,
        weight_size: Any,
        grad_output: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        """The gradient with respect to a weight of this size."""
        place = wg.zeros(tuple(weight_size), dtype=grad_output.dtype, device=grad_output.device)
        _, pull = wg.vjp(lambda w: convolve(input, w, None, stride, padding, dilation, groups), place)
        return _only(pull(grad_output), grad_output)

    conv_weight.__name__ = conv_weight.__qualname__ = f"conv{axes}d_weight"
    return conv_weight


def _only(found: Any, like: Any) -> Any:
    gradient = found[0] if isinstance(found, tuple) else found
    return like.family(gradient.node)


conv1d_input, conv2d_input, conv3d_input = _input(1), _input(2), _input(3)
conv1d_weight, conv2d_weight, conv3d_weight = _weight(1), _weight(2), _weight(3)
