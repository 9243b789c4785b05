"""`torch.nn.utils.clip_grad`: gradients scaled down to a norm, or cut at a value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import wengert as wg
from wengert import optim as _optim
from wengert.torch.tensor import of


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Scale all gradients down by one factor so that their norm is at most `max_norm`; returns the original norm."""
    return of(_optim.clip_grad_norm_(_listed(parameters), float(max_norm), float(norm_type), error_if_nonfinite))


def clip_grad_norm(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """`clip_grad_norm_`, under its old name."""
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Clip every element of the gradients to between `-clip_value` and `clip_value`."""
    _optim.clip_grad_value_(_listed(parameters), float(clip_value))


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Any:
    """The norm of all elements of some tensors."""
    norms = [wg.norm(x, ord=float(norm_type)) for x in _listed(tensors)]
    total = of(wg.norm(wg.stack(norms), ord=float(norm_type)) if norms else wg.tensor(0.0))
    if error_if_nonfinite and not wg.isfinite(total):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Any, foreach: bool | None = None) -> None:
    """Scale all gradients down, given their norm `total_norm`."""
    with wg.no_grad():
        factor = wg.minimum(float(max_norm) / (total_norm + 1e-6), 1.0)
        for parameter in _listed(parameters):
            if parameter.grad is not None:
                parameter.grad.assign(parameter.grad * factor.to(parameter.grad.dtype))


def _listed(parameters: Any) -> list[Any]:
    return [parameters] if isinstance(parameters, wg.Tensor) or not isinstance(parameters, Iterable) else [*parameters]
