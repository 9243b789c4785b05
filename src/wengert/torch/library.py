"""`torch.library`: operators of a program's own, which are then called as `torch.ops.namespace.name`.

In: functions of Python, and for each operator the rule for its gradient. Out: operators whose calls are recorded like
those of a `torch.autograd.Function`. An operator without a rule is differentiated through the function itself.
Shape functions (`register_fake`) are kept, but not needed: an operator runs on its arguments' values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from wengert.tensor import Tensor as Base
from wengert.torch.autograd.function import Function
from wengert.torch.missing import missing_attribute as _missing_attribute

_operators: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """An operator: call it, or register what it does on another device or in a gradient."""

    def __init__(self, name: str, function: Callable[..., Any] | None, schema: str | None = None) -> None:
        self._qualname, self._schema = name, schema
        self._implementation = function
        self._by_device: dict[str, Callable[..., Any]] = {}
        self._fake: Callable[..., Any] | None = None
        self._rule: type[Function] | None = None
        self.__name__ = name.partition("::")[2]
        self.__doc__ = function.__doc__ if function is not None else None

    @property
    def default(self) -> CustomOpDef:
        """The operator's only overload: the operator."""
        return self

    def register_kernel(self, device_types: Any, func: Callable[..., Any] | None = None, /) -> Any:
        """Compute the operator by another function on these devices. Also a decorator."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            if device_types is None:
                self._implementation = function
            for kind in (device_types,) if isinstance(device_types, str) else device_types or ():
                self._by_device[kind] = function
            return function

        return register if func is None else register(func)

    def register_fake(self, func: Callable[..., Any], /) -> Callable[..., Any]:
        """Keep the function that says which shapes the results have."""
        self._fake = func
        return func

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """The operator's gradient: `backward(ctx, *grads)`, for which `setup_context(ctx, inputs, output)` keeps."""
        self._rule = _rule(self, backward, setup_context)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._rule is None:
            return self._compute(*args, **kwargs)
        bound = inspect.signature(self._function((*args, *kwargs.values()))).bind(*args, **kwargs)
        bound.apply_defaults()  # the rule takes all arguments in their order
        return self._rule.apply(*bound.args, **bound.kwargs)

    def _compute(self, *args: Any, **kwargs: Any) -> Any:
        return self._function((*args, *kwargs.values()))(*args, **kwargs)

    def _function(self, args: Iterable[Any]) -> Callable[..., Any]:
        kind = next((x.node.device.partition(":")[0] for x in args if isinstance(x, Base)), "cpu")
        found = self._by_device.get(kind, self._implementation)
        if found is None:
            raise NotImplementedError(
                f"Could not run '{self._qualname}' with arguments from the '{kind.upper()}' backend: it has no kernel"
            )
        return found

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"


def _rule(operator: CustomOpDef, backward: Callable[..., Any], setup_context: Callable[..., Any] | None) -> type[Any]:
    """The operator as a `Function` with its own rule."""

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        if setup_context is not None:
            setup_context(ctx=ctx, inputs=inputs, output=output)

    rules = {"forward": operator._compute, "setup_context": setup, "backward": backward}
    return type(operator.__name__, (Function,), {name: staticmethod(rule) for name, rule in rules.items()})


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """An operator `namespace::name` that is computed by a function. Also a decorator.

    >>> import wengert.torch as torch
    >>> @torch.library.custom_op("doc::double", mutates_args=())
    ... def double(x: torch.Tensor) -> torch.Tensor:
    ...     return x * 2
    >>> torch.ops.doc.double(torch.tensor([1.0]))
    tensor([2.])
    """

    def decorate(function: Callable[..., Any]) -> CustomOpDef:
        operator = _define(name, schema)
        operator.__doc__ = function.__doc__
        operator.register_kernel(device_types, function)
        return operator

    return decorate if fn is None else decorate(fn)


triton_op = custom_op


def _define(name: str, schema: str | None) -> CustomOpDef:
    if name.count("::") != 1 or not all(name.split("::")):
        raise ValueError(f"the name of an operator is 'namespace::name', not {name!r}")
    _operators[name] = CustomOpDef(name, None, schema)
    return _operators[name]


def _operator(name: Any) -> CustomOpDef:
    """The operator of a name, or the operator."""
    if isinstance(name, CustomOpDef):
        return name
    if name not in _operators:
        raise RuntimeError(f"operator {name} does not exist")
    return _operators[name]


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """An operator by its name and signature, whose functions are registered later."""
    _define(qualname, schema)


def impl(qualname: Any, types: Any, func: Callable[..., Any] | None = None, *, lib: Any = None) -> Any:
    """Compute an operator by a function on these devices; "default" and "CompositeImplicitAutograd" mean all."""
    everywhere = types in ("default", "CompositeImplicitAutograd", "CompositeExplicitAutograd")
    return _operator(qualname).register_kernel(None if everywhere else _kinds(types), func)


def _kinds(types: Any) -> list[str]:
    return [kind.lower() for kind in ((types,) if isinstance(types, str) else types)]


register_kernel = impl


def register_fake(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None, **options: Any) -> Any:
    """Keep the function that says which shapes an operator's results have. Also a decorator."""
    return _operator(op).register_fake if func is None else _operator(op).register_fake(func)


impl_abstract = register_fake


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Any = None,
) -> None:
    """An operator's gradient."""
    _operator(op).register_autograd(backward, setup_context=setup_context)


class Library:
    """The operators of a namespace: `define` them by signatures, and say by `impl` how they are computed."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """An operator by its signature, `"name(Tensor x) -> Tensor"`."""
        name = schema.partition("(")[0].strip()
        _define(f"{self.ns}::{name}", schema)
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
        """Compute an operator by a function; for which devices, this library or `dispatch_key` says."""
        name = op_name if isinstance(op_name, str) else op_name._qualname
        impl(name if "::" in name else f"{self.ns}::{name}", dispatch_key or self.dispatch_key or "default", fn)


class _Namespace:
    """`torch.ops.namespace`: its operators by their names."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> CustomOpDef:
        found = _operators.get(f"{self.name}::{name}")
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self.name}' object has no attribute '{name}'")
        return found


class _Operators:
    """`torch.ops`: namespaces of operators that programs registered. PyTorch's own have their names in `torch`."""

    def __getattr__(self, name: str) -> _Namespace:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Namespace(name)


ops = _Operators()


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.library", name)
