"""Sequences of tokens to learn from: windows of a long text, or sequences of different lengths, padded to a few.

Batches are pairs of tokens and targets, the token after each. A target of -100 is ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.errors import ArgumentError
from wengert.data.dataset import Array, Batch, Dataset

IGNORED = -100


class Windows(Dataset):
    """Cuts a text into windows of `length` tokens; with `shift` each begins at a random offset of up to `length`.

    >>> import numpy as np, wengert as wg
    >>> windows = wg.data.Windows(np.arange(10), 4)
    >>> len(windows), [part.tolist() for part in windows[1]]
    (2, [[4, 5, 6, 7], [5, 6, 7, 8]])
    """

    def __init__(self, tokens: Any, length: int, *, shift: bool = False) -> None:
        self.tokens = np.asarray(tokens)
        self.length = length
        self.shift = shift
        if length < 1:
            raise ArgumentError(f"Windows: the length must be at least 1, not {length}")
        if len(self.tokens) <= length:
            raise ArgumentError(
                f"Windows: a text of {len(self.tokens)} tokens has no window of {length} tokens followed by another "
                "token; use a longer text or shorter windows"
            )

    def __len__(self) -> int:
        return (len(self.tokens) - 1) // self.length

    def __getitem__(self, index: int) -> tuple[Array, Array]:
        start = range(len(self))[index] * self.length
        window = self.tokens[start : start + self.length + 1]
        return window[:-1], window[1:]

    @property
    def by_row(self) -> bool:
        """Whether rows are independent: they are, unless `batch` is overridden."""
        return type(self).batch is Windows.batch

    def batch(self, indices: Array, rng: np.random.Generator) -> Batch:
        """The windows with these indices."""
        starts = indices * self.length
        if self.shift:
            starts = np.minimum(starts + rng.integers(0, self.length, len(starts)), len(self.tokens) - self.length - 1)
        windows = self.tokens[starts[:, None] + np.arange(self.length + 1)]
        return windows[:, :-1], windows[:, 1:]


class Sequences(Dataset):
    """Sequences of different lengths, padded to the smallest of the `buckets` that fits.

    A batch comes from one bucket, so there are as many shapes, and compiled programs, as buckets. Sequences longer than
    the largest bucket are truncated.

    >>> import numpy as np, wengert as wg
    >>> lines = wg.data.Sequences([[1, 2, 3], [4, 5, 6, 7, 8, 9]], buckets=(4, 8))
    >>> [part.tolist() for part in lines[0]]
    [[1, 2, 0, 0], [2, 3, -100, -100]]
    >>> lines.groups.tolist()
    [0, 1]
    """

    def __init__(self, sequences: Sequence[Any], buckets: Sequence[int], *, padding: int = 0) -> None:
        self.buckets = tuple(sorted(buckets))
        self.padding = padding
        if not self.buckets or self.buckets[0] < 1:
            raise ArgumentError(f"Sequences: buckets must be lengths of at least 1, not {tuple(buckets)}")
        self.sequences = [np.asarray(sequence)[: self.buckets[-1] + 1] for sequence in sequences]
        short = [i for i, sequence in enumerate(self.sequences) if len(sequence) < 2]
        if short:
            raise ArgumentError(f"Sequences: sequence {short[0]} has no token to predict: it needs at least two tokens")
        self.groups = np.searchsorted(self.buckets, [len(sequence) - 1 for sequence in self.sequences])

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, index: int) -> tuple[Array, Array]:
        sequence = self.sequences[index]
        length = self.buckets[np.searchsorted(self.buckets, len(sequence) - 1)]
        tokens, targets = np.full(length, self.padding, np.int64), np.full(length, IGNORED, np.int64)
        tokens[: len(sequence) - 1] = sequence[:-1]
        targets[: len(sequence) - 1] = sequence[1:]
        return tokens, targets
