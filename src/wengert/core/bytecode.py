"""Which names a Python function reads from outside, found in its bytecode.

In: a code object. Out: paths such as (global `config`, attribute `rate`) or (cell `weights`, item 0): where a value
begins and how the code goes on from it. `runtime/static/guards` follows them to the objects they lead to.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

GLOBAL, CELL, LOCAL = "global", "cell", "local"
ATTRIBUTE, ITEM = "attribute", "item"

_STARTS = {
    "LOAD_GLOBAL": GLOBAL,
    "LOAD_NAME": GLOBAL,
    "LOAD_DEREF": CELL,
    "LOAD_CLASSDEREF": CELL,
    "LOAD_FAST": LOCAL,
    "LOAD_FAST_CHECK": LOCAL,
    "LOAD_FAST_BORROW": LOCAL,
    "LOAD_FAST_LOAD_FAST": LOCAL,
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": LOCAL,
}
_CONSTANTS = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})
_NOTHING = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL"})


class Path(NamedTuple):
    """Where a value begins (a global, a cell, a local name) and the attributes and constant items taken from it."""

    root: str
    name: str
    steps: tuple[tuple[str, Any], ...]


@lru_cache(maxsize=4096)
def paths(code: CodeType) -> tuple[Path, ...]:
    """The paths that a code object, and the functions defined inside it, read."""
    found: dict[Path, None] = {}
    root: tuple[str, str] | None = None
    steps: list[tuple[str, Any]] = []
    key: tuple[Any] | None = None  # a constant that the next instruction may take as an index
    stored: set[str] = set()
    for instruction in dis.get_instructions(code):
        operation, argument = instruction.opname, instruction.argval
        if operation in _NOTHING:
            continue
        if operation.startswith("STORE_FAST"):
            stored.update(argument if isinstance(argument, tuple) else (argument,))
        if root is not None and key is None and operation in ("LOAD_ATTR", "LOAD_METHOD"):
            steps.append((ATTRIBUTE, argument))
            continue
        if root is not None and key is None and operation in _CONSTANTS:
            key = (argument,)
            continue
        if root is not None and key is not None and _takes_item(instruction):
            steps.append((ITEM, key[0]))
            key = None
            continue
        if root is not None:
            found[Path(*root, tuple(steps))] = None
        root, steps, key = None, [], None
        if operation in _STARTS:
            for name in argument if isinstance(argument, tuple) else (argument,):
                if root is not None:
                    found[Path(*root, ())] = None
                root = (_STARTS[operation], name)
    own = [path for path in found if path.root != LOCAL or path.name not in stored]
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    nested = [path for one in inner for path in paths(one) if path.root != LOCAL]
    return tuple(dict.fromkeys([*own, *nested]))


def _takes_item(instruction: dis.Instruction) -> bool:
    return instruction.opname == "BINARY_SUBSCR" or (instruction.opname == "BINARY_OP" and instruction.argrepr == "[]")
