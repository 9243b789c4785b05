"""Kernels of many launches in one module: what they include is read once, and one load brings them all.

A text can be joined with others where all that it includes stands at its beginning; the others stay as they are. Every
text has a namespace of its own, and the names of its kernels a number, since those are the same in every namespace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from wengert.kernels.launch import Launch

_HEAD = re.compile(r'(?:#include "[^"]*"\n+)+')
_LATER = re.compile(r"^#(?:include|define)", re.M)
_KERNEL = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(')


def joined(launches: Sequence[Launch]) -> list[Launch]:
    """The same launches, their texts with the same includes as one."""
    alike: dict[str, list[str]] = {}
    for text in dict.fromkeys(launch.source for launch in launches):
        head = _HEAD.match(text)
        if head and not _LATER.search(text, head.end()):
            alike.setdefault(head[0], []).append(text)
    places: dict[str, tuple[str, str]] = {}
    for head, texts in alike.items():
        whole = _whole(head, texts)
        places |= {text: (whole, f"_{number}") for number, text in enumerate(texts)}
    found = [(launch, *places.get(launch.source, (launch.source, ""))) for launch in launches]
    return [replace(launch, source=source, entry=launch.entry + number) for launch, source, number in found]


def _whole(head: str, texts: Iterable[str]) -> str:
    return head + "".join(_numbered(text[len(head) :], number) for number, text in enumerate(texts))


def _numbered(body: str, number: int) -> str:
    for name in _KERNEL.findall(body):
        body = re.sub(rf"\b{name}\b", f"{name}_{number}", body)
    return f"namespace text{number} {{\n{body}\n}}\n"
