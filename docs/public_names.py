"""What is public: every name that can be reached from `import wengert as wg` without an underscore.

Comes in: the imported package. Goes out: each public name by its path (`wg.nn.Conv2d`) with what it stands for. The
reference pages (`hooks.py`) show these names, and a test compares the two.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import wengert as wg

# Modules that are reached by a path of their own; `wg.torch` has PyTorch's names and a page made in another way.
MODULES = ("dtypes", "sparse", "solvers")
APART = {"wg.torch"}


def public() -> dict[str, Any]:
    """Every public name by its path, modules left out."""
    found: dict[str, Any] = {}
    seen: set[str] = set()
    _collect("wg", wg, found, seen)
    return found


def _collect(path: str, module: ModuleType, found: dict[str, Any], seen: set[str]) -> None:
    seen.add(path)
    for name in names_of(module):
        value, inner = getattr(module, name), f"{path}.{name}"
        if not isinstance(value, ModuleType):
            found[inner] = value
        elif inner not in seen | APART and value.__name__.startswith("wengert"):
            _collect(inner, value, found, seen)


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module: `__all__`, or what it defines itself."""
    if module is wg:
        own = (n for n, v in vars(wg).items() if not isinstance(v, ModuleType) and not n.startswith("_"))
        return sorted({*(n for n in dir(wg) if not n.startswith("_")), *own, *_present(MODULES)})
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _present(modules: tuple[str, ...]) -> Iterator[str]:
    for name in modules:
        importlib.import_module(f"wengert.{name}")
        yield name


def object_at(path: str) -> Any:
    """What a path such as `wg.nn.Conv2d` stands for."""
    first, *rest = path.split(".")
    assert first == "wg", path
    value: Any = wg
    for name in rest:
        if isinstance(value, ModuleType) and name in MODULES:
            importlib.import_module(f"{value.__name__}.{name}")
        value = getattr(value, name)
    return value
