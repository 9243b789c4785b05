"""Classes that programs derive from Tensor: what is computed from one is one, by way of its `__torch_function__`.

A class of a program's own gets its methods here, which ask `__torch_function__` before they compute; the functions of
the module ask too, from the first such class on. Programs without one pay nothing. Layers compute with plain tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from wengert.torch.registry import methods
from wengert.torch.tensor import Base, Tensor
from wengert.torch.views import View

_MODULES = ("", ".nn.functional", ".linalg", ".special", ".fft")
_FUNDAMENTAL = {"__init__", "__new__", "__init_subclass__", "__torch_function__", "__getattribute__", "__setattr__"}
_FUNDAMENTAL |= {
    "__getattr__",
    "__hash__",
    "__class_getitem__",
    "__dir__",
    "__reduce__",
    "__reduce_ex__",
    "as_subclass",
}
_SHARING = "wengert.torch.sharing"
_inside: list[bool] = []  # blocks in which no class is asked
_is_installed = False


class DisableTorchFunctionSubclass:
    """A block in which functions compute, and ask no class."""

    def __enter__(self) -> None:
        _inside.append(True)

    def __exit__(self, *exception: Any) -> None:
        _inside.pop()


def disabled(func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """The `__torch_function__` of classes whose tensors are computed with as plain ones are."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def torch_function(cls: type, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """What a function computes, as tensors of this class."""
    if not all(issubclass(cls, each) for each in types):
        return NotImplemented
    result = disabled(func, types, args, kwargs)
    given = {id(x) for x in _operands(args, kwargs or {})}
    return _converted(result, cls, given)


def _converted(result: Any, cls: type, given: set[int]) -> Any:
    """Tensors as ones of a class, within tuples and lists too; arguments that were given back stay what they are."""
    if isinstance(result, (tuple, list)):
        parts = [_converted(part, cls, given) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    if type(result) in (Tensor, View) and id(result) not in given:
        _turn_into(result, cls)
    return result


def _turn_into(x: Any, cls: type) -> None:
    from wengert.torch.memory import view_class

    x.__class__ = view_class(cls) if isinstance(x, View) else cls


def as_subclass(self: Any, cls: type) -> Any:
    """The tensor as one of a class, with the same memory and history."""
    if not (isinstance(cls, type) and issubclass(cls, Tensor)):
        raise ValueError(f"{cls!r} must be a type that inherits from Tensor")
    with DisableTorchFunctionSubclass():
        made = Tensor.view_as(self, self)  # type: ignore[attr-defined]
    if cls is not Tensor:
        _turn_into(made, cls)
    return made


def _make_subclass(cls: type, data: Any, require_grad: bool = False, **options: Any) -> Any:
    """A leaf of a class, with the memory of a tensor."""
    made = as_subclass(data.detach(), cls)
    return made.requires_grad_() if require_grad else made


# --- asking -----------------------------------------------------------------------------------------------------------


def _operands(args: Iterable[Any], kwargs: dict[str, Any]) -> Iterator[Any]:
    """The arguments, and those in tuples and lists."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, (tuple, list)):
            yield from value
        else:
            yield value


def _asked(args: Any, kwargs: dict[str, Any]) -> list[type]:
    """The classes among the arguments' that answer for functions; subclasses before their bases."""
    found = [_program_class(type(x)) for x in _operands(args, kwargs)]
    kinds = [kind for kind in dict.fromkeys(found) if kind is not None]
    return sorted(kinds, key=lambda kind: -len(kind.__mro__))


def _program_class(kind: type) -> type | None:
    """The class that answers for functions: a program's own, also of a view or of memory shared with NumPy."""
    if issubclass(kind, Base):
        return next((base for base in kind.__mro__ if "_asks_torch_function" in base.__dict__), None)
    return kind if hasattr(kind, "__torch_function__") else None


