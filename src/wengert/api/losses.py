"""Losses that take a function: they work over Tensors, like the function they call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.api.lift import lift
from wengert.core.errors import ArgumentError
from wengert.ops import loss as _loss
from wengert.ops import normalize as _normalize
from wengert.ops.comparison import minimum
from wengert.ops.core import as_node
from wengert.tensor import Tensor

__all__ = ["triplet_margin_with_distance_loss"]

_pairwise_distance = lift(_normalize.pairwise_distance)


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`max(0, margin + d(anchor, positive) - d(anchor, negative))` for a distance `d`, by default `pairwise_distance`.

    With `swap` the negative's distance is the smaller of those to the anchor and to the positive.

    >>> import wengert as wg
    >>> a, p, n = wg.tensor([0.0]), wg.tensor([1.0]), wg.tensor([3.0])
    >>> wg.triplet_margin_with_distance_loss(a, p, n, distance_function=lambda x, y: abs(x - y), margin=2.5).item()
    0.5
    """
    if not margin > 0:
        raise ArgumentError(f"triplet_margin_with_distance_loss: the margin must be positive, not {margin!r}")
    distance = _pairwise_distance if distance_function is None else distance_function
    near, far = as_node(distance(anchor, positive)), as_node(distance(anchor, negative))
    if swap:
        far = minimum(far, as_node(distance(positive, negative)))
    losses = _loss.positive_part(near - far + margin)
    family = getattr(anchor, "family", Tensor)
    return family(_loss.reduce("triplet_margin_with_distance_loss", losses, reduction))
