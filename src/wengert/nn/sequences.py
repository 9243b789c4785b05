"""Sequences of different lengths in one batch: padded, or packed for recurrent layers, with PyTorch's names.

A packed batch is the padded one with its lengths, not PyTorch's list of rows: shapes do not depend on values, so it can
be an argument and a result of compiled functions. A recurrent layer leaves the state of a sequence as it is after its
last step, and begins backwards with it. `data` and `batch_sizes` are PyTorch's, for who looks at them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import wengert as wg


class PackedSequence(NamedTuple):
    """Sequences of different lengths: padded, (steps, batch, ...), and the length of each.

    >>> import wengert as wg
    >>> packed = wg.nn.pack_sequence([wg.ones(3), wg.ones(2)])
    >>> packed.batch_sizes.tolist()
    [2, 2, 1]
    """

    padded: wg.Tensor
    lengths: wg.Tensor

    @property
    def data(self) -> wg.Tensor:
        """The elements of all sequences, step by step, those of longer sequences first."""
        steps, batch = self.padded.shape[:2]
        order = self.sorted_indices.numpy()
        lengths = self.lengths.numpy()
        rows = [t * batch + i for t in range(steps) for i in order if t < lengths[i]]
        flat = wg.reshape(self.padded, (steps * batch, *self.padded.shape[2:]))
        return wg.take(flat, wg.tensor(np.array(rows, np.int64)), axis=0)

    @property
    def batch_sizes(self) -> wg.Tensor:
        """How many sequences have a first, a second, ... element."""
        return (wg.arange(self.padded.shape[0], device=self.lengths.device)[:, None] < self.lengths).sum(axis=1)

    @property
    def sorted_indices(self) -> wg.Tensor:
        """The sequences in the order of their lengths, the longest first."""
        return wg.argsort(self.lengths, descending=True, stable=True)

    @property
    def unsorted_indices(self) -> wg.Tensor:
        """Where each sequence is in that order."""
        return wg.argsort(self.sorted_indices)

    def to(self, *targets: Any) -> PackedSequence:
        """The same sequences in a dtype, or on a device."""
        return PackedSequence(self.padded.to(*targets), self.lengths)

    def mask(self) -> wg.Tensor:
        """Which elements belong to a sequence: (steps, batch, 1, ...), as many axes as the padded value has."""
        inside = wg.arange(self.padded.shape[0], device=self.lengths.device)[:, None] < self.lengths
        return wg.reshape(inside, (*inside.shape, *(1,) * (self.padded.ndim - 2)))


def pad_sequence(sequences: Sequence[wg.Tensor], batch_first: bool = False, padding_value: float = 0.0) -> wg.Tensor:
    """Sequences of different lengths as one tensor (steps, batch, ...), filled up to the longest.

    >>> import wengert as wg
    >>> wg.nn.pad_sequence([wg.tensor([1, 2, 3]), wg.tensor([4])], batch_first=True).tolist()
    [[1, 2, 3], [4, 0, 0]]
    """
    if not sequences:
        raise wg.errors.ArgumentError("pad_sequence: there are no sequences")
    rest = {tuple(one.shape[1:]) for one in sequences}
    if len(rest) > 1 or any(one.ndim == 0 for one in sequences):
        raise wg.errors.ShapeError(
            f"pad_sequence: sequences may differ along their first axis; the shapes are {[s.shape for s in sequences]}"
        )
    steps = max(one.shape[0] for one in sequences)
    filled = [_filled(one, 0, steps, padding_value) for one in sequences]
    return wg.stack(filled, axis=0 if batch_first else 1)


def _filled(x: wg.Tensor, axis: int, size: int, value: float) -> wg.Tensor:
    """A value with more elements along an axis."""
    shape = (*x.shape[:axis], size - x.shape[axis], *x.shape[axis + 1 :])
    return x if not shape[axis] else wg.concat([x, wg.full(shape, value, dtype=x.dtype, device=x.device)], axis=axis)


def unpad_sequence(padded: wg.Tensor, lengths: Any, batch_first: bool = False) -> list[wg.Tensor]:
    """The sequences of a padded tensor.

    >>> import wengert as wg
    >>> [each.tolist() for each in wg.nn.unpad_sequence(wg.ones((2, 3)), wg.tensor([3, 1]), batch_first=True)]
    [[1.0, 1.0, 1.0], [1.0]]
    """
    by_sequence = padded if batch_first else wg.swapaxes(padded, 0, 1)
    return [one[: int(n)] for one, n in zip(by_sequence, _known(lengths), strict=True)]


def pack_padded_sequence(
    input: wg.Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """A padded tensor (steps, batch, ...) and the lengths of its sequences, as recurrent layers take them.

    With `enforce_sorted`, PyTorch's default, the lengths must be decreasing; the order makes no difference here.

    >>> import wengert as wg
    >>> packed = wg.nn.pack_padded_sequence(wg.tensor([[1, 2, 3], [4, 0, 0]]), [3, 1], batch_first=True)
    >>> packed.data.tolist(), packed.batch_sizes.tolist()
    ([1, 4, 2, 3], [2, 1, 1])
    """
    if input.ndim < 2:
        raise wg.errors.ShapeError(
            f"pack_padded_sequence: the input is (steps, batch, ...); its shape is {input.shape}"
        )
    padded = wg.swapaxes(input, 0, 1) if batch_first else input
    counts = wg.asarray(lengths, dtype=wg.int64)
    if counts.shape != padded.shape[1:2]:
        raise wg.errors.ShapeError(
            f"pack_padded_sequence: there are lengths of shape {counts.shape} for {padded.shape[1]} sequences"
        )
    known = _known_or_none(lengths)
    if known is not None:
        if known.size and not 1 <= known.min() <= known.max() <= padded.shape[0]:
            raise wg.errors.ArgumentError(
                f"pack_padded_sequence: lengths are from 1 to {padded.shape[0]}, the steps of the input; they are "
                f"{known.tolist()}"
            )
        if enforce_sorted and (known[1:] > known[:-1]).any():
            raise wg.errors.ArgumentError(
                f"pack_padded_sequence: with enforce_sorted lengths are decreasing; they are {known.tolist()}. Pass "
                "enforce_sorted=False"
            )
        padded = padded[: int(known.max())] if known.size else padded
    return PackedSequence(padded, counts.to(padded.device))


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[wg.Tensor, wg.Tensor]:
    """The padded tensor of packed sequences, (steps, batch, ...), and their lengths.

    >>> import wengert as wg
    >>> values, lengths = wg.nn.pad_packed_sequence(wg.nn.pack_sequence([wg.ones(3), wg.ones(2)]), batch_first=True)
    >>> values.tolist(), lengths.tolist()
    ([[1.0, 1.0, 1.0], [1.0, 1.0, 0.0]], [3, 2])
    """
    filling = wg.tensor(padding_value, device=sequence.padded.device).to(sequence.padded.dtype)
    padded = wg.where(sequence.mask(), sequence.padded, filling)
    if total_length is not None:
        if total_length < padded.shape[0]:
            raise wg.errors.ArgumentError(
                f"pad_packed_sequence: total_length {total_length} is less than the {padded.shape[0]} steps there are"
            )
        padded = _filled(padded, 0, total_length, padding_value)
    return (wg.swapaxes(padded, 0, 1) if batch_first else padded), sequence.lengths


def pack_sequence(sequences: Sequence[wg.Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences of different lengths, packed for recurrent layers.

    >>> import wengert as wg
    >>> wg.nn.pack_sequence([wg.ones(3), wg.ones(2)]).batch_sizes.tolist()
    [2, 2, 1]
    """
    lengths = [one.shape[0] for one in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed: PackedSequence) -> list[wg.Tensor]:
    """The sequences of a packed batch.

    >>> import wengert as wg
    >>> [each.tolist() for each in wg.nn.unpack_sequence(wg.nn.pack_sequence([wg.ones(3), wg.ones(2)]))]
    [[1.0, 1.0, 1.0], [1.0, 1.0]]
    """
    return unpad_sequence(packed.padded, packed.lengths)


def _known(lengths: Any) -> np.ndarray[Any, Any]:
    """Lengths that decide on shapes."""
    return np.asarray(lengths.numpy() if isinstance(lengths, wg.Tensor) else lengths)


def _known_or_none(lengths: Any) -> np.ndarray[Any, Any] | None:
    """Lengths, unless they are abstract, as the arguments of a function that is being compiled are."""
    try:
        return _known(lengths)
    except wg.errors.AbstractValueError:
        return None
