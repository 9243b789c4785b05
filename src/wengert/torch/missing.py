"""What is said of a name of PyTorch's that is not here: its full name, in one line."""

from __future__ import annotations

from typing import Any


def missing_attribute(module: str, name: str) -> Any:
    """Raise an error for a name that PyTorch's module may have and this one lacks."""
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    raise AttributeError(f"{module}.{name} is not in wengert.torch")
