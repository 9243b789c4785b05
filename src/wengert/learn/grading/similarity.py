"""Which submissions resemble each other: short runs of tokens that both have and the handout does not.

Names and constants are left out, so that renaming changes nothing. `pairs` compares every two submissions, and each
with the published solution. A high share is a reason to read the two side by side, and no more: short functions have
few ways to be written.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

LENGTH = 14  # tokens in a run
SHOWN = 12  # pairs in the report
SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


@dataclass(frozen=True)
class Pair:
    """Two submissions, and the share of the shorter one's runs that the other has as well."""

    first: str
    second: str
    share: float
    runs: int


def pairs(submissions: Mapping[str, Mapping[str, str]], handout: Mapping[str, str], least: float = 0.5) -> list[Pair]:
    """The pairs that share at least this much of what the handout does not have, the most similar first."""
    given = runs_of(handout)
    marks = {name: runs_of(files) - given for name, files in submissions.items()}
    found = []
    for first, second in combinations(marks, 2):
        shorter = min(len(marks[first]), len(marks[second]))
        if shorter >= 10:
            both = len(marks[first] & marks[second])
            if both / shorter >= least:
                found.append(Pair(first, second, both / shorter, shorter))
    return sorted(found, key=lambda pair: (-pair.share, pair.first, pair.second))


def runs_of(files: Mapping[str, str]) -> set[tuple[str, ...]]:
    """All runs of tokens of the Python files."""
    found: set[tuple[str, ...]] = set()
    for name, text in files.items():
        if name.endswith(".py"):
            tokens = _tokens(text)
            found |= {tuple(tokens[k : k + LENGTH]) for k in range(len(tokens) - LENGTH + 1)}
    return found


def _tokens(text: str) -> list[str]:
    """The tokens of a text without comments, docstrings, names and constants."""
    found: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in SKIPPED:
                continue
            if token.type == tokenize.NAME and not keyword.iskeyword(token.string):
                found.append("name")
            elif token.type == tokenize.NUMBER:
                found.append("number")
            elif token.type == tokenize.STRING:
                if token.line.strip() != token.string and not token.string.startswith(('"""', "'''")):
                    found.append("text")
            else:
                found.append(token.string)
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return found
    return found


def report(found: list[Pair]) -> str:
    """The pairs, a line each."""
    if not found:
        return "similarity: no two submissions resemble each other beyond the handout"
    lines = [f"  {pair.share:4.0%} of {pair.runs:4} runs  {pair.first}  {pair.second}" for pair in found[:SHOWN]]
    more = [f"  and {len(found) - SHOWN} more pairs"] if len(found) > SHOWN else []
    return "\n".join(["similarity, beyond the handout:", *lines, *more])
