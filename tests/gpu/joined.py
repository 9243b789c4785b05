"""Kernels of many works in one module: what they include is read once, and one load brings them all.

A text can be joined with others where all that it includes stands at its beginning; the others stay as they are. Every
text has a namespace of its own, and the names of its kernels a number, since those are the same in every namespace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tests.gpu.harness import Item
from wengert.kernels.launch import Launch, Work

_HEAD = re.compile(r'(?:#include "[^"]*"\n+)+')
_LATER = re.compile(r"^#(?:include|define)", re.M)
_KERNEL = re.compile(r'extern "C" __global__ void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(')


def joined(items: Sequence[Item]) -> list[Item]:
    """The same works, their texts with the same includes as one."""
    alike: dict[str, list[str]] = {}
    for text in dict.fromkeys(launch.source for item in items for launch in item.work.launches):
        head = _HEAD.match(text)
        if head and not _LATER.search(text, head.end()):
            alike.setdefault(head[0], []).append(text)
    places: dict[str, tuple[str, int]] = {}
    for head, texts in alike.items():
        whole = head + "".join(_numbered(text[len(head) :], number) for number, text in enumerate(texts))
        places |= {text: (whole, number) for number, text in enumerate(texts)}
    return [item._replace(work=_moved(item.work, places)) for item in items]


def _numbered(body: str, number: int) -> str:
    for name in _KERNEL.findall(body):
        body = re.sub(rf"\b{name}\b", f"{name}_{number}", body)
    return f"namespace text{number} {{\n{body}\n}}\n"


def _moved(work: Work, places: Mapping[str, tuple[str, int]]) -> Work:
    def there(launch: Launch) -> Launch:
        if launch.source not in places:
            return launch
        source, number = places[launch.source]
        return replace(launch, source=source, entry=f"{launch.entry}_{number}")

    return replace(work, launches=tuple(map(there, work.launches)))
