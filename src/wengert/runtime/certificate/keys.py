"""Keys of cached checks: a check is valid as long as its subject and the checking code are unchanged.

A key contains the code of the functions that are loaded now, not of their files, so a function that was replaced in
this process, as a test does, changes the key.
"""

from __future__ import annotations

import hashlib
import marshal
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from wengert.backends.cpu import toolchain
from wengert.core.devices import Target
from wengert.ops.op import Op

VERSION = "1"  # of what is kept
_DEEP = 6


def key_of(*texts: str) -> str:
    """A hash of some texts."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:32]


def references_key(target: Target) -> str:
    """What the checks of kernels depend on besides their texts: the references, what is checked, and the compiler."""
    names = ("wengert.ops", "wengert.backends.checked", "wengert.runtime.certificate")
    built_by = str(target.properties) if target.launches else toolchain._fingerprint()
    return key_of(VERSION, code_of(names), built_by)


def rules_key(rules: Mapping[Op, Any]) -> str:
    """What the proofs of rules depend on: the passes, the rules of each op, the ops, and the proofs."""
    names = ("wengert.compiler", "wengert.ops", "wengert.plan", "wengert.runtime.certificate")
    return key_of(VERSION, code_of(names), _content(rules, "", _DEEP).hex())


def code_of(packages: Iterable[str]) -> str:
    """A digest of everything in the modules of some packages: functions by their code, tables by their contents."""
    digest = hashlib.sha256()
    wanted = tuple(packages)
    for name in sorted(sys.modules):
        if any(name == package or name.startswith(package + ".") for package in wanted):
            for key, value in sorted(vars(sys.modules[name]).items()):
                if not key.startswith("__") and not _is_state(key, value):
                    digest.update(key.encode() + _content(value, name, _DEEP))
    return digest.hexdigest()


def _is_state(name: str, value: Any) -> bool:
    """Whether a module variable is state that changes between calls; tables have upper-case names."""
    return isinstance(value, dict | list | set) and not name.isupper()


def _content(value: Any, module: str, depth: int) -> bytes:
    """The bytes of a module's value; for values defined elsewhere, only the name."""
    if depth == 0:
        return b"..."
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        inside = b"".join(_content(cell, module, depth - 1) for cell in (*cells, *(value.__defaults__ or ())))
        return _code(value.__code__) + inside
    if isinstance(value, type):
        own = vars(value).items() if value.__module__ == module else ()
        members = [key.encode() + _content(x, module, depth - 1) for key, x in own if not key.startswith("__")]
        return value.__qualname__.encode() + b"".join(members)
    if isinstance(value, Mapping):
        pairs = [_content(k, module, depth - 1) + _content(v, module, depth - 1) for k, v in value.items()]
        return b"{" + b",".join(sorted(pairs)) + b"}"
    if isinstance(value, list | tuple | set | frozenset):
        parts = [_content(item, module, depth - 1) for item in value]
        return b"[" + b",".join(sorted(parts) if isinstance(value, set | frozenset) else parts) + b"]"
    if isinstance(value, Op):
        return value.name.encode() + _content(value.numpy, module, depth - 1)
    if value is None or isinstance(value, str | bytes | int | float | complex):
        return repr(value).encode()
    if isinstance(value, property | staticmethod | classmethod):
        return _content(_function_of(value), module, depth - 1)
    return str(getattr(value, "name", type(value).__name__)).encode()


def _function_of(value: Any) -> Callable[..., Any] | None:
    found: Callable[..., Any] | None = value.fget if isinstance(value, property) else value.__func__
    return found


@lru_cache(maxsize=1 << 14)
def _code(code: types.CodeType) -> bytes:
    """A digest of code, without its file and line numbers."""
    constants = [_code(c) if isinstance(c, types.CodeType) else _constant(c) for c in code.co_consts]
    names = repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount)).encode()
    return hashlib.sha256(code.co_code + names + b"".join(constants)).digest()


def _constant(value: Any) -> bytes:
    return marshal.dumps(sorted(value, key=repr) if isinstance(value, frozenset) else value)
