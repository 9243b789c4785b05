"""Text: tokens and back, GPT-2's pairs against tiktoken, windows and padded sequences."""

from __future__ import annotations

import json
import os
import unicodedata
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.core.errors import ArgumentError, FileError
from wengert.data import BytePairTokenizer, ByteTokenizer, CharacterTokenizer, DataLoader, Sequences, Windows
from wengert.data.tokens import _letters, from_description

SAMPLE = "The whale's back — 3,000 miles off; they'll see it, naïve señor! \n\n\tÜber 12½ knots   \u3000日本語 ok "
PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""


@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), CharacterTokenizer.of(SAMPLE)], ids=lambda t: type(t).__name__)
def test_bytes_and_characters_come_back(tokenizer):
    tokens = tokenizer.encode(SAMPLE)
    assert tokens.dtype == np.int64 and tokens.max() < tokenizer.size
    assert tokenizer.decode(tokens) == SAMPLE
    assert (from_description(tokenizer.description()).encode(SAMPLE) == tokens).all()


def test_a_character_outside_of_the_alphabet_is_named():
    with pytest.raises(ArgumentError, match="the character 'z' is not in the alphabet of 3"):
        CharacterTokenizer.of("abc").encode("abz")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """GPT-2's own files where WENGERT_DATA has them (in `gpt2-bpe`), else pairs learned from a sentence."""
    real = Path(os.environ.get("WENGERT_DATA", "")) / "gpt2-bpe"
    if (real / "encoder.json").is_file():
        return real
    letters = _letters()
    words = [["".join(letters[b]) for b in word.encode()] for word in (SAMPLE * 2).replace(" ", " \0").split("\0")]
    merges = []
    for _ in range(60):
        pairs = Counter(pair for word in words for pair in pairwise(word))
        (a, b), _ = max(pairs.items(), key=lambda item: (item[1], item[0]))
        merges.append((a, b))
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == (a, b):
                    word[i : i + 2] = [a + b]
                i += 1
    made = tmp_path_factory.mktemp("bpe")
    names = [*letters.values(), *dict.fromkeys(a + b for a, b in merges), "<|endoftext|>"]
    (made / "encoder.json").write_text(json.dumps({name: i for i, name in enumerate(names)}))
    (made / "vocab.bpe").write_text("\n".join(["#version: 0.2", *(f"{a} {b}" for a, b in merges), ""]))
    return made


@pytest.fixture(scope="module")
def pair(folder):
    """Our tokenizer and tiktoken's, from the same files."""
    tiktoken = pytest.importorskip("tiktoken")
    ours = BytePairTokenizer(folder)
    ranks = {ours._texts[i]: i for i in range(ours.size - 1)}
    special = {"<|endoftext|>": ours.size - 1}
    return ours, tiktoken.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens=special)


def test_gpt2_tokens_are_tiktokens(pair):
    ours, theirs = pair
    tokens = ours.encode(SAMPLE)
    assert tokens.tolist() == theirs.encode_ordinary(SAMPLE) and len(tokens) < len(SAMPLE.encode())
    assert ours.decode(tokens) == SAMPLE
    assert (from_description(ours.description()).encode(SAMPLE) == tokens).all()


ASSIGNED = st.characters(exclude_categories=["Cs", "Cn", "Co"]).filter(lambda c: unicodedata.category(c) != "Cn")
WORDS = st.sampled_from(
    [" ", "  ", "\n", "\t ", "'s", "'ll", "'", " the", "whale", "12", "½", "\x1c", "\x85", "\u3000", "é"]
)


@settings(max_examples=200, deadline=None)
@given(text=st.lists(WORDS | ASSIGNED, max_size=20).map("".join))
def test_gpt2_tokens_of_any_text_are_tiktokens(pair, text):
    ours, theirs = pair
    # tiktoken may know letters of a later Unicode than Python does; which of them are in the text cannot be told.
    known = "".join(c for c in text if unicodedata.ucd_3_2_0.category(c) != "Cn")
    assert ours.encode(known).tolist() == theirs.encode_ordinary(known)
    assert ours.decode(ours.encode(text)) == text


def test_missing_vocabularies_are_named(tmp_path):
    with pytest.raises(FileError, match=r"need encoder.json \(or vocab.json\) in"):
        BytePairTokenizer(tmp_path)


def test_windows_cover_the_text_and_shift():
    tokens = np.arange(101)
    plain, shifted = Windows(tokens, 10), Windows(tokens, 10, shift=True)
    assert len(plain) == 10
    indices = np.arange(10)
    x, y = plain.batch(indices, np.random.default_rng(0))
    assert x.reshape(-1).tolist() == list(range(100)) and (y == x + 1).all()
    x, y = shifted.batch(indices, np.random.default_rng(0))
    assert (y == x + 1).all() and (np.diff(x) == 1).all() and x.max() <= 99
    offsets = x[:, 0] - 10 * indices
    assert offsets.min() >= 0 and offsets.max() < 10 and len(set(offsets)) > 3
    with pytest.raises(ArgumentError, match="a text of 10 tokens has no window of 10"):
        Windows(np.arange(10), 10)


def test_padded_sequences_have_few_shapes_and_ignored_targets():
    rng = np.random.default_rng(0)
    sequences = [rng.integers(1, 50, length) for length in rng.integers(2, 40, 60)]
    data = Sequences(sequences, buckets=(8, 16, 32))
    loader = DataLoader(data, 8, shuffle=True, pad_last=True)
    shapes = {batch[0].shape for batch in loader}
    assert shapes == {(8, 8), (8, 16), (8, 32)}
    for i, sequence in enumerate(sequences):
        x, y = data[i]
        kept = sequence[:33]
        assert x[: len(kept) - 1].tolist() == kept[:-1].tolist()
        assert y[y != -100].tolist() == kept[1:].tolist()
    model = wg.models.GPT(wg.models.GPTConfig(vocab_size=50, n_positions=32, n_embd=8, n_layer=1, n_head=2))
    x, y = data[0]
    length = len(sequences[0]) - 1
    _, padded = model(wg.tensor(x[None]), wg.tensor(y[None]))
    _, alone = model(wg.tensor(x[None, :length]), wg.tensor(y[None, :length]))
    assert padded.item() == pytest.approx(alone.item(), rel=1e-5)
