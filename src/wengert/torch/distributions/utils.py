"""`torch.distributions.utils`: what distributions of one's own are written with."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg
from wengert.distributions.distribution import EULER, sum_rightmost
from wengert.distributions.distribution import clamp_probs as clamp_probs
from wengert.distributions.distribution import logits_to_probs as logits_to_probs
from wengert.distributions.distribution import probs_to_logits as probs_to_logits
from wengert.torch.distributions.classes import as_tensors
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.random import randn

euler_constant = EULER
_sum_rightmost = sum_rightmost


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Numbers and tensors as tensors of one shape."""
    if not all(isinstance(value, (wg.Tensor, bool, int, float, np.number)) for value in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    return tuple(wg.broadcast_arrays(*as_tensors(*values)))


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Any:
    """Normally distributed numbers of mean 0 and deviation 1."""
    return randn(shape, dtype=dtype, device=device)


class lazy_property:
    """A property that is computed when first read, and then cached."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The entries of matrices on and below a diagonal, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = np.tril_indices(n, diag)
    return mat[..., rows.tolist(), columns.tolist()]


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.distributions.utils", name)
