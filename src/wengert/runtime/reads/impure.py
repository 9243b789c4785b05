"""Library functions that depend on more than their arguments' contents: clocks, random numbers, files, the process.

The lists are of modules and names. Calling one of these while a function is recorded is an error on the user's line:
its result would become a constant of the program, and its side effect would happen only during recording. Builtins that
read one property of their arguments, or change them, are handled by functions here (`SPECIAL`).
"""

from __future__ import annotations

import builtins
import dataclasses
import importlib
import io
import sys
from abc import ABCMeta, get_cache_token
from types import BuiltinFunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

from wengert.tensor import Tensor

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
            "http.server",
            "http.cookiejar",
            "urllib.robotparser",
            "ftplib",
            "smtplib",
            "getpass",
            "fileinput",
            "webbrowser",
            "linecache",
            "filecmp",
            "runpy",
            "pkgutil",
            "netrc",
            "atexit",
            "signal",
            "faulthandler",
            "tracemalloc",
        ),
        *(
            "queue",
            "_queue",
            "shelve",
            "gzip",
            "zipfile",
            "tarfile",
            "importlib.resources",
            "multiprocessing",
            "resource",
            "gc",
        ),
    }
)
_PURE_OF_FILE_NAMES = frozenset(
    {
        *("join", "split", "splitext", "splitdrive", "splitroot", "basename", "dirname", "normpath", "normcase"),
        *("commonprefix", "commonpath", "isabs"),
    }
)
_PURE_OF_PATHS = frozenset(
    {
        *("Path", "PurePath", "PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath", "joinpath", "as_posix"),
        *("as_uri", "is_absolute", "is_relative_to", "is_reserved", "match", "full_match", "relative_to", "with_name"),
        *("with_stem", "with_suffix", "with_segments"),
    }
)
_PURE_OF_OS = frozenset({"fspath", "fsdecode", "fsencode", "cpu_count", "strerror", "_check_methods"})
_NAMES = frozenset(
    {
        *("datetime.now", "datetime.today", "datetime.utcnow", "date.today", "builtins.open", "builtins.input"),
        *("decimal.getcontext", "decimal.setcontext", "decimal.localcontext", "sys._getframe", "inspect.currentframe"),
        *("inspect.stack", "inspect.trace", "RawConfigParser.read", "ConfigParser.read", "threading.active_count"),
        *("threading.enumerate", "threading.get_native_id", "_thread.get_native_id", "_thread._count", "sys.gettrace"),
        *("sys.settrace", "sys.setprofile", "sys.getprofile", "sys._current_frames", "sys.getrefcount"),
        *("numpy.get_printoptions", "numpy.set_printoptions", "Thread.start", "Thread.join", "Timer.start"),
        *(
            "_thread.stack_size",
            "sys.set_int_max_str_digits",
            "numpy.setbufsize",
            "numpy.seterrcall",
            "sys.setdlopenflags",
        ),
        *("mimetypes.guess_type", "sys.setswitchinterval", "sys.getswitchinterval", "calendar.setfirstweekday"),
        *("sys.exit", "os.getenv", "sys.setrecursionlimit", "np.load", "numpy.load", "numpy.save", "numpy.fromfile"),
        *("threading.get_ident", "_thread.get_ident", "threading.current_thread", "numpy.geterr", "numpy.seterr"),
        *("numpy.loadtxt", "numpy.genfromtxt", "numpy.savetxt", "numpy.memmap", "numpy.savez", "sys.getrecursionlimit"),
    }
)
_SHOWS = frozenset({"builtins.print", "pprint.pprint", "warnings.warn", "_warnings.warn"})
_WRITES_TEXT = frozenset(
    {
        *("builtins.str", "builtins.repr", "builtins.format", "builtins.ascii", "str.format", "str.format_map"),
        *("str.join", "numpy.array2string", "numpy.array_repr", "numpy.array_str", "pprint.pformat", "Repr.repr"),
        *("Formatter.format", "Formatter.vformat", "Template.substitute", "Template.safe_substitute", "json.dumps"),
        *("numpy.format_float_positional", "numpy.format_float_scientific", "builtins.map", "pprint.saferepr"),
    }
)
_SEEDED = frozenset({"default_rng", "Random", "RandomState", "Generator", "SeedSequence", "PCG64", "Philox", "MT19937"})
_LOGS = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})
_PURE = frozenset(
    {
        *("uuid.UUID", "uuid.uuid3", "uuid.uuid5", "time.strptime", "time.struct_time", "_io.StringIO", "_io.BytesIO"),
        *("logging.getLogger", "locale.atof", "locale.delocalize", "builtins.StringIO"),
    }
)
_PURE_OF_A_TIME = frozenset({"time.gmtime", "time.asctime", "time.strftime"})  # where they are given one
_WITH_STATES = frozenset({"random", "_random", "_io", "queue", "_queue"})
AGAIN = frozenset(
    {
        *("Logger.isEnabledFor", "Logger.getEffectiveLevel", "Logger.hasHandlers", "lock.locked", "RLock.locked"),
        *("logging.getLevelName", "_csv.field_size_limit", "sys.get_int_max_str_digits", "numpy.getbufsize"),
        *("sys.getdlopenflags", "numpy.geterrcall"),
    }
)
"""Quick functions that are called again to find out whether what they give has changed."""
LOOKED_UP = frozenset({"logging.getLogger"})
"""Functions that give something that others have too."""
OF_FILES = frozenset(
    {
        *("wengert.api.files", "wengert.api.sharded_files", "wengert.api.safetensors_format", "wengert.data.files"),
        *("wengert.train.checkpoint", "wengert.distributed.checkpoint", "wengert.models.weights"),
        *("wengert.data.cifar", "wengert.data.mnist", "wengert.data.tokens"),
    }
)
"""Modules of Wengert's whose functions read and write files."""
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
    """The module of a function or method; for a method of an object, that of the object's class."""
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        kind = owner if isinstance(owner, type) else type(owner)
        return str(getattr(kind, "__module__", "") or "")
    return str(getattr(function, "__module__", "") or "")