def answers(kind: type) -> bool:
    """Whether a class answers for functions in a way of its own."""
    return _program_class(kind) is not None


def asking(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which the classes of its arguments may answer for."""

    @functools.wraps(function)
    def ask(*args: Any, **kwargs: Any) -> Any:
        kinds = [] if _inside else _asked(args, kwargs)
        return _answer(_public[function], kinds, args, kwargs) if kinds else function(*args, **kwargs)

    _public[function] = ask
    return ask


_public: dict[Any, Any] = {}  # what asks for each function: what a program compares with


def _answer(function: Any, kinds: list[type], args: Any, kwargs: Any) -> Any:
    for kind in kinds:
        result = kind.__torch_function__(function, tuple(kinds), args, kwargs)  # type: ignore[attr-defined]
        if result is not NotImplemented:
            return result
    names = ", ".join(repr(kind) for kind in kinds)
    raise TypeError(
        f"Multiple dispatch failed for 'torch.{function.__name__}'; all __torch_function__ handlers returned "
        f"NotImplemented: {names}"
    )


@functools.cache
def _public_methods() -> dict[str, Any]:
    """The methods of Tensor that ask: operators and what has no underscore in front."""
    found = {}
    for name in {name for base in Tensor.__mro__[:-1] for name in vars(base)} - _FUNDAMENTAL:
        method = getattr(Tensor, name)
        is_operator = name.startswith("__") and name.endswith("__")
        if type(method) is _FUNCTION and (is_operator or not name.startswith("_")):
            found[name] = method
            if method.__name__ == "get":
                method.__name__ = "__getitem__"
            if (
                method.__name__ in ("left", "right", "in_place", "call") and "item" not in name
            ):  # `__add__` is `add` there
                method.__name__ = name.strip("_")
    return found


def _asking_method(method: Any) -> Callable[..., Any]:
    """A method that asks: the function it names is the one of Tensor."""

    @functools.wraps(method)
    def ask(*args: Any, **kwargs: Any) -> Any:
        kinds = [] if _inside else _asked(args, kwargs)
        return _answer(method, kinds, args, kwargs) if kinds else method(*args, **kwargs)

    return ask


# --- installing -------------------------------------------------------------------------------------------------------


def set_up(cls: type, **options: Any) -> None:
    """Called for each class derived from Tensor: those of programs get methods that ask."""
    super(Tensor, cls).__init_subclass__(**options)  # type: ignore[misc]
    if cls.__module__.startswith("wengert.") or cls.__bases__[0].__module__ in (View.__module__, _SHARING):
        return
    answer = cls.__dict__.get("__torch_function__")
    if getattr(answer, "__func__", answer) is disabled or "Parameter" in [base.__name__ for base in cls.__mro__]:
        return
    is_first = not hasattr(cls, "_asks_torch_function")
    type.__setattr__(cls, "_asks_torch_function", True)
    _install()
    for name, method in _public_methods().items() if is_first else ():
        if name not in vars(cls):
            setattr(cls, name, _asking_method(method))


_FUNCTION = type(set_up)


def _install() -> None:
    """Have the functions of the modules ask, from now on."""
    global _is_installed
    if _is_installed:
        return
    _is_installed = True
    from importlib import import_module

    for below in _MODULES:
        module = import_module(f"wengert.torch{below}")
        for name, value in list(vars(module).items()):
            if type(value) is _FUNCTION and not name.startswith("_") and name not in _SETTINGS:
                made = asking(value)
                made.__module__ = module.__name__  # by which it is pickled
                setattr(module, name, made)


_SETTINGS = {"is_tensor", "typename", "manual_seed", "save", "load", "compile", "set_printoptions", "is_storage"}

methods["as_subclass"] = as_subclass
Tensor.__torch_function__ = classmethod(torch_function)  # type: ignore[attr-defined]
Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore[attr-defined]
Tensor.__init_subclass__ = classmethod(set_up)  # type: ignore[assignment, method-assign]
