"""`torch.compiler`: switches of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from wengert.core.graph import recording
from wengert.torch.compiling import compile as compile
from wengert.torch.missing import missing_attribute as _missing_attribute

config = SimpleNamespace(suppress_errors=False, cache_size_limit=8, recompile_limit=8, verbose=False)
"""Settings of PyTorch's compiler, which change nothing here."""


def disable(fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return the function unchanged: it is recorded where it is called, like any other."""
    return (lambda given: given) if fn is None else fn


allow_in_graph = assume_constant_result = forbid_in_graph = disable


def is_compiling() -> bool:
    """Whether a function is being recorded."""
    return recording.trace is not None


is_dynamo_compiling = is_exporting = is_compiling


def reset() -> None:
    """Do nothing: compiled programs serve calls with their shapes, and other shapes are compiled again."""


def cudagraph_mark_step_begin() -> None:
    """Do nothing: the results of a compiled function are not overwritten by its next call."""


def mark_dynamic(tensor: Any, dim: Any = None, **bounds: Any) -> None:
    """Do nothing: a function is compiled for each shape."""


mark_static = maybe_mark_dynamic = mark_dynamic


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The names of backends; any name is accepted, and all mean Wengert's."""
    return ["wengert"]


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.compiler", name)
