"""Losses as modules: their settings in the constructor, predictions and targets in the call.

`reduction` is "mean", "sum" or "none". It and what PyTorch has behind its retired arguments `size_average` and `reduce`
are given by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.nn.module import Module


class _Loss(Module):
    """A loss with a reduction; settings that the repr shows are named by a subclass."""

    settings: tuple[str, ...] = ()

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def extra_repr(self) -> str:
        """The settings."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in (*self.settings, "reduction"))

    def _as_buffer(self, value: Any) -> wg.Tensor | None:
        return value if value is None or isinstance(value, wg.Tensor) else wg.tensor(value)


class _Between(_Loss):
    """A loss of predictions and targets without further settings."""

    _function: Callable[..., wg.Tensor]

    def __init__(self, *, reduction: str = "mean") -> None:
        super().__init__(reduction)

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return type(self)._function(input, target, reduction=self.reduction)


class MSELoss(_Between):
    """The squared difference.

    >>> import wengert as wg
    >>> wg.nn.MSELoss()(wg.tensor([1.0, 2.0]), wg.tensor([1.0, 4.0])).item()
    2.0
    """

    _function = staticmethod(wg.mse_loss)


class L1Loss(_Between):
    """The absolute difference.

    >>> import wengert as wg
    >>> wg.nn.L1Loss()(wg.tensor([1.0, 2.0]), wg.tensor([0.0, 0.0])).item()
    1.5
    """

    _function = staticmethod(wg.l1_loss)


