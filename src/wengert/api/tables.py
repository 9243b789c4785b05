"""Embeddings: functions that look up rows of a table, and can renormalise its rows in place."""

from __future__ import annotations

from typing import Any

from wengert.api.creation import asarray
from wengert.api.lift import lift
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.graph import recorded_as, recording
from wengert.ops import embedding as _embedding
from wengert.ops.core import stop_gradient
from wengert.tensor import Tensor, unwrap

__all__ = ["embedding", "embedding_bag"]

_look_up = lift(_embedding.embedding)
_look_up_bags = lift(_embedding.embedding_bag)


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Look up rows of `weight` (count, features) by integer index. The row `padding_idx` gets no gradient.

    With `max_norm`, the rows looked up are first scaled down to that p-norm, in place. `scale_grad_by_freq` divides the
    gradient of each row by how often its index occurs. Gradients are dense: `sparse` is accepted and ignored.

    >>> import wengert as wg
    >>> wg.embedding(wg.tensor([1, 0, 1]), wg.tensor([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [[3.0, 4.0], [1.0, 2.0], [3.0, 4.0]]
    """
    _shorten("embedding", input, weight, max_norm, norm_type)
    return _look_up(input, weight, padding_idx, scale_grad_by_freq)


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The "sum", "mean" or "max" of each bag of rows of `weight`, without materialising the rows.

    `input` is (bags, length), or (rows,) with `offsets`, where each bag begins; with `include_last_offset` the last of
    these is where the last bag ends. Row numbers equal to `padding_idx` do not count. `per_sample_weights` multiply the
    rows of a sum. The other options are those of `embedding`.

    >>> import wengert as wg
    >>> table = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> wg.embedding_bag(wg.tensor([0, 1, 1]), table, wg.tensor([0, 2]), mode="sum").tolist()
    [[4.0, 6.0], [3.0, 4.0]]
    """
    _shorten("embedding_bag", input, weight, max_norm, norm_type)
    return _look_up_bags(
        input, weight, offsets, scale_grad_by_freq, mode, per_sample_weights, include_last_offset, padding_idx
    )


def _shorten(name: str, input: Any, weight: Any, max_norm: float | None, norm_type: float) -> None:
    """Scale the rows that are named down to `max_norm`, in the table itself."""
    if max_norm is None:
        return
    if not isinstance(weight, Tensor):
        raise DTypeError(
            f"{name}: with max_norm the weight must be a Tensor, because it is assigned in place, not {type(weight)}"
        )
    if not max_norm > 0 or not norm_type > 0:
        raise ArgumentError(f"{name}: max_norm and norm_type must be positive; they are {max_norm!r} and {norm_type!r}")
    with recorded_as(recording.location, False):
        found = _embedding.shortened(name, unwrap(asarray(input)), unwrap(weight), max_norm, norm_type)
        weight.assign(Tensor(stop_gradient(found)))
