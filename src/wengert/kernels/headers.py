"""The headers that generated C and CUDA C++ include: an op's are in its folder, shared ones next to this file.

A text includes a header by its base name, so these are unique.
"""

from __future__ import annotations

import functools
from pathlib import Path


@functools.cache
def headers(ending: str) -> dict[str, Path]:
    """The headers with an ending, "h" or "cuh", by name and in the order of their names."""
    found = {path.name: path for path in Path(__file__).parent.rglob(f"*.{ending}")}
    return {name: found[name] for name in sorted(found)}


@functools.cache
def folders(ending: str) -> tuple[Path, ...]:
    """Where a compiler finds them."""
    return tuple(dict.fromkeys(path.parent for path in headers(ending).values()))
