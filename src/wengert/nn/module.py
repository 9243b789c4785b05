"""Module: a part of a model, with parameters, buffers and other modules as its attributes.

Everything lives in plain attributes: a Parameter or a Module that is set as one belongs to the model from then on, a
Tensor does when it is registered as a buffer. What is learned or counted is a Tensor and changes by `assign`; every
other attribute is fixed while a step is recorded, and setting one counts `wg.config.version` up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from difflib import get_close_matches
from typing import Any, TypeVar
from weakref import ref

import wengert as wg
from wengert.nn import state as _state
from wengert.nn.errors import name_layer
from wengert.nn.hooks import Hook, HookHandle, calls, observers
from wengert.nn.parameter import Parameter

M = TypeVar("M", bound="Module")

_NOTHING = object()
_now = wg.graph.now
_SPELLINGS = {
    "bfloat16": "to(wg.bfloat16)",
    "cpu": 'to("cpu")',
    "cuda": 'to("cuda")',
    "double": "to(wg.float64)",
    "float": "to(wg.float32)",
    "half": "to(wg.float16)",
}


class Module:
    """The base of every layer and model: subclass it, set parameters and layers in `__init__`, compute in `forward`.

    >>> import wengert as wg
    >>> class Shift(wg.nn.Module):
    ...     def __init__(self, size):
    ...         super().__init__()
    ...         self.by = wg.nn.Parameter(wg.ones(size))
    ...     def forward(self, x):
    ...         return x + self.by
    >>> model = Shift(2)
    >>> model(wg.tensor([1.0, 2.0])).tolist(), [name for name, _ in model.named_parameters()]
    ([2.0, 3.0], ['by'])
    """

    training: bool = True
    # Defaults that a module shadows when it has its own, so that there is nothing a subclass must not forget to set up.
    _persistent: Mapping[str, bool] = {}  # the names of the buffers, and whether each is saved
    _hooks: tuple[Hook, ...] = ()
    _called: bool = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; a subclass says."""
        raise wg.errors.ArgumentError(f"{type(self).__name__} has no forward: define what it computes")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.__dict__["_called"] = True
        first = _now()
        try:
            if observers:
                return self._call_observed(args, kwargs)
            if self._hooks:
                return self._call_with_hooks(args, kwargs)
            return self.forward(*args, **kwargs)
        except Exception as error:
            name_layer(error, self, args, kwargs)
            raise
        finally:
            calls.append((first, _now(), ref(self)))

    # --- attributes ---------------------------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        before = self.__dict__.get(name, _NOTHING)
        if before is _NOTHING:
            before = getattr(type(self), name, _NOTHING)
        object.__setattr__(self, name, value)
        # What was never set before a first call cannot have been recorded: building a module changes nothing.
        if (before is not _NOTHING or self._called) and not _same(before, value):
            wg.config.changed()

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        if name in self._persistent:
            self.__dict__["_persistent"] = {key: saved for key, saved in self._persistent.items() if key != name}
        wg.config.changed()

    def __getattr__(self, name: str) -> Any:
        kind = type(self).__name__
        if name in _SPELLINGS:
            raise AttributeError(f"{kind} has no {name!r} here: write .{_SPELLINGS[name]}")
        near = [] if name.startswith("_") else get_close_matches(name, dir(self), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"{kind} has no attribute {name!r}{hint}")

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Make a Parameter, or None for one that is left out, an attribute; for names made by a program."""
        if parameter is not None and not isinstance(parameter, Parameter):
            raise wg.errors.DTypeError(f"register_parameter: {name!r} is a {type(parameter).__name__}, not a Parameter")
        self._require_free(name)
        setattr(self, name, parameter)

    def register_buffer(self, name: str, tensor: wg.Tensor | None, persistent: bool = True) -> None:
        """Make a Tensor that is not learned (a running mean, a table) part of the state; saved if `persistent`."""
        if tensor is not None and not isinstance(tensor, wg.Tensor):
            raise wg.errors.DTypeError(f"register_buffer: {name!r} is a {type(tensor).__name__}, not a Tensor")
        if name not in self._persistent:
            self._require_free(name)
        self.__dict__["_persistent"] = {**self._persistent, name: persistent}
        setattr(self, name, tensor)

    def add_module(self, name: str, module: Module | None) -> None:
        """Make a Module an attribute, under a name made by a program."""
        if module is not None and not isinstance(module, Module):
            raise wg.errors.DTypeError(f"add_module: {name!r} is a {type(module).__name__}, not a Module")
        if not isinstance(self.__dict__.get(name), Module):
            self._require_free(name)
        setattr(self, name, module)

    def _require_free(self, name: str) -> None:
        if not isinstance(name, str) or "." in name or not name:
            raise wg.errors.ArgumentError(f"{name!r} cannot name a part of a module: a name is a string without dots")
        if hasattr(type(self), name) or self.__dict__.get(name) is not None:
            raise wg.errors.ArgumentError(f"{type(self).__name__} has an attribute {name!r} already")

    # --- what it holds ------------------------------------------------------------------------------------------

    def own_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters set on this module itself, with their names."""
        for name, value in list(self.__dict__.items()):
            if isinstance(value, Parameter) and name not in self._persistent:
                yield name, value

    def own_buffers(self, persistent_only: bool = False) -> Iterator[tuple[str, wg.Tensor]]:
        """The buffers registered on this module itself, with their names."""
        for name, saved in self._persistent.items():
            if self.__dict__.get(name) is not None and (saved or not persistent_only):
                yield name, self.__dict__[name]

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules set on this module itself, with their names."""
        for name, value in list(self.__dict__.items()):
            if isinstance(value, Module):
                yield name, value

    def children(self) -> Iterator[Module]:
        """The modules set on this module itself."""
        return _once(self.named_children())

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and all within it, outermost first, with their paths. One in several places comes once."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if remove_duplicate and id(module) in seen:
                continue
            seen.add(id(module))
            yield path, module
            within = [(f"{path}.{name}" if path else name, child) for name, child in module.named_children()]
            stack.extend(reversed(within))

    def modules(self) -> Iterator[Module]:
        """This module and all within it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters of this module and all within it, with their paths. One in several places comes once."""
        yield from self._gathered(Module.own_parameters, prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and all within it, each once: what an optimizer takes."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, wg.Tensor]]:
        """The buffers of this module and all within it, with their paths. One in several places comes once."""
        yield from self._gathered(Module.own_buffers, prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[wg.Tensor]:
        """The buffers of this module and all within it, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _gathered(self, own: Callable[[Any], Iterator[Any]], prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            for name, slot in own(module):
                if id(slot) not in seen:
                    seen.add(id(slot))
                    yield f"{path}.{name}" if path else name, slot

    def get_submodule(self, path: str) -> Module:
        """The module at a path such as "encoder.layers.3"; the empty path is this module."""
        module: Any = self
        for name in path.split(".") if path else []:
            module = getattr(module, name)
        if not isinstance(module, Module):
            raise wg.errors.ArgumentError(f"{path!r} is a {type(module).__name__}, not a Module")
        return module

    # --- state --------------------------------------------------------------------------------------------------

    def state_dict(self, prefix: str = "") -> dict[str, wg.Tensor]:
        """The parameters and persistent buffers by name, as they are now: later changes do not reach it.

        >>> import wengert as wg
        >>> {name: value.shape for name, value in wg.nn.Linear(3, 2).state_dict().items()}
        {'weight': (2, 3), 'bias': (2,)}
        """
        return {prefix + name: slot.detach() for name, slot in _state.slots(self)}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> _state.LoadedKeys:
        """Give parameters and buffers the values of these names: Tensors, NumPy arrays or another library's tensors.

        A value is cast to its slot's dtype. A name that is missing or unexpected raises if `strict`, a shape that does
        not fit always; one error lists them all, and then nothing is loaded.
        """
        return _state.load(self, state_dict, strict)

    def train(self: M, mode: bool = True) -> M:
        """Set training mode in this module and all within it (dropout drops, batch norm uses the batch)."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """Set evaluation mode in this module and all within it."""
        return self.train(False)

    def to(self: M, *targets: Any, dtype: Any = None, device: Any = None) -> M:
        """Move parameters and buffers to a dtype or a device, in place: `model.to(wg.float64)`, `model.to("cpu")`.

        A dtype is for the floating-point ones; integer buffers keep theirs. The slots stay the same Tensors, so an
        optimizer made before goes on with them.
        """
        wanted = [target for target in (*targets, dtype, device) if target is not None]
        places = [target for target in wanted if wg.devices.is_device(target)]
        for slot in [*self.parameters(), *self.buffers()]:
            slot.to_(*(wanted if wg.isdtype(slot.dtype, "real floating") else places))
        wg.config.changed()
        return self

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Have all parameters require grad, or none: a frozen layer is `layer.requires_grad_(False)`."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        wg.config.changed()
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or make them zeros."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.assign(wg.zeros_like(parameter.grad))

    def apply(self: M, function: Callable[[Module], Any]) -> M:
        """Call `function` on every module within this one and then on this one."""
        for child in self.children():
            child.apply(function)
        function(self)
        return self

    # --- hooks --------------------------------------------------------------------------------------------------

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> HookHandle:
        """Call `hook(module, args)` before every forward; what it returns, if anything, replaces the arguments.

        With `with_kwargs` it is called with the keyword arguments too and returns both, as (args, kwargs).
        """
        return self._hooked(Hook(hook, before=True, with_kwargs=with_kwargs))

    def register_forward_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> HookHandle:
        """Call `hook(module, args, output)` after every forward; what it returns, if anything, replaces the output.

        With `with_kwargs` it is called as `hook(module, args, kwargs, output)`.
        """
        return self._hooked(Hook(hook, before=False, with_kwargs=with_kwargs))

    def _hooked(self, hook: Hook) -> HookHandle:
        self._hooks = (*self._hooks, hook)
        return HookHandle(self, hook)

    def _call_observed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with ExitStack() as stack:
            for observer in observers:
                stack.enter_context(observer(self))
            return self._call_with_hooks(args, kwargs)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        hooks = self._hooks
        for hook in hooks:
            if hook.before:
                args, kwargs = hook.changed_arguments(self, args, kwargs)
        output = self.forward(*args, **kwargs)
        for hook in hooks:
            if not hook.before:
                output = hook.changed_output(self, args, kwargs, output)
        return output

    # --- showing ------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """The part of the repr between the parentheses; a subclass says."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.named_children()]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        body = "".join(f"\n  {line}" for line in ([extra] if extra else []) + lines)
        return f"{type(self).__name__}({body}\n)"

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name.isidentifier()]

    def count_flops(self, inputs: tuple[wg.Tensor, ...], output: Any) -> int:
        """The multiplications and additions of one forward, without those of the modules within; for `summary`."""
        return 0

    def summary(self, *inputs: Any, **options: Any) -> str:
        """A table of the layers with the shapes they give for these inputs, their parameters and their FLOPs.

        >>> import wengert as wg
        >>> print(wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.ReLU()).summary(wg.zeros((2, 4))))
        layer           output  parameters  FLOPs
        Sequential      (2, 8)          40    128
          0 (Linear)    (2, 8)          40    128
          1 (ReLU)      (2, 8)           0      0
        40 parameters (40 to learn), 160 bytes; 128 FLOPs forward
        """
        from wengert.nn.summary import summary

        return summary(self, inputs, options)


def _once(named: Iterator[tuple[str, Module]]) -> Iterator[Module]:
    seen: set[int] = set()
    for _, module in named:
        if id(module) not in seen:
            seen.add(id(module))
            yield module


def _same(before: Any, after: Any) -> bool:
    """Whether setting an attribute again left it as it was. Values of other kinds may have changed within."""
    if before is after:
        return True
    return type(before) is type(after) and type(after) in (bool, int, float, str) and before == after
