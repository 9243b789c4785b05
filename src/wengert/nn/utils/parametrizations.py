"""Parametrizations to register: weight norm and spectral norm."""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.nn.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from wengert.nn.module import Module
from wengert.nn.utils.parametrize import register_parametrization

__all__ = ["spectral_norm", "weight_norm"]


# --- weight norm ----------------------------------------------------------------------------------------------------


def norm_but_along(v: wg.Tensor, dim: int | None) -> wg.Tensor:
    """The norms of the slices along `dim`, shaped to broadcast; the norm of the whole weight if `dim` is None or -1."""
    if dim is None or dim == -1:
        return wg.norm(v)
    at = dim % v.ndim
    return wg.norm(v, axis=tuple(i for i in range(v.ndim) if i != at), keepdims=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, g: wg.Tensor, v: wg.Tensor) -> wg.Tensor:
        """The direction of `v`, as long as `g` says."""
        return v * (g / norm_but_along(v, self.dim))

    def right_inverse(self, weight: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        """The lengths of a weight, and itself for its directions."""
        return norm_but_along(weight, self.dim), weight


def weight_norm(module: Any, name: str = "weight", dim: int | None = 0) -> Any:
    """Learn a weight as its direction and its length along `dim` (Salimans and Kingma, "Weight normalization", 2016).

    The lengths are `parametrizations.weight.original0`, the directions `original1`.

    >>> import wengert as wg
    >>> layer = wg.nn.utils.parametrizations.weight_norm(wg.nn.Linear(3, 2))
    >>> layer.parametrizations["weight"].original0.shape, layer(wg.ones(3)).shape
    ((2, 1), (2,))
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


# --- spectral norm --------------------------------------------------------------------------------------------------


def as_matrix(weight: wg.Tensor, dim: int) -> wg.Tensor:
    """A weight as a matrix with `dim` as rows and everything else as columns."""
    moved = wg.moveaxis(weight, dim, 0) if dim else weight
    return wg.reshape(moved, (moved.shape[0], -1))


def output_axis(module: Any) -> int:
    """The output axis of a layer's weight."""
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0


class _SpectralNorm(Module):
    def __init__(self, weight: wg.Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if n_power_iterations < 1:
            raise wg.errors.ArgumentError(
                f"spectral_norm: n_power_iterations must be at least 1, not {n_power_iterations}"
            )
        self.dim = dim if dim >= 0 else dim + weight.ndim
        self.eps = eps
        self.n_power_iterations = n_power_iterations
        if weight.ndim > 1:
            matrix = as_matrix(weight.detach(), self.dim)
            for name, size in zip(("_u", "_v"), matrix.shape):
                start = wg.random.normal((size,), dtype=weight.dtype, device=weight.device)
                self.register_buffer(name, wg.normalize(start, axis=0, eps=eps))
            self._iterate(matrix, 15)

    _u: wg.Tensor
    _v: wg.Tensor

    def _iterate(self, matrix: wg.Tensor, times: int) -> None:
        """Power iterations from where the last ones ended."""
        with wg.no_grad():
            u, v = self._u.detach(), self._v.detach()
            for _ in range(times):
                u = wg.normalize(matrix @ v, axis=0, eps=self.eps)
                v = wg.normalize(matrix.mT @ u, axis=0, eps=self.eps)
            self._u.assign(wg.stop_gradient(u))
            self._v.assign(wg.stop_gradient(v))

    def forward(self, weight: wg.Tensor) -> wg.Tensor:
        """The weight over its largest singular value."""
        if weight.ndim == 1:
            return wg.normalize(weight, axis=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = wg.stop_gradient(self._u), wg.stop_gradient(self._v)
        return weight / wg.vecdot(u, matrix @ v)

    def right_inverse(self, value: wg.Tensor) -> wg.Tensor:
        """A value is its own original: its norm is not known apart from it."""
        return value


def spectral_norm(
    module: Any, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Any:
    """Divide a weight by its largest singular value, estimated by power iterations in training mode.

    Miyato et al., "Spectral normalization for generative adversarial networks", 2018.

    >>> import wengert as wg
    >>> layer = wg.nn.utils.parametrizations.spectral_norm(wg.nn.Linear(4, 3))
    >>> bool(abs(wg.linalg.matrix_norm(layer.weight, ord=2) - 1) < 0.1)
    True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, wg.Tensor):
        raise wg.errors.ArgumentError(f"spectral_norm: {type(module).__name__} has no parameter or buffer {name!r}")
    at = output_axis(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, at, eps))
