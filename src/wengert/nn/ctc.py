"""Connectionist temporal classification (Graves et al., 2006): the loss of a label sequence over all of its alignments.

Labels are put between blanks, and one `scan` over the frames keeps the log-probability of every prefix, so that the
derivatives are those of the loss, of any order. Sequences that have ended keep what they had.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import wengert as wg
from wengert.nn.loss import _Loss


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> wg.Tensor:
    """The connectionist temporal classification loss of log-probabilities (T, N, C) or (T, C), summed over all
    alignments.

    `targets` are (N, S), of which the first `target_lengths` are used, or the concatenated targets of all sequences.
    "mean" divides each loss by its number of labels and averages over the batch. `zero_infinity` sets the loss to 0
    where no alignment exists.

    >>> import wengert as wg
    >>> even = wg.full((2, 1, 2), -0.6931472)
    >>> round(wg.exp(-wg.ctc_loss(even, wg.tensor([[1]]), (2,), (1,))).item(), 4)
    0.75
    """
    logs = wg.asarray(log_probs)
    if logs.ndim not in (2, 3) or not wg.isdtype(logs.dtype, "real floating"):
        raise wg.errors.ShapeError(
            f"ctc_loss: log_probs must be (T, N, C) or (T, C); they are {logs.dtype} {logs.shape}"
        )
    if reduction not in ("none", "mean", "sum"):
        raise wg.errors.ArgumentError(f'ctc_loss: reduction must be "none", "mean" or "sum", not {reduction!r}')
    if not 0 <= blank < logs.shape[-1]:
        raise wg.errors.OutOfRangeError(f"ctc_loss: blank {blank} is not one of the {logs.shape[-1]} classes")
    alone = logs.ndim == 2
    if alone:
        logs = wg.expand_dims(logs, 1)
    count = logs.shape[1]
    frames = _lengths("input_lengths", input_lengths, count, logs.shape[0])
    labels, sizes = _padded(wg.asarray(targets), target_lengths, count, alone)
    wide = logs.to(wg.result_type(logs.dtype, wg.float32))
    losses = _negative_log_likelihood(wide, labels, frames, sizes, blank)
    if zero_infinity:
        losses = wg.where(losses == math.inf, 0, losses)
    losses = losses.to(logs.dtype)
    if reduction == "mean":
        return wg.mean(losses / wg.maximum(sizes, 1).to(losses.dtype))
    if reduction == "sum":
        return wg.sum(losses)
    return wg.squeeze(losses, 0) if alone else losses


# --- arguments ------------------------------------------------------------------------------------------------------


def _lengths(name: str, given: Any, count: int, most: int) -> wg.Tensor:
    """Lengths as integers (N,), those of numbers checked."""
    numbers = np.asarray(given) if isinstance(given, (int, list, tuple)) else given
    found = wg.asarray(numbers)
    found = wg.reshape(found, (1,)) if not found.ndim else found
    if found.shape != (count,) or not wg.isdtype(found.dtype, "integral"):
        raise wg.errors.ShapeError(f"ctc_loss: {name} are {count} integers, not {found.dtype} {found.shape}")
    if isinstance(numbers, np.ndarray) and numbers.size and not 0 <= numbers.min() <= numbers.max() <= most:
        raise wg.errors.ArgumentError(f"ctc_loss: {name} must be from 0 to {most}; they are {numbers.tolist()}")
    return found.to(wg.int64)


def _padded(targets: wg.Tensor, target_lengths: Any, count: int, alone: bool) -> tuple[wg.Tensor, wg.Tensor]:
    """The labels as (N, S), and how many of each count."""
    if not wg.isdtype(targets.dtype, "integral"):
        raise wg.errors.DTypeError(f"ctc_loss: targets must be class indices, integers, not {targets.dtype}")
    if alone and targets.ndim == 1:
        targets = wg.expand_dims(targets, 0)
    if targets.ndim == 2 and targets.shape[0] == count:
        return targets, _lengths("target_lengths", target_lengths, count, targets.shape[1])
    if targets.ndim != 1:
        raise wg.errors.ShapeError(
            f"ctc_loss: targets must be ({count}, S) or one-dimensional; their shape is {targets.shape}"
        )
    numbers = _known(target_lengths)
    sizes = _lengths("target_lengths", tuple(numbers), count, targets.shape[0])
    if sum(numbers) != targets.shape[0]:
        raise wg.errors.ShapeError(
            f"ctc_loss: target_lengths add up to {sum(numbers)}, but there are {targets.shape[0]} concatenated targets"
        )
    begins = np.cumsum([0, *numbers[:-1]])[:, None]
    places = np.minimum(begins + np.arange(max(numbers, default=0)), max(targets.shape[0] - 1, 0))
    return wg.take(targets, wg.tensor(places), axis=0), sizes


def _known(lengths: Any) -> list[int]:
    try:
        return [int(n) for n in np.asarray(lengths.numpy() if isinstance(lengths, wg.Tensor) else lengths).reshape(-1)]
    except wg.errors.AbstractValueError as error:
        raise wg.errors.AbstractValueError(
            "ctc_loss: concatenated targets need their lengths as numbers, which abstract inputs do not have while a "
            "function is recorded. Pad the targets to (N, S), or pass target_lengths as a tuple of integers"
        ) from error


# --- the recurrence -------------------------------------------------------------------------------------------------


def _negative_log_likelihood(
    logs: wg.Tensor, labels: wg.Tensor, frames: wg.Tensor, sizes: wg.Tensor, blank: int
) -> wg.Tensor:
    """The loss of each sequence: log-probabilities of prefixes that end in each label or in a blank beside it."""
    count, longest = labels.shape
    device = logs.device
    inside = wg.arange(longest, device=device) < wg.expand_dims(sizes, 1)
    labels = wg.where(inside, labels.to(wg.int64), blank)
    blanks = wg.full((count, longest), blank, dtype=wg.int64, device=device)
    between = wg.stack([blanks, labels], axis=-1).reshape((count, 2 * longest))
    states = wg.concat([between, wg.full((count, 1), blank, dtype=wg.int64, device=device)], axis=1)
    emissions = wg.take_along_axis(logs, wg.expand_dims(states, 0), axis=2)
    skips = wg.pad(states[:, 2:] != states[:, :-2], (2, 0), value=False) & (states != blank)

    def step(alpha: wg.Tensor, frame: tuple[wg.Tensor, wg.Tensor]) -> tuple[wg.Tensor, tuple[()]]:
        emission, number = frame
        before = wg.pad(alpha[:, :-1], (1, 0), value=-math.inf)
        skipped = wg.where(skips, wg.pad(alpha, (2, 0), value=-math.inf)[:, : alpha.shape[1]], -math.inf)
        reached = _log_of_sum([alpha, before, skipped]) + emission
        return wg.where(wg.expand_dims(number < frames, 1), reached, alpha), ()

    start = wg.where(wg.arange(2 * longest + 1, device=device) == 0, 0.0, -math.inf).to(logs.dtype)
    first = wg.broadcast_to(start, (count, 2 * longest + 1))
    alpha, _ = wg.scan(step, first, (emissions, wg.arange(logs.shape[0], device=device)))
    ends = wg.expand_dims(2 * sizes, 1)
    in_blank = wg.take_along_axis(alpha, ends, axis=1)
    in_label = wg.where(ends > 0, wg.take_along_axis(alpha, wg.maximum(ends - 1, 0), axis=1), -math.inf)
    return -wg.squeeze(_log_of_sum([in_blank, in_label]), 1)


def _log_of_sum(terms: list[wg.Tensor]) -> wg.Tensor:
    """The logarithm of a sum of exponentials, with derivative 0 where all terms are -inf."""
    largest = terms[0]
    for term in terms[1:]:
        largest = wg.maximum(largest, term)
    largest = wg.stop_gradient(largest)
    nothing = largest == -math.inf
    shift = wg.where(nothing, 0, largest)
    total = wg.exp(terms[0] - shift)
    for term in terms[1:]:
        total = total + wg.exp(term - shift)
    return wg.where(nothing, -math.inf, wg.log(wg.where(nothing, 1, total)) + shift)


class CTCLoss(_Loss):
    """The connectionist temporal classification loss over all alignments of labels with frames; see `wg.ctc_loss`.

    >>> import wengert as wg
    >>> logs = wg.log_softmax(wg.zeros((5, 2, 3)))
    >>> loss = wg.nn.CTCLoss()(logs, wg.tensor([[1, 2], [1, 1]]), (5, 4), (2, 2))
    >>> loss.shape
    ()
    """

    settings = ("blank", "zero_infinity")

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: wg.Tensor, targets: wg.Tensor, input_lengths: Any, target_lengths: Any) -> wg.Tensor:
        """The loss."""
        return ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
