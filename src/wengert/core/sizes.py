"""Human-readable numbers of bytes."""

from __future__ import annotations

import re
from typing import Any

from wengert.core.errors import ArgumentError

_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


def is_size(text: str) -> bool:
    """Whether a string is a number of bytes.

    >>> is_size("24 GB"), is_size("H200")
    (True, False)
    """
    return _SIZE.fullmatch(text.strip()) is not None


def bytes_of(size: Any, asker: str) -> int:
    """Parse a number of bytes: an integer, or text such as "8GiB" or "24 GB"; errors name the caller.

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
        raise ArgumentError(f'{asker}: memory must be a number of bytes, such as 8_000_000_000 or "8GiB", not {size!r}')
    return int(found)


def budget_of(size: Any, asker: str = "compile") -> int | None:
    """A budget in bytes; None for none."""
    return None if size is None else bytes_of(size, asker)