class SmoothL1Loss(_Loss):
    """`d**2 / (2 * beta)` where the absolute difference d is below `beta`, `d - beta / 2` from there on.

    >>> import wengert as wg
    >>> wg.nn.SmoothL1Loss()(wg.tensor([0.0, 3.0]), wg.tensor([0.0, 0.0])).item()
    1.25
    """

    settings = ("beta",)

    def __init__(self, *, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.smooth_l1_loss(input, target, self.reduction, self.beta)


class HuberLoss(_Loss):
    """`d**2 / 2` where the absolute difference d is at most `delta`, `delta * (d - delta / 2)` beyond.

    >>> import wengert as wg
    >>> wg.nn.HuberLoss()(wg.tensor([0.0, 3.0]), wg.tensor([0.0, 0.0])).item()
    1.25
    """

    settings = ("delta",)

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.huber_loss(input, target, self.reduction, self.delta)


class CrossEntropyLoss(_Loss):
    """Minus the log-softmax of scores (N, C, ...) at target classes (N, ...), or its mean under target probabilities.

    `weight` has a number for each class, targets equal to `ignore_index` count for nothing (None: all count), and
    `label_smoothing` is the share of the target that is spread over all classes.

    >>> import wengert as wg
    >>> round(wg.nn.CrossEntropyLoss()(wg.zeros((2, 4)), wg.tensor([0, 3])).item(), 4)
    1.3863
    """

    settings = ("ignore_index", "label_smoothing")

    def __init__(
        self,
        weight: Any = None,
        *,
        ignore_index: int | None = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", self._as_buffer(weight))
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class NLLLoss(_Loss):
    """Minus the log-probability that (N, C, ...) gives to each target class (N, ...), times the class's weight.

    >>> import wengert as wg
    >>> wg.nn.NLLLoss()(wg.tensor([[-0.5, -1.0]]), wg.tensor([1])).item()
    1.0
    """

    settings = ("ignore_index",)

    def __init__(self, weight: Any = None, *, ignore_index: int | None = -100, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", self._as_buffer(weight))
        self.ignore_index = ignore_index

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class BCELoss(_Loss):
    """`-(t log p + (1 - t) log(1 - p))` for probabilities p, times `weight`.

    >>> import wengert as wg
    >>> round(wg.nn.BCELoss()(wg.tensor([0.5, 0.5]), wg.tensor([0.0, 1.0])).item(), 4)
    0.6931
    """

    def __init__(self, weight: Any = None, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.register_buffer("weight", self._as_buffer(weight))

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(_Loss):
    """The binary cross-entropy of `sigmoid(input)`, exact for logits of any size.

    >>> import wengert as wg
    >>> round(wg.nn.BCEWithLogitsLoss()(wg.tensor([0.0, 0.0]), wg.tensor([0.0, 1.0])).item(), 4)
    0.6931
    """

    def __init__(self, weight: Any = None, *, reduction: str = "mean", pos_weight: Any = None) -> None:
        super().__init__(reduction)
        self.register_buffer("weight", self._as_buffer(weight))
        self.register_buffer("pos_weight", self._as_buffer(pos_weight))

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class KLDivLoss(_Loss):
    """`t * (log t - input)` for log-probabilities; the divergence itself is `reduction="batchmean"`.

    >>> import wengert as wg
    >>> wg.nn.KLDivLoss(reduction="batchmean")(wg.log(wg.tensor([[0.5, 0.5]])), wg.tensor([[0.5, 0.5]])).item()
    0.0
    """

    settings = ("log_target",)

    def __init__(self, *, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.kl_div(input, target, self.reduction, self.log_target)


class HingeEmbeddingLoss(_Loss):
    """The input where the target is 1, `max(0, margin - input)` where it is -1.

    >>> import wengert as wg
    >>> wg.nn.HingeEmbeddingLoss()(wg.tensor([0.5, 0.25]), wg.tensor([1, -1])).item()
    0.625
    """

    settings = ("margin",)

    def __init__(self, margin: float = 1.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.hinge_embedding_loss(input, target, self.margin, self.reduction)


class MarginRankingLoss(_Loss):
    """`max(0, margin - target * (input1 - input2))`.

    >>> import wengert as wg
    >>> wg.nn.MarginRankingLoss()(wg.tensor([1.0]), wg.tensor([3.0]), wg.tensor([1])).item()
    2.0
    """

    settings = ("margin",)

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: wg.Tensor, input2: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class CosineEmbeddingLoss(_Loss):
    """1 minus the cosine of two vectors where the target is 1, `max(0, cosine - margin)` where it is -1.

    >>> import wengert as wg
    >>> wg.nn.CosineEmbeddingLoss()(wg.tensor([[1.0, 0.0]]), wg.tensor([[0.0, 1.0]]), wg.tensor([1])).item()
    1.0
    """

    settings = ("margin",)

    def __init__(self, margin: float = 0.0, *, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: wg.Tensor, input2: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class TripletMarginLoss(_Loss):
    """`max(0, margin + |anchor - positive| - |anchor - negative|)`.

    >>> import wengert as wg
    >>> wg.nn.TripletMarginLoss()(wg.zeros((1, 2)), wg.zeros((1, 2)), wg.tensor([[3.0, 4.0]])).item()
    0.0
    """

    settings = ("margin", "p", "eps", "swap")

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, *, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: wg.Tensor, positive: wg.Tensor, negative: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction
        )


class PoissonNLLLoss(_Loss):
    """The negative log-likelihood of counts under a Poisson distribution of rate exp(input), or input.

    >>> import wengert as wg
    >>> wg.nn.PoissonNLLLoss()(wg.tensor([0.0]), wg.tensor([2.0])).item()
    1.0
    """

    settings = ("log_input", "full", "eps")

    def __init__(
        self, log_input: bool = True, full: bool = False, *, eps: float = 1e-8, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
        """The loss."""
        return wg.poisson_nll_loss(log_input, target, self.log_input, self.full, self.eps, self.reduction)


class GaussianNLLLoss(_Loss):
    """The negative log-likelihood of targets under normal distributions with these means and variances.

    >>> import wengert as wg
    >>> round(wg.nn.GaussianNLLLoss()(wg.tensor([1.0]), wg.tensor([3.0]), wg.tensor([2.0])).item(), 4)
    1.3466
    """

    settings = ("full", "eps")

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: wg.Tensor, target: wg.Tensor, var: Any) -> wg.Tensor:
        """The loss."""
        return wg.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)
