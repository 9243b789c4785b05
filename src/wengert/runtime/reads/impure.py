"""What libraries do that is not a function of their arguments' contents: clocks, random numbers, files, the process.

The lists are of modules and names. A call of one of these while a function is recorded is an error on the user's line:
its result would be a constant of the program, and what it does would be done only while recording. Builtins that read
one thing of their arguments, or change them, have functions of their own here (`SPECIAL`).
"""

from __future__ import annotations

import builtins
import io
from types import BuiltinFunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wengert.runtime.reads.log import ReadLog

_MODULES = frozenset(
    {
        *(
            "time",
            "random",
            "_random",
            "secrets",
            "uuid",
            "socket",
            "_socket",
            "subprocess",
            "tempfile",
            "shutil",
            "glob",
        ),
        *("select", "sqlite3", "_io", "io", "numpy.random", "numpy.random.mtrand", "numpy.random._generator", "locale"),
        *(
            "_locale",
            "urllib.request",
            "http.client",
            "ftplib",
            "smtplib",
            "getpass",
            "fileinput",
            "webbrowser",
            "pickle",
        ),
        *(
            "queue",
            "_queue",
            "shelve",
            "gzip",
            "zipfile",
            "tarfile",
            "csv",
            "_csv",
            "multiprocessing",
            "resource",
            "gc",
        ),
    }
)
_OF_FILES = frozenset({"exists", "isfile", "isdir", "islink", "getsize", "getmtime", "getatime", "abspath", "realpath"})
_OF_PATHS = _OF_FILES | frozenset(
    {
        *(
            "is_file",
            "is_dir",
            "is_symlink",
            "read_text",
            "read_bytes",
            "open",
            "iterdir",
            "glob",
            "rglob",
            "stat",
            "cwd",
        ),
        *(
            "home",
            "resolve",
            "absolute",
            "write_text",
            "write_bytes",
            "mkdir",
            "unlink",
            "touch",
            "rename",
            "expanduser",
        ),
    }
)
_PURE_OF_OS = frozenset({"fspath", "fsdecode", "fsencode", "cpu_count", "strerror", "_check_methods"})
_NAMES = frozenset(
    {
        *("datetime.now", "datetime.today", "datetime.utcnow", "date.today", "builtins.open", "builtins.input"),
        *("sys.exit", "os.getenv", "sys.setrecursionlimit", "np.load", "numpy.load", "numpy.save", "numpy.fromfile"),
        *("threading.get_ident", "_thread.get_ident", "threading.current_thread", "numpy.geterr", "numpy.seterr"),
        *("numpy.loadtxt", "numpy.genfromtxt", "numpy.savetxt", "numpy.memmap", "numpy.savez", "sys.getrecursionlimit"),
    }
)
_SHOWS = frozenset({"builtins.print", "pprint.pprint", "warnings.warn", "_warnings.warn"})
_SEEDED = frozenset({"default_rng", "Random", "RandomState", "Generator", "SeedSequence", "PCG64", "Philox", "MT19937"})
_LOGS = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})
MUTATORS = frozenset(
    {
        *("append", "extend", "insert", "pop", "popitem", "remove", "clear", "sort", "reverse", "update", "setdefault"),
        *("add", "discard", "appendleft", "popleft", "extendleft", "rotate", "move_to_end", "subtract"),
        *(
            "difference_update",
            "intersection_update",
            "symmetric_difference_update",
            "fill",
            "put",
            "itemset",
            "resize",
        ),
        *("__setitem__", "__delitem__", "__setattr__", "__delattr__", "__iadd__", "partition", "frombytes", "byteswap"),
        *("new_child", "set", "reset"),
    }
)
"""Methods that change what they belong to, of containers, arrays and context variables."""


def module_of(function: Any) -> str:
    """The module that a function or a method belongs to; of a method of an object, that of the object's class."""
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        kind = owner if isinstance(owner, type) else type(owner)
        return str(getattr(kind, "__module__", "") or "")
    return str(getattr(function, "__module__", "") or "")


def name_of(function: Any) -> str:
    """What a function is called, with its class or its module before it."""
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", type(function).__name__)
    if owner is not None and not isinstance(owner, ModuleType):
        return f"{(owner if isinstance(owner, type) else type(owner)).__name__}.{name}"
    module = module_of(function)
    return f"{module}.{name}" if module else str(name)


def is_impure(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether what a library's function gives, or does, depends on more than its arguments."""
    module, name = module_of(function), getattr(function, "__name__", "")
    if name in _SEEDED and args and args[0] is not None:
        return False
    if module in _MODULES or module.split(".")[0] in ("subprocess", "urllib", "http", "asyncio", "multiprocessing"):
        return not _is_shown(function)
    if module == "logging" or module.startswith("logging."):
        return name not in _LOGS
    if module in ("os", "posix", "nt"):
        return name not in _PURE_OF_OS
    if module in ("posixpath", "ntpath", "genericpath"):
        return name in _OF_FILES
    if module.startswith("pathlib"):
        return name in _OF_PATHS
    return name_of(function) in _NAMES


def shows(function: Any) -> bool:
    """Whether a function shows something to people: print, logging, what writes to the terminal."""
    module = module_of(function)
    logs = module.split(".")[0] == "logging" and getattr(function, "__name__", "") in _LOGS
    return logs or name_of(function) in _SHOWS or _is_shown(function)


def _is_shown(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    if not isinstance(function, (BuiltinFunctionType, MethodType)) or not isinstance(owner, io.TextIOBase):
        return False
    try:
        return owner.fileno() in (1, 2)
    except (OSError, ValueError):
        return False


# --- builtins that are not just functions of contents ---------------------------------------------------------------


def _getattr(log: ReadLog, value: Any, name: str, *default: Any) -> Any:
    try:
        return log.attribute(value, name)
    except AttributeError:
        if not default:
            raise
        return default[0]


def _hasattr(log: ReadLog, value: Any, name: str) -> bool:
    try:
        _getattr(log, value, name)
    except AttributeError:
        return False
    return True


def _setattr(log: ReadLog, value: Any, name: str, *new: Any) -> None:
    log.writable(value, f".{name}")
    setattr(value, name, *new) if new else delattr(value, name)


def _isinstance(log: ReadLog, value: Any, kinds: Any) -> bool:
    if log.is_outside(value):
        log.guards.watch_class(value, f"the class of {log.label(value)}")
    return isinstance(value, kinds)


def _type(log: ReadLog, *args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and log.is_outside(args[0]):
        log.guards.watch_class(args[0], f"the class of {log.label(args[0])}")
    return type(*args, **kwargs)


def _next(log: ReadLog, iterator: Any, *default: Any) -> Any:
    log.iterated(iterator)
    return next(iterator, *default)


def _vars(log: ReadLog, *value: Any) -> Any:
    found = vars(*value)
    if value and log.is_outside(value[0]):
        log.mark(found, f"vars({log.label(value[0])})")
    return found


def _identity(log: ReadLog, value: Any) -> int:
    return id(value)


SPECIAL: dict[Any, Any] = {
    builtins.getattr: _getattr,
    builtins.hasattr: _hasattr,
    builtins.setattr: _setattr,
    builtins.delattr: _setattr,
    builtins.isinstance: _isinstance,
    builtins.type: _type,
    builtins.next: _next,
    builtins.vars: _vars,
    builtins.id: _identity,
}
"""By function: what is called with the log before its arguments."""
