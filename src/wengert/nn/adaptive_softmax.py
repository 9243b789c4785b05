"""The adaptive softmax (Grave et al., "Efficient softmax approximation for GPUs", 2017): rare classes in clusters.

The head has the frequent classes and a score for each cluster of rarer ones, whose own scores come from fewer features.
Every cluster is computed for every row, so that shapes do not depend on the targets, and the layer compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from wengert.nn.container import ModuleList, Sequential
from wengert.nn.linear import Linear
from wengert.nn.module import Module


class ASMoutput(NamedTuple):
    """The log-probability of each target, and the mean negative log-likelihood."""

    output: wg.Tensor
    loss: wg.Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """An adaptive softmax over many classes, sorted by frequency with the most frequent first.

    `cutoffs` are the classes at which the clusters begin; cluster i has `in_features / div_value ** (i + 1)` features.

    >>> import wengert as wg
    >>> model = wg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[5, 10], div_value=2.0)
    >>> model(wg.ones((4, 8)), wg.tensor([0, 7, 12, 19])).output.shape, model.log_prob(wg.ones((4, 8))).shape
    ((4,), (4, 20))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        ends = list(cutoffs)
        if not ends or ends != sorted(set(ends)) or ends[0] < 1 or ends[-1] >= n_classes:
            raise wg.errors.ArgumentError(
                f"AdaptiveLogSoftmaxWithLoss: cutoffs must increase from 1 to at most {n_classes - 1}, not {ends}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*ends, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = ends[0]
        self.n_clusters = len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(zip(ends, self.cutoffs[1:])):
            size = int(in_features // div_value ** (i + 1))
            if not size:
                raise wg.errors.ArgumentError(
                    f"AdaptiveLogSoftmaxWithLoss: cluster {i} has no features: {in_features} / {div_value} ** {i + 1}"
                )
            first = Linear(in_features, size, False, device, dtype)
            self.tail.append(Sequential(first, Linear(size, high - low, False, device, dtype)))

    def reset_parameters(self) -> None:
        """Initialise the parameters again."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def _clusters(self, input: wg.Tensor) -> tuple[wg.Tensor, list[wg.Tensor]]:
        """The log-probabilities of the head, and of the classes of each cluster."""
        head = wg.log_softmax(self.head(input), axis=-1)
        size = self.shortlist_size
        tails = [
            head[..., size + i : size + i + 1] + wg.log_softmax(tail(input), axis=-1)
            for i, tail in enumerate(self.tail)
        ]
        return head, tails

    def forward(self, input: wg.Tensor, target: wg.Tensor) -> ASMoutput:
        """The log-probabilities of the targets: (N, in_features) and (N,), or a vector and a number."""
        alone = input.ndim == 1
        rows, classes = (wg.expand_dims(input, 0), wg.expand_dims(target, 0)) if alone else (input, target)
        if rows.ndim != 2 or classes.shape != rows.shape[:1]:
            raise wg.errors.ShapeError(
                f"AdaptiveLogSoftmaxWithLoss: the input must be (N, {self.in_features}) and the target (N,); their "
                f"shapes are {input.shape} and {target.shape}"
            )
        self._check(classes)
        head, tails = self._clusters(rows)
        found = self._picked(head[:, : self.shortlist_size], classes, 0)
        for low, tail in zip(self.cutoffs, tails):
            found = wg.where(classes >= low, self._picked(tail, classes, low), found)
        return ASMoutput(wg.squeeze(found, 0) if alone else found, -wg.mean(found))

    @staticmethod
    def _picked(logs: wg.Tensor, classes: wg.Tensor, low: int) -> wg.Tensor:
        """The element of each row for its class, counted from `low`; any where the class is of another cluster."""
        places = wg.clip(classes - low, 0, logs.shape[1] - 1)
        return wg.squeeze(wg.take_along_axis(logs, wg.expand_dims(places, 1), axis=1), 1)

    def _check(self, classes: wg.Tensor) -> None:
        known = classes.node.buffer
        if isinstance(known, np.ndarray) and known.size and not 0 <= known.min() <= known.max() < self.n_classes:
            wrong = int(known.min() if known.min() < 0 else known.max())
            raise wg.errors.OutOfRangeError(
                f"AdaptiveLogSoftmaxWithLoss: target {wrong} is not one of the {self.n_classes} classes"
            )

    def log_prob(self, input: wg.Tensor) -> wg.Tensor:
        """The log-probabilities of all classes, (N, n_classes)."""
        head, tails = self._clusters(input)
        return wg.concat([head[..., : self.shortlist_size], *tails], axis=-1)

    def predict(self, input: wg.Tensor) -> wg.Tensor:
        """The most probable class of each row."""
        return wg.argmax(self.log_prob(input), axis=-1)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"in_features={self.in_features}, n_classes={self.n_classes}, cutoffs={self.cutoffs[:-1]}"
