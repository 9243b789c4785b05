"""Numbers of bytes as people write them."""

from __future__ import annotations

import re
from typing import Any

from wengert.core.errors import ArgumentError

_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


def is_size(text: str) -> bool:
    """Whether a text reads as a number of bytes.

    >>> is_size("24 GB"), is_size("H200")
    (True, False)
    """
    return _SIZE.fullmatch(text.strip()) is not None


def bytes_of(size: Any, asker: str) -> int:
    """A number of bytes, given as such or in words: "8GiB", "24 GB"; raises in the name of who asked.

    >>> bytes_of("8GiB", "compile"), bytes_of("1.5 kB", "compile"), bytes_of(4096, "compile")
    (8589934592, 1500, 4096)
    """
    found: float | None = None
    if isinstance(size, str):
        match = _SIZE.fullmatch(size.strip())
        if match is not None:
            number, unit, binary = match.groups()
            power = "KMGT".index(unit.upper()) + 1 if unit else 0
            found = float(number) * (1024 if binary else 1000) ** power
    elif isinstance(size, (int, float)) and not isinstance(size, bool):
        found = float(size)
    if found is None or not 1 <= found < 1 << 62:
        raise ArgumentError(f'{asker}: memory is a number of bytes, as 8_000_000_000 or "8GiB", not {size!r}')
    return int(found)


def budget_of(size: Any, asker: str = "compile") -> int | None:
    """A budget in bytes; None for none."""
    return None if size is None else bytes_of(size, asker)
