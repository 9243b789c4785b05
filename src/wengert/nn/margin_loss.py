"""Losses by margins between classes or vectors, as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.nn.loss import _Between, _Loss


class SoftMarginLoss(_Between):
    """`log(1 + exp(-target * input))` for targets 1 and -1.

    >>> import wengert as wg
    >>> round(wg.nn.SoftMarginLoss()(wg.tensor([0.0]), wg.tensor([1.0])).item(), 4)
    0.6931
    """

    _function = staticmethod(wg.soft_margin_loss)


class MultiLabelMarginLoss(_Between):
    """The sum of `max(0, 1 - input[right] + input[wrong])` over pairs of classes, over their number.

    >>> import wengert as wg
    >>> loss = wg.nn.MultiLabelMarginLoss()
    >>> round(loss(wg.tensor([[0.1, 0.2, 0.4, 0.8]]), wg.tensor([[3, 0, -1, 1]])).item(), 3)
    0.85
    """

    _function = staticmethod(wg.multilabel_margin_loss)


class MultiLabelSoftMarginLoss(_Loss):
    """The binary cross-entropy of each class by itself, averaged over the classes.

    >>> import wengert as wg
    >>> round(wg.nn.MultiLabelSoftMarginLoss()(wg.tensor([[0.0, 0.0]]), wg.tensor([[1.0, 0.0]])).item(), 4)
    0.6931
    """

    def __init__(self, weight: Any = None, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", self._as_buffer(weight))

    weight: wg.Tensor | None

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.multilabel_soft_margin_loss(input, target, self.weight, self.reduction)


class MultiMarginLoss(_Loss):
    """The sum over wrong classes of `max(0, margin - input[right] + input[wrong]) ** p`, over the number of classes.

    >>> import wengert as wg
    >>> wg.nn.MultiMarginLoss()(wg.tensor([[0.0, 0.5]]), wg.tensor([1])).item()
    0.25
    """

    settings = ("p", "margin")

    def __init__(self, p: int = 1, margin: float = 1.0, weight: Any = None, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.p = p
        self.margin = margin
        self.register_buffer("weight", self._as_buffer(weight))

    weight: wg.Tensor | None

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.multi_margin_loss(input, target, self.p, self.margin, self.weight, self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """`max(0, margin + d(anchor, positive) - d(anchor, negative))`, for a distance of your own.

    >>> import wengert as wg
    >>> wg.nn.TripletMarginWithDistanceLoss()(wg.zeros((1, 2)), wg.zeros((1, 2)), wg.tensor([[3.0, 4.0]])).item()
    0.0
    """

    settings = ("margin", "swap")

    def __init__(
        self,
        *,
        distance_function: Callable[[wg.Tensor, wg.Tensor], wg.Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.distance_function = distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: wg.Tensor, positive: wg.Tensor, negative: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
