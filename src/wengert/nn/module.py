"""Module: a part of a model, with parameters, buffers and other modules as its attributes.

`parts` handles its contents, `state` saving and loading, `hooks` the hooks; this file has the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar
from weakref import ref

import wengert as wg
from wengert.nn.errors import NoForward, name_layer
from wengert.nn.hooks import Hooked, calls, observers
from wengert.nn.state import Stateful

M = TypeVar("M", bound="Module")

_now = wg.graph.now


class Module(Stateful, Hooked):
    """The base class of every layer and model: subclass it, set parameters and layers in `__init__`, compute in
    `forward`.

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
    call_super_init: bool = False  # whether `__init__` goes on to the next class, as one of several bases

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Nothing needs to be set up. A class that stands beside a module's among the bases is called by name."""
        if self.call_super_init:
            super().__init__(*args, **kwargs)
        elif args or kwargs:
            given = ", ".join([*map(repr, args), *kwargs])
            raise TypeError(f"{type(self).__name__}: Module.__init__ takes no arguments, but got {given}")

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses define it."""
        raise NoForward(f"{type(self).__name__} has no forward: define what it computes")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.__dict__["_recorded"] = True
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

    # --- modes, places, gradients ------------------------------------------------------------------------------------

    def train(self: M, mode: bool = True) -> M:
        """Set training mode in this module and all within it (dropout drops, batch norm uses the batch).

        A submodule may override `train`, for example to stay frozen; its own method is called.
        """
        if not isinstance(mode, bool):
            raise wg.errors.ArgumentError(f"train takes True or False, not {mode!r}")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: M) -> M:
        """Set evaluation mode in this module and all within it."""
        return self.train(False)

    def to(self: M, *targets: Any, dtype: Any = None, device: Any = None) -> M:
        """Move parameters and buffers to a dtype or a device, in place: `model.to(wg.float64)`, `model.to("cpu")`.

        A dtype applies to floating-point values only; integer buffers keep theirs. The Tensors stay the same objects,
        so an existing optimizer keeps working.
        """
        wanted = [target for target in (*targets, dtype, device) if target is not None]
        places = [target for target in wanted if wg.devices.is_device(target)]
        return self._apply(lambda slot: slot.to_(*(wanted if wg.isdtype(slot.dtype, "real floating") else places)))

    def _apply(self: M, function: Callable[[wg.Tensor], wg.Tensor], recurse: bool = True) -> M:
        """Give every parameter and buffer, and every gradient, what `function` makes of it: all moves come here.

        The slots stay the same Tensors. A function that changes its argument in place gives it back.
        """
        if recurse:
            for child in self.children():
                child._apply(function)
        for _, slot in [*self.own_parameters(), *self.own_buffers()]:
            with wg.no_grad():
                made = function(slot)
                if made is not slot:
                    grad = None if slot.grad is None else function(slot.grad)
                    slot._become(made)
                    slot.grad = grad
        wg.config.changed()
        return self

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Make all parameters require grad, or none: `layer.requires_grad_(False)` freezes a layer."""
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad
        wg.config.changed()
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or to zeros."""
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

    def _call_observed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with ExitStack() as stack:
            for observer in observers:
                stack.enter_context(observer(self))
            return self._call_with_hooks(args, kwargs)

    # --- showing ------------------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """The part of the repr between the parentheses; subclasses define it."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): " + repr(child).replace("\n", "\n  ") for name, child in self.named_children()]
        extra = self.extra_repr()
        if not lines and "\n" not in extra:
            return f"{self._get_name()}({extra})"
        body = "".join(f"\n  {line}" for line in (extra.split("\n") if extra else []) + lines)
        return f"{self._get_name()}({body}\n)"

    def _get_name(self) -> str:
        """What the module is called where it is shown."""
        return type(self).__name__

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the attributes that were pickled; a subclass may bring old ones up to date."""
        self.__dict__.update(state)

    def _repr_html_(self) -> str:
        """In a notebook: the layers as a table."""
        from wengert.nn.summary import layers_html

        return layers_html(self)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name.isidentifier()]

    def count_flops(self, inputs: tuple[wg.Tensor, ...], output: Any) -> int:
        """The FLOPs of one forward call, excluding submodules; `summary` uses it."""
        return 0

    def summary(self, *inputs: Any, **options: Any) -> str:
        """A table of the layers with their output shapes for these inputs, their parameters and their FLOPs.

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
