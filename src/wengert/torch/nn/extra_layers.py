"""Layers that PyTorch has and Wengert's own `nn` has not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import wengert as wg
from wengert.torch.nn import functional as F
from wengert.torch.nn.module import Module, layer_of

Linear: Any = layer_of(wg.nn.Linear)
Sequential: Any = layer_of(wg.nn.Sequential)
ModuleList: Any = layer_of(wg.nn.ModuleList)


class NonDynamicallyQuantizableLinear(Linear):
    """The Linear class that attention uses for its output."""


class Container(Module):
    """A module that holds others by name; use `ModuleDict` instead."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


class NLLLoss2d(layer_of(wg.nn.NLLLoss)):  # type: ignore[misc]
    """`NLLLoss` under its old name for images."""


class CrossMapLRN2d(Module):
    """`LocalResponseNorm` of images, under its old name."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Any) -> Any:
        """(N, C, H, W), with each channel divided by a power of the squares of its neighbours."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class SyncBatchNorm(layer_of(wg.nn.BatchNorm1d.__bases__[0])):  # type: ignore[misc]
    """Batch norm over a batch that is distributed over processes; in a single process it is plain batch norm."""

    ranks = (2, 3, 4, 5)

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-05,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def forward(self, input: Any) -> Any:
        """Normalise each channel of the input."""
        if self.training and wg.distributed.world_size() > 1:
            raise RuntimeError("SyncBatchNorm: statistics are not shared between processes; use BatchNorm or GroupNorm")
        return super().forward(input)

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """Replace every batch norm in a module by a SyncBatchNorm with the same state."""
        normalises: Any = wg.nn.BatchNorm1d.__bases__[0]
        if isinstance(module, normalises) and not isinstance(module, cls):
            made = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
            return made
        for name, child in list(module.named_children()):
            setattr(module, name, cls.convert_sync_batchnorm(child, process_group))
        return module


# --- losses with weights ----------------------------------------------------------------------------------------------


class _ASMoutput(NamedTuple):
    output: Any
    loss: Any


class AdaptiveLogSoftmaxWithLoss(Module):
    """A loss over many classes, few of which are frequent (Grave et al., 2017).

    The head has the frequent classes and one entry for each cluster of rarer ones, whose own scores come from fewer
    features the rarer they are. Every cluster is computed for the whole batch, so that shapes do not depend on values.
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
        limits = list(cutoffs)
        if not limits:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if limits != sorted({int(c) for c in limits}) or limits[0] <= 0 or limits[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*limits, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = limits[0]
        self.n_clusters = len(limits)
        self.head_size = self.shortlist_size + self.n_clusters
        made = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            features = int(in_features // div_value ** (i + 1))
            project = Linear(in_features, features, bias=False, **made)
            self.tail.append(Sequential(project, Linear(features, high - low, bias=False, **made)))

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        for layer in (self.head, *(linear for cluster in self.tail for linear in cluster)):
            layer.reset_parameters()

    def forward(self, input_: Any, target_: Any) -> _ASMoutput:
        """The log-probability of each target, and their mean negative."""
        if target_.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input_.ndim != target_.ndim + 1 or (target_.ndim and input_.shape[0] != target_.shape[0]):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        output = self.log_prob(input_).gather(-1, target_.unsqueeze(-1)).squeeze(-1)
        return _ASMoutput(output, (-output).mean())

    def log_prob(self, input: Any) -> Any:
        """The log-probabilities of all classes, for each input."""
        head = F.log_softmax(self.head(input), dim=-1)
        parts = [head[..., : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            at = self.shortlist_size + i
            parts.append(F.log_softmax(cluster(input), dim=-1) + head[..., at : at + 1])
        return wg.concat(parts, axis=-1)

    def predict(self, input: Any) -> Any:
        """The most probable class for each input."""
        return self.log_prob(input).argmax(dim=-1)


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """PyTorch's options for splitting `linear_cross_entropy`; accepted and ignored, because the compiler decides
    here."""

    allow_retain_graph: bool = False
    acc_policy: str = "auto"
    chunking_method: str = "auto"


class LinearCrossEntropyLoss(Module):
    """The cross-entropy of a linear layer's scores."""

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__()
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        self.register_buffer("weight", weight)
        self.reduction = reduction
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(in_features, num_classes * math.prod(out_features), bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Any, target: Any) -> Any:
        """The loss."""
        classes = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*classes, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(classes),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
        )

    def extra_repr(self) -> str:
        """The settings."""
        linear = self.linear
        sizes = f"in_features={linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}"
        how = f"reduction={self.reduction}, ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}"
        return f"{sizes}, bias={linear.bias is not None}, {how}, options={self.options}"
