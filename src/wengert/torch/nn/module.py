"""`torch.nn.Module`: Wengert's Module, whose parts are PyTorch's.

A layer of Wengert's that is made a part of such a module, also deep within another, becomes the layer of that name
here, and its parameters become this package's: so `isinstance`, hooks and methods are those of a PyTorch program.
"""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

import wengert as wg
from wengert.core.devices import META
from wengert.core.dtypes import INEXACT, as_dtype
from wengert.torch import dtypes
from wengert.torch.meta import NO_DATA
from wengert.torch.nn import loading
from wengert.torch.nn.parameter import Buffer, Parameter
from wengert.torch.tensor import Tensor, of

M = TypeVar("M", bound="Module")


class Module(wg.nn.Module):
    """The base of every layer and model: subclass it, set parameters and layers in `__init__`, compute in `forward`."""

    _is_set_up: bool = False  # whether `Module.__init__` was called

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is given here; with `call_super_init` it goes to the next class."""
        set_up(self)
        if not self.call_super_init:
            _no_arguments(self, args, kwargs)
        wg.nn.Module.__init__(self, *args, **kwargs)

    # --- attributes -------------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        if not self._is_set_up and isinstance(value, (wg.nn.Parameter, wg.nn.Module)):
            what = "module" if isinstance(value, wg.nn.Module) else "parameters"
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if isinstance(value, Buffer) and name not in self._persistent:
            self.register_buffer(name, value, persistent=value.persistent)
            return
        super().__setattr__(name, value)

    def _set(self, name: str, value: Any) -> None:
        super()._set(name, adopted(value) if isinstance(value, (wg.Tensor, wg.nn.Module)) else value)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over what was pickled: here, or in PyTorch, which keeps parts in dicts of their own."""
        set_up(self)
        parts = {name: state.get(name) or {} for name in ("_parameters", "_buffers", "_modules")}
        unsaved = state.get("_non_persistent_buffers_set") or ()
        if not any(name in state for name in parts):
            self.__dict__.update(state)
            return
        self.__dict__.update({name: value for name, value in state.items() if not name.startswith("_")})
        for name, parameter in parts["_parameters"].items():
            self.register_parameter(name, parameter)
        for name, buffer in parts["_buffers"].items():
            self.register_buffer(name, buffer, persistent=name not in unsaved)
        for name, module in parts["_modules"].items():
            self.add_module(name, module)

    def _check_replaced(self, name: str, kind: str, value: Any) -> None:
        try:
            super()._check_replaced(name, kind, value)
        except TypeError:
            buffer = "torch.nn.Buffer, torch.Tensor"
            takes = {"parameter": "torch.nn.Parameter", "buffer": buffer, "module": "torch.nn.Module"}[kind]
            what = "child module" if kind == "module" else kind
            raise TypeError(
                f"cannot assign {_kind_name(value)!r} as {what} {name!r} ({takes} or None expected)"
            ) from None

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def register_parameter(self, name: str, param: Any) -> None:
        """Make a Parameter, or None, an attribute."""
        self._require_set_up("parameter")
        self._check_name(name, "parameter")
        if param is not None and not isinstance(param, wg.nn.Parameter):
            raise TypeError(
                f"cannot assign {_kind_name(param)!r} object to parameter {name!r} "
                "(torch.nn.Parameter or None required)"
            )
        super().register_parameter(name, param)

    def register_buffer(self, name: str, tensor: Any, persistent: bool = True) -> None:
        """Register a tensor that is not learned as part of the state."""
        self._require_set_up("buffer")
        self._check_name(name, "buffer")
        if tensor is not None and not isinstance(tensor, wg.Tensor):
            raise TypeError(
                f"cannot assign {_kind_name(tensor)!r} object to buffer {name!r} (torch Tensor or None required)"
            )
        super().register_buffer(name, tensor, persistent)

    def add_module(self, name: str, module: Any) -> None:
        """Set a Module, or None, as an attribute."""
        if module is not None and not isinstance(module, wg.nn.Module):
            raise TypeError(f"{_kind_name(module)} is not a Module subclass")
        self._check_name(name, "module")
        super().add_module(name, module)

    def _adapt(self) -> None:
        """What a layer changes of itself when it was made by Wengert's constructor."""

    def _require_set_up(self, what: str) -> None:
        if not self._is_set_up:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")

    def _require_free(self, name: str) -> None:
        if hasattr(type(self), name) or self.__dict__.get(name) is not None:
            raise KeyError(f"attribute {name!r} already exists")

    def _check_name(self, name: Any, what: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {_kind_name(name)}")
        if "." in name:
            got = f", got: {name}" if what == "module" else ""
            raise KeyError(f'{what} name can\'t contain "."{got}')
        if not name:
            raise KeyError(f'{what} name can\'t be empty string ""')

    def _named_members(
        self,
        get_members_fn: Callable[[Any], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        """What a function gives of each module, by path."""

        def own(module: Any) -> Iterator[Any]:
            return ((name, value) for name, value in get_members_fn(module) if value is not None)

        yield from self._gathered(own, prefix, recurse, remove_duplicate)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module does."""
        return wg.nn.Module.__call__(self, *args, **kwargs)

    # --- its state --------------------------------------------------------------------------------------------------

    def state_dict(self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> Any:
        """Parameters and persistent buffers by name: tensors that share their values with the module's."""
        if args:  # as it once was: destination, prefix, keep_vars
            given: list[Any] = [*args, *(destination, prefix, keep_vars)[len(args) :]]
            destination, prefix, keep_vars = given
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        return super().state_dict(destination, prefix, keep_vars)

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """Load values into parameters and buffers by name; nothing is changed unless everything matches."""
        return loading.load(self, state_dict, strict, assign)

    # --- moving and casting -----------------------------------------------------------------------------------------

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Move parameters and buffers to a device or a dtype: `to("cuda")`, `to(torch.float64)`, `to(other_tensor)`."""
        kwargs.pop("non_blocking", None)
        kwargs.pop("memory_format", None)
        targets: list[Any] = []
        for arg in args:
            if isinstance(arg, wg.Tensor):
                targets += [arg.node.dtype, arg.node.device]
            elif arg is not None and not isinstance(arg, bool):
                targets.append(f"cuda:{arg}" if isinstance(arg, int) else arg)
        _require_values(self, [*targets, kwargs.get("device")])
        for target in (*targets, kwargs.get("dtype")):
            if target is not None and not wg.devices.is_device(target):
                _require_inexact(target)
        return super().to(*targets, **kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Make calls of this module go through `torch.compile`, with these options."""
        from wengert.torch.compiling import compile as compiled

        object.__setattr__(self, "forward", compiled(self.forward, *args, **kwargs))

    def cpu(self: M) -> M:
        """Move to the CPU."""
        return self.to("cpu")

    def cuda(self: M, device: Any = None) -> M:
        """Move to a GPU."""
        return self.to("cuda" if device is None else device)

    def float(self: M) -> M:
        """Cast floating-point parameters and buffers to float32."""
        return self.to(wg.float32)

    def double(self: M) -> M:
        """Cast floating-point parameters and buffers to float64."""
        return self.to(wg.float64)

    def half(self: M) -> M:
        """Cast floating-point parameters and buffers to float16."""
        return self.to(wg.float16)

    def bfloat16(self: M) -> M:
        """Cast floating-point parameters and buffers to bfloat16."""
        return self.to(wg.bfloat16)

    def type(self: M, dst_type: Any) -> M:
        """Cast all parameters and buffers."""
        for slot in [*self.parameters(), *self.buffers()]:
            slot.to_(as_dtype(dst_type))
        wg.config.changed()
        return self

    def to_empty(self: M, *, device: Any, recurse: bool = True) -> M:
        """Move to a device; the values there are zeros, and anything in PyTorch."""
        name = wg.devices.named(str(device), "to_empty")
        return self._apply(lambda slot: wg.zeros(slot.shape, dtype=slot.dtype, device=name), recurse)

    def share_memory(self: M) -> M:
        """Return the module; workers receive copies."""
        return self


def _require_values(module: Any, targets: list[Any]) -> None:
    """Open the device among the targets; raise if it is to get values of tensors that have none."""
    for target in targets:
        if target is None or not wg.devices.is_device(target):
            continue
        name = wg.devices.named(str(target), "to")
        if name != META and any(slot.node.device == META for slot in (*module.parameters(), *module.buffers())):
            raise NotImplementedError(
                f"{NO_DATA} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() when moving module "
                "from meta to a different device."
            )


layers: dict[type, type] = {wg.nn.Module: Module}
"""The class here for each of Wengert's."""

parts: dict[str, dict[str, Any]] = {}
"""What a layer has otherwise here than in Wengert, by its name there: methods, properties, `__init__`."""


def part_of(*names: str, called: str = "") -> Callable[[Any], Any]:
    """A decorator that makes the function an attribute of the layers with these names."""

    def register(part: Any) -> Any:
        for layer in names:
            parts.setdefault(layer, {})[called or part.__name__] = part
        return part

    return register


def property_of(*names: str) -> Callable[[Callable[[Any], Any]], Any]:
    """A decorator that makes the function a property of the layers with these names."""

    def register(read: Callable[[Any], Any]) -> Any:
        for layer in names:
            parts.setdefault(layer, {})[read.__name__] = property(read)
        return read

    return register


def set_up(module: Any) -> None:
    """Prepare a module to accept parameters and modules."""
    module.__dict__["_is_set_up"] = True


def _require_inexact(dtype: Any) -> None:
    if as_dtype(dtype) not in INEXACT:
        raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")


def _no_arguments(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    name = type(module).__name__
    if kwargs:
        raise TypeError(f"{name}.__init__() got an unexpected keyword argument {next(iter(kwargs))!r}")
    if args:
        raise TypeError(f"{name}.__init__() takes 1 positional argument but {len(args) + 1} were given")


def _kind_name(value: Any) -> str:
    return "torch.FloatTensor" if isinstance(value, Tensor) else type(value).__name__


def adopted(value: Any) -> Any:
    """Convert a tensor, a parameter or a module of Wengert's to this package's."""
    if isinstance(value, wg.Tensor):
        if isinstance(value, Tensor):
            return value
        if isinstance(value, wg.nn.Parameter):
            return Parameter(value, value.requires_grad)
        return of(value)
    known: dict[int, Any] = {}
    for module in [] if isinstance(value, Module) else list(value.modules()):
        _adopt(module, known)
    return value


def _adopt(module: wg.nn.Module, known: dict[int, Any]) -> None:
    """Make a module of Wengert's the layer of that name here, and its tensors this package's."""
    if isinstance(module, Module):
        return
    module.__class__ = layer_of(type(module))
    set_up(module)
    for name, value in list(module.__dict__.items()):
        if isinstance(value, wg.Tensor):
            module.__dict__[name] = known.setdefault(id(value), adopted(value))
    module._adapt()


def layer_of(kind: Any) -> Any:
    """The layer class here for one of Wengert's: it combines that class with the one here for its base."""
    if kind not in layers:
        base = layer_of(kind.__bases__[0])
        body = {"__doc__": kind.__doc__, "__module__": "wengert.torch.nn", "__init__": _constructor(kind)}
        layers[kind] = type(kind.__name__, (base, kind), body | parts.get(kind.__name__, {}))
    return layers[kind]


def _constructor(kind: Any) -> Any:
    """The `__init__` of a layer: Wengert's, or PyTorch's own where it makes nothing but a module."""
    made = kind.__init__
    if made is wg.nn.Module.__init__:
        return Module.__init__
    bases = {base: base.__init__ for base in kind.__mro__ if "__init__" in vars(base)}
    original = next(iter(bases.values()))
    takes_dtype = "dtype" in inspect.signature(original).parameters

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        set_up(self)
        if takes_dtype and dtypes.default() != np.float32 and kwargs.get("dtype") is None:
            kwargs["dtype"] = dtypes.default()
        made(self, *args, **kwargs)
        self._adapt()

    return __init__
