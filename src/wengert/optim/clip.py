"""Gradient clipping, by norm and by value. In: parameters. Out: their `grad` slots with smaller gradients."""

from __future__ import annotations

from collections.abc import Iterable

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError, GradientError
from wengert.optim.optimizer import working_dtype


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Scale all gradients down by one factor so that their norm, taken together, is at most `max_norm`.

    Returns the norm they had. With `error_if_nonfinite`, a norm that is infinite or NaN raises; that looks at the
    value, which a compiled step cannot.

    >>> import wengert as wg
    >>> w = wg.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> wg.optim.clip_grad_norm_([w], max_norm=1.0).item()
    5.0
    >>> [round(g, 4) for g in w.grad.tolist()]
    [0.6, 0.8]
    """
    gradients = _gradients(parameters)
    with wg.no_grad():
        if not gradients:
            return wg.tensor(0.0)
        norms = [wg.norm(g.to(working_dtype(g)), ord=norm_type) for g in gradients]
        total = wg.norm(wg.stack(norms), ord=norm_type)
        if error_if_nonfinite and not wg.isfinite(total):
            raise GradientError(
                f"clip_grad_norm_: the norm of the gradients is {total.item()}, so there is nothing to scale them by; "
                "wg.debug_nans() finds the first op that made a NaN"
            )
        factor = wg.minimum(max_norm / (total + 1e-6), 1.0)
        for gradient in gradients:
            gradient.assign(gradient * factor.to(gradient.dtype))
        return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Clip every element of the gradients to between `-clip_value` and `clip_value`.

    >>> import wengert as wg
    >>> w = wg.tensor([3.0, 0.5], requires_grad=True)
    >>> (w * w / 2).sum().backward()
    >>> wg.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad.tolist()
    [1.0, 0.5]
    """
    if clip_value < 0:
        raise ArgumentError(f"clip_grad_value_: clip_value cannot be negative, but is {clip_value!r}")
    with wg.no_grad():
        for gradient in _gradients(parameters):
            gradient.assign(wg.clip(gradient, -clip_value, clip_value))


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in parameters if p.grad is not None]
