"""Text as tokens: bytes, characters, or GPT-2's byte pairs. `encode` gives integers, `decode` the text again.

`description()` is what a checkpoint keeps of a tokenizer, and `from_description` makes it again.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from wengert.core.errors import ArgumentError, FileError
from wengert.data.dataset import Array


class ByteTokenizer:
    """A token for each byte of the text in UTF-8.

    >>> tokenizer = ByteTokenizer()
    >>> tokenizer.encode("hé").tolist(), tokenizer.decode([104, 195, 169])
    ([104, 195, 169], 'hé')
    """

    size = 256

    def encode(self, text: str) -> Array:
        """The tokens of a text."""
        return np.frombuffer(text.encode(), np.uint8).astype(np.int64)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens; where it is cut inside a character, that shows as a replacement character."""
        return bytes(int(token) for token in tokens).decode(errors="replace")

    def description(self) -> dict[str, Any]:
        """What `from_description` makes it from."""
        return {"kind": "byte"}


class CharacterTokenizer:
    """A token for each character of an alphabet.

    >>> tokenizer = CharacterTokenizer.of("hello")
    >>> tokenizer.alphabet, tokenizer.encode("hole").tolist()
    ('ehlo', [1, 3, 2, 0])
    """

    def __init__(self, alphabet: str) -> None:
        self.alphabet = alphabet
        self.size = len(alphabet)
        self._codes = np.array([ord(letter) for letter in alphabet], np.uint32)
        if not alphabet or (np.diff(self._codes.astype(np.int64)) <= 0).any():
            raise ArgumentError("CharacterTokenizer: the alphabet has its characters in order, each once")

    @classmethod
    def of(cls, text: str) -> CharacterTokenizer:
        """With the characters of this text."""
        return cls("".join(sorted(set(text))))

    def encode(self, text: str) -> Array:
        """The tokens of a text."""
        codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
        tokens = np.minimum(np.searchsorted(self._codes, codes), self.size - 1)
        unknown = self._codes[tokens] != codes
        if unknown.any():
            raise ArgumentError(f"the character {chr(codes[unknown.argmax()])!r} is not in the alphabet of {self.size}")
        return tokens.astype(np.int64)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens."""
        return "".join(self.alphabet[token] for token in tokens)

    def description(self) -> dict[str, Any]:
        """What `from_description` makes it from."""
        return {"kind": "character", "alphabet": self.alphabet}


class BytePairTokenizer:
    """GPT-2's tokens: words cut by a pattern, of whose bytes the learned pairs are joined, the earliest first.

    `folder` has its two files, `encoder.json` (or `vocab.json`) and `vocab.bpe` (or `merges.txt`).

    >>> import wengert as wg
    >>> import json, tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> size = (folder / "encoder.json").write_text(json.dumps({"h": 0, "i": 1, "hi": 2}))
    >>> size = (folder / "vocab.bpe").write_text("#version: 0.2\\nh i\\n")
    >>> list(wg.data.BytePairTokenizer(folder).encode("hi"))
    [np.int64(2)]
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        encoder = _read(self.folder, "encoder.json", "vocab.json")
        lines = _read(self.folder, "vocab.bpe", "merges.txt").split("\n")
        letters = {letter: byte for byte, letter in _letters().items()}
        pairs = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        try:
            numbers = json.loads(encoder)
            self.size = max(numbers.values()) + 1
            as_bytes = {name: bytes(letters[letter] for letter in name) for name in numbers if name not in SPECIAL}
            self._ranks = {(as_bytes[a], as_bytes[b]): rank for rank, (a, b) in enumerate(pairs)}
        except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise FileError(f"the vocabulary in {str(folder)!r} does not fit together: {error}") from None
        self._numbers = {name: numbers[text] for text, name in as_bytes.items()}
        self._texts = {number: name for name, number in self._numbers.items()}
        self._texts |= {numbers[name]: name.encode() for name in SPECIAL if name in numbers}
        self._of_word = functools.lru_cache(1 << 16)(self._joined)

    def encode(self, text: str) -> Array:
        """The tokens of a text."""
        words = _words().findall(text)
        return np.array([token for word in words for token in self._of_word(word)], np.int64)

    def decode(self, tokens: Iterable[int]) -> str:
        """The text of tokens; where it is cut inside a character, that shows as a replacement character."""
        return b"".join(self._texts[int(token)] for token in tokens).decode(errors="replace")

    def description(self) -> dict[str, Any]:
        """What `from_description` makes it from."""
        return {"kind": "gpt2", "folder": str(self.folder.resolve())}

    def _joined(self, word: str) -> tuple[int, ...]:
        parts = [bytes([byte]) for byte in word.encode()]
        while len(parts) > 1:
            pairs = list(pairwise(parts))
            best = min(pairs, key=lambda pair: self._ranks.get(pair, sys.maxsize))
            if best not in self._ranks:
                break
            parts = list(_merged(parts, best))
        return tuple(self._numbers[part] for part in parts)


Tokenizer = ByteTokenizer | CharacterTokenizer | BytePairTokenizer
SPECIAL = ("<|endoftext|>",)


def from_description(description: dict[str, Any]) -> Tokenizer:
    """The tokenizer that gave a description."""
    kind = description.get("kind")
    if kind == "byte":
        return ByteTokenizer()
    if kind == "character":
        return CharacterTokenizer(description["alphabet"])
    if kind == "gpt2":
        return BytePairTokenizer(description["folder"])
    raise ArgumentError(f"a tokenizer is of bytes, characters or GPT-2's pairs, not {kind!r}")


def _read(folder: Path, *names: str) -> str:
    for name in names:
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8")
    raise FileError(f"GPT-2's tokens need {' (or '.join(names)}) in {str(folder)!r}; it comes with the published model")


def _merged(parts: list[bytes], pair: tuple[bytes, bytes]) -> Iterator[bytes]:
    """The parts with each occurrence of the pair joined, from left to right."""
    i = 0
    while i < len(parts):
        if i + 1 < len(parts) and (parts[i], parts[i + 1]) == pair:
            yield parts[i] + parts[i + 1]
            i += 2
        else:
            yield parts[i]
            i += 1


def _letters() -> dict[int, str]:
    """How GPT-2's files write bytes: printable ones as themselves, the others as letters from 256 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


@functools.cache
def _words() -> re.Pattern[str]:
    """GPT-2's pattern of a word: an English contraction, or letters, digits or other signs after a space, or spaces.

    Python's `re` has no classes for letters and numbers in Unicode's sense; they are written out here.
    """
    letter, number = _class_of("L"), _class_of("N")
    space = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
    signs = rf"[^{space}{letter}{number}]"
    spaces = rf"[{space}]+(?![^{space}])|[{space}]+"
    return re.compile(rf"'(?:[sdmt]|ll|ve|re)| ?[{letter}]+| ?[{number}]+| ?{signs}+|{spaces}")


def _class_of(category: str) -> str:
    """All characters of a general category, as ranges within brackets."""
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code))[0] == category:
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
