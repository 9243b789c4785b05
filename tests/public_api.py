"""The public API as text: a line for every name that users may rely on, with its signature.

    python -m tests.public_api            # write tests/public_api.txt
    python -m tests.public_api --check    # or show what differs from it, and exit with 1

Public is what `dir(wengert)` lists, and what modules among it list in `__all__`. `wengert.torch` is not in the
snapshot: its names and signatures are PyTorch's, and follow those. Neither are `wengert.graph` and `wengert.devices`,
which are the compiler's own (docs/deprecation.md says what that means).
"""

from __future__ import annotations

import difflib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import wengert as wg

SNAPSHOT = Path(__file__).with_suffix(".txt")
INTERNAL = ("wengert.graph", "wengert.devices")
COMMAND = "python -m tests.public_api"


def snapshot() -> str:
    """All of it, a name a line, in alphabetical order."""
    return "\n".join(sorted(_of_module("wengert", wg, set()))) + "\n"


def difference() -> str:
    """What differs between the stored snapshot and the API as it is; nothing where they agree."""
    stored = SNAPSHOT.read_text().splitlines() if SNAPSHOT.exists() else []
    lines = difflib.unified_diff(stored, snapshot().splitlines(), SNAPSHOT.name, "the API as it is", "", "", 0, "")
    return "\n".join(line for line in lines if not line.startswith("@@"))


def _of_module(path: str, module: ModuleType, seen: set[int]) -> Iterator[str]:
    if id(module) in seen or path in INTERNAL:
        return
    seen.add(id(module))
    for name in _names(module):
        value = getattr(module, name)
        if isinstance(value, ModuleType):
            yield from _of_module(f"{path}.{name}", value, seen)
        elif inspect.isclass(value) and value.__module__.startswith("wengert"):
            yield from _of_class(f"{path}.{name}", value)
        elif callable(value) and not inspect.isclass(value):
            yield f"{path}.{name}{_signature(value)}"
        else:
            yield f"{path}.{name}"


def _names(module: ModuleType) -> list[str]:
    """The public names of a module: those it lists, or else what it defines itself."""
    if module is wg:
        return [name for name in dir(wg) if not name.startswith("_")]
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


def _of_class(path: str, cls: type) -> Iterator[str]:
    """A class with its bases and constructor, and the members that it defines itself."""
    bases = [base.__name__ for base in cls.__bases__ if base is not object and not base.__name__.startswith("_")]
    own = any("__init__" in vars(base) or "__new__" in vars(base) for base in cls.__mro__ if _is_ours(base))
    yield f"{path}{_signature(cls) if own else '(...)'}{' of ' + ', '.join(bases) if bases else ''}"
    for name, value in vars(cls).items():
        if name.startswith("_"):
            continue
        value = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        yield f"{path}.{name}{_signature(value) if inspect.isroutine(value) else ''}"


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith("wengert")


def _signature(function: Any) -> str:
    """Names, kinds and defaults of parameters. Annotations are left out: they may become more precise at any time."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return "(...)"
    parameters = [
        p.replace(annotation=p.empty, default=p.default if p.default is p.empty else _Shown(p.default))
        for p in found.parameters.values()
    ]
    return str(found.replace(parameters=parameters, return_annotation=found.empty))


class _Shown:
    """A default as it is written in a signature: the same text in every process."""

    def __init__(self, value: Any) -> None:
        is_named = inspect.isroutine(value) or inspect.isclass(value)
        self.text = value.__name__ if is_named else re.sub(r" at 0x[0-9a-f]+", "", repr(value))

    def __repr__(self) -> str:
        return self.text


def main() -> int:
    if "--check" in sys.argv[1:]:
        found = difference()
        print(found or f"the public API is that of {SNAPSHOT.name}")
        return int(bool(found))
    SNAPSHOT.write_text(snapshot())
    print(f"{SNAPSHOT}: {len(snapshot().splitlines())} names")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