def name_of(function: Any) -> str:
    """A function's name, qualified by its class or module."""
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__name__", type(function).__name__)
    if owner is not None and not isinstance(owner, ModuleType):
        return f"{(owner if isinstance(owner, type) else type(owner)).__name__}.{name}"
    module = module_of(function)
    return f"{module}.{name}" if module else str(name)


def is_impure(function: Any, args: tuple[Any, ...]) -> bool:
    """Whether a library function's result or effect depends on more than its arguments."""
    module, name = module_of(function), getattr(function, "__name__", "")
    if name_of(function) in _PURE or (name_of(function) in _PURE_OF_A_TIME and _is_given_a_time(name, args)):
        return False
    if name in _SEEDED and args and args[0] is not None:
        return False
    if module in _MODULES or module.split(".")[0] in ("subprocess", "asyncio", "multiprocessing"):
        return not _is_shown(function)
    if module == "logging" or module.startswith("logging."):
        return name not in _LOGS
    if module in ("os", "posix", "nt"):
        return name not in _PURE_OF_OS
    if module in ("posixpath", "ntpath", "genericpath"):
        return name not in _PURE_OF_FILE_NAMES
    if module.startswith("pathlib"):
        return name not in _PURE_OF_PATHS and not name.startswith("__")
    known = name_of(function)
    return known in _NAMES or known.removeprefix("_") in _NAMES  # a module in C, as _decimal names itself since 3.13


def writes_text(function: Any) -> bool:
    """Whether a function may format a NumPy array or number as text."""
    return name_of(function) in _WRITES_TEXT


def may_be_own(function: Any) -> bool:
    """Whether a method's object holds everything that the method depends on, as a seeded generator does."""
    return module_of(function).split(".")[0] in _WITH_STATES or module_of(function).startswith("numpy.random")


def _is_given_a_time(name: str, args: tuple[Any, ...]) -> bool:
    return len(args) > (1 if name == "strftime" else 0)


def shows(function: Any) -> bool:
    """Whether a function produces output for people: print, logging, writing to the terminal."""
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
    _watch_registered(log, type(value), kinds)
    return isinstance(value, kinds)


def _issubclass(log: ReadLog, kind: Any, kinds: Any) -> bool:
    _watch_registered(log, kind, kinds)
    return issubclass(kind, kinds)


def _watch_registered(log: ReadLog, kind: Any, kinds: Any) -> None:
    """Watch which classes are registered with abstract ones, where a class of the user's is requested."""
    is_users = getattr(kind, "__flags__", 0) & _HEAP_TYPE and not issubclass(kind, Tensor)
    if is_users and any(type(one) is ABCMeta for one in (kinds if isinstance(kinds, tuple) else (kinds,))):
        log.guards.watch_value(get_cache_token, get_cache_token, "what is registered with abstract classes")


def _fields(log: ReadLog, value: Any) -> Any:
    found = dataclasses.fields(value)
    kind = value if isinstance(value, type) else type(value)
    log.mark(log.attribute(kind, "__dataclass_fields__"), f"the fields of {kind.__name__}")
    return tuple([log.mark(one, f"the field {one.name}") for one in found])


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


def watch_subclasses(log: ReadLog, owner: type) -> Any:
    """`owner.__subclasses__()`, watched."""
    function: Any = owner.__subclasses__
    log.guards.watch_value((owner, "subclasses"), lambda: [*map(id, function())], f"the subclasses of {owner.__name__}")
    return [log.mark(one, one.__name__) for one in function()]


def _import_module(log: ReadLog, name: str, package: str | None = None) -> Any:
    found = importlib.import_module(name, package)
    log.guards.watch_key(sys.modules, found.__name__, f"the module {found.__name__}")
    return found


_HEAP_TYPE = 1 << 9  # the flag of a class made by Python code
SPECIAL: dict[Any, Any] = {
    builtins.getattr: _getattr,
    builtins.hasattr: _hasattr,
    builtins.setattr: _setattr,
    builtins.delattr: _setattr,
    builtins.isinstance: _isinstance,
    builtins.issubclass: _issubclass,
    dataclasses.fields: _fields,
    builtins.type: _type,
    builtins.next: _next,
    builtins.vars: _vars,
    builtins.id: _identity,
    importlib.import_module: _import_module,
}
"""By function: what is called with the log before its arguments."""
