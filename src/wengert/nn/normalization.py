"""Normalisation layers. Running statistics are buffers, assigned as a training forward is recorded."""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.nn import init
from wengert.nn.linear import new_parameter
from wengert.nn.module import Module


class _Affine(Module):
    """What ends a normalisation: a weight and a bias, of which either may be missing."""

    weight: wg.Tensor | None
    bias: wg.Tensor | None

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _ByChannel(_Affine):
    """What batch norm and instance norm share: a weight and a bias a channel, and running statistics."""

    ranks: tuple[int, ...]

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        shape = (num_features,)
        self.register_parameter("weight", new_parameter(shape, dtype, device) if affine else None)
        self.register_parameter("bias", new_parameter(shape, dtype, device) if affine and bias else None)
        track = track_running_stats
        self.register_buffer("running_mean", wg.zeros(shape, dtype=dtype, device=device) if track else None)
        self.register_buffer("running_var", wg.ones(shape, dtype=dtype, device=device) if track else None)
        self.register_buffer("num_batches_tracked", wg.tensor(0, wg.int64, device=device) if track else None)
        if self.weight is not None:
            init.ones_(self.weight)

    running_mean: wg.Tensor | None
    running_var: wg.Tensor | None
    num_batches_tracked: wg.Tensor | None

    def reset_running_stats(self) -> None:
        """Begin the running statistics anew: mean 0, variance 1."""
        for slot, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if slot is not None:
                init.constant_(slot, value)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and running statistics anew."""
        self.reset_running_stats()
        super().reset_parameters()

    def _require_shape(self, input: wg.Tensor) -> None:
        if input.ndim not in self.ranks:
            axes = " or ".join(str(rank) for rank in self.ranks)
            raise wg.errors.ShapeError(f"{type(self).__name__} takes {axes} axes; the input's shape is {input.shape}")

    def _step(self) -> Any:
        """How far the running statistics move: the momentum, or, without one, what makes them an average of all."""
        if self.num_batches_tracked is None or self.running_mean is None:
            return 0.0
        self.num_batches_tracked.assign(self.num_batches_tracked + 1)
        if self.momentum is None:
            return 1.0 / self.num_batches_tracked.to(self.running_mean.dtype)
        return self.momentum

    def extra_repr(self) -> str:
        """The sizes and settings."""
        settings = f"eps={self.eps}, momentum={self.momentum}, affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_features}, {settings}, track_running_stats={self.track_running_stats}"


class _BatchNorm(_ByChannel):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The input with mean 0 and variance 1 a channel: over the batch when training, else by running statistics."""
        self._require_shape(input)
        if self.running_mean is None or self.training:
            step = self._step() if self.training else 0.0
            return wg.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, True, step, self.eps
            )
        return wg.batch_norm(input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch norm of (N, C) or (N, C, L). With `momentum=None` the running statistics are averages of all batches.

    >>> import wengert as wg
    >>> norm = wg.nn.BatchNorm1d(1, momentum=0.5)
    >>> norm(wg.tensor([[1.0], [3.0]])).detach().numpy().round(2).tolist(), norm.running_mean.tolist()
    ([[-1.0], [1.0]], [1.0])
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch norm of (N, C, H, W).

    >>> import wengert as wg
    >>> wg.nn.BatchNorm2d(3)(wg.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch norm of (N, C, D, H, W).

    >>> import wengert as wg
    >>> wg.nn.BatchNorm3d(3)(wg.ones((2, 3, 2, 4, 4))).shape
    (2, 3, 2, 4, 4)
    """

    ranks = (5,)


class _InstanceNorm(_ByChannel):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The input with mean 0 and variance 1 in each channel of each sample."""
        self._require_shape(input)
        if input.ndim == self.ranks[0]:
            return wg.squeeze(self._normalized(wg.expand_dims(input, 0)), 0)
        return self._normalized(input)

    def _normalized(self, input: wg.Tensor) -> wg.Tensor:
        own = self.training or not self.track_running_stats
        step = 0.0 if self.momentum is None else self.momentum  # as in PyTorch, which does not count batches here
        return wg.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias, own, step, self.eps)


class InstanceNorm1d(_InstanceNorm):
    """Instance norm of (N, C, L) or (C, L).

    >>> import wengert as wg
    >>> wg.nn.InstanceNorm1d(3)(wg.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance norm of (N, C, H, W) or (C, H, W).

    >>> import wengert as wg
    >>> wg.nn.InstanceNorm2d(3)(wg.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance norm of (N, C, D, H, W) or (C, D, H, W).

    >>> import wengert as wg
    >>> wg.nn.InstanceNorm3d(3)(wg.ones((2, 3, 2, 4, 4))).shape
    (2, 3, 2, 4, 4)
    """

    ranks = (4, 5)


class GroupNorm(_Affine):
    """Mean 0 and variance 1 over each of `num_groups` groups of channels of a sample; then a scale and shift.

    >>> import wengert as wg
    >>> wg.nn.GroupNorm(3, 6)(wg.ones((2, 6, 4, 4))).shape
    (2, 6, 4, 4)
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise wg.errors.ArgumentError(f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        self.register_parameter("weight", new_parameter((num_channels,), dtype, device) if affine else None)
        self.register_parameter("bias", new_parameter((num_channels,), dtype, device) if affine and bias else None)
        self.reset_parameters()

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The input (N, C, ...), normalised."""
        return wg.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The sizes and settings."""
        settings = f"eps={self.eps}, affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_groups}, {self.num_channels}, {settings}"


class LayerNorm(_Affine):
    """Mean 0 and variance 1 over the last axes, which have `normalized_shape`; then a scale and shift an element.

    >>> import wengert as wg
    >>> wg.nn.LayerNorm(2)(wg.tensor([[1.0, 3.0]])).detach().numpy().round(2).tolist()
    [[-1.0, 1.0]]
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        shape = self.normalized_shape
        self.register_parameter("weight", new_parameter(shape, dtype, device) if elementwise_affine else None)
        self.register_parameter("bias", new_parameter(shape, dtype, device) if elementwise_affine and bias else None)
        self.reset_parameters()

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The input, normalised."""
        return wg.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The sizes and settings."""
        settings = f"eps={self.eps}, elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        return f"{self.normalized_shape}, {settings}"


class RMSNorm(Module):
    """The input over its root mean square along the last axes, which have `normalized_shape`; then a scale.

    >>> import wengert as wg
    >>> [[round(v, 4) for v in row] for row in wg.nn.RMSNorm(2)(wg.tensor([[3.0, 4.0]])).tolist()]
    [[0.8485, 1.1314]]
    """

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter(
            "weight", new_parameter(self.normalized_shape, dtype, device) if elementwise_affine else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        """The input, normalised."""
        return wg.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The sizes and settings."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class LocalResponseNorm(Module):
    """The input over a power of the mean square of `size` neighbouring channels (Krizhevsky et al., 2012).

    >>> import wengert as wg
    >>> wg.nn.LocalResponseNorm(2)(wg.ones((1, 4, 2))).shape
    (1, 4, 2)
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The input (N, C, ...), normalised."""
        return wg.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
