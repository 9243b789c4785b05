"""`torch.nn.utils.rnn`: sequences of different lengths, packed and padded.

A packed batch is Wengert's: padded, with its lengths. `data` and `batch_sizes` are PyTorch's rows, and a batch can be
made of those.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert.nn import sequences as _sequences
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.tensor import of


class _KindOfPacked(type):
    """What `PackedSequence` is: a name for Wengert's, that makes one of PyTorch's rows."""

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _sequences.PackedSequence)

    def __call__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> Any:
        if batch_sizes is None:
            data, batch_sizes = data
        sizes = np.asarray(batch_sizes.numpy() if isinstance(batch_sizes, wg.Tensor) else batch_sizes)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        places = np.arange(sizes[0])
        if unsorted_indices is None and sorted_indices is not None:
            unsorted_indices = wg.argsort(sorted_indices)
        if unsorted_indices is not None:
            places = unsorted_indices.numpy()
        inside = places < sizes[:, None]
        rows = np.where(inside, starts[:, None] + places, 0)
        lengths = of(wg.tensor(inside.sum(0).astype(np.int64), device=data.node.device))
        packed = _sequences.PackedSequence(wg.take(data, wg.tensor(rows.reshape(-1)), axis=0), lengths)
        padded = wg.reshape(packed.padded, (*rows.shape, *data.shape[1:]))
        packed = _sequences.PackedSequence(padded, lengths)
        return packed._replace(padded=wg.where(packed.mask(), padded, wg.zeros_like(padded)))


class PackedSequence(metaclass=_KindOfPacked):
    """A batch of sequences of different lengths; made of `data` and `batch_sizes`, or by `pack_padded_sequence`."""


def pack_padded_sequence(input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> Any:
    """Pack a padded batch with the lengths of its sequences."""
    packed = _sequences.pack_padded_sequence(input, lengths, batch_first, enforce_sorted)
    return packed._replace(lengths=of(packed.lengths))


def pad_packed_sequence(
    sequence: Any, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Any, Any]:
    """Unpack to a padded batch and the lengths."""
    padded, lengths = _sequences.pad_packed_sequence(sequence, batch_first, padding_value, total_length)
    return padded, of(lengths).to("cpu")


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    """Pad sequences to the longest one, at the end or, with "left", at the beginning."""
    if padding_side not in ("left", "right"):
        raise ValueError(f"padding_side should be either 'right' or 'left', but got {padding_side}")
    given = list(sequences)
    if padding_side == "right":
        return _sequences.pad_sequence(given, batch_first, padding_value)
    turned = _sequences.pad_sequence([wg.flip(x, 0) for x in given], batch_first, padding_value)
    return wg.flip(turned, 1 if batch_first else 0)


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> Any:
    """Pack sequences of different lengths."""
    return pack_padded_sequence(pad_sequence(sequences), [len(x) for x in sequences], enforce_sorted=enforce_sorted)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Any]:
    """The sequences of a padded batch."""
    return _sequences.unpad_sequence(padded_sequences, lengths, batch_first)


def unpack_sequence(packed_sequences: Any) -> list[Any]:
    """The sequences of a packed batch."""
    return _sequences.unpack_sequence(packed_sequences)


def invert_permutation(permutation: Any) -> Any:
    """The inverse of a permutation."""
    return None if permutation is None else wg.argsort(permutation)


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.nn.utils.rnn", name)
