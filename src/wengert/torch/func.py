"""`torch.func`: transforms of functions, which are Wengert's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import wengert as wg
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.nn.module import Module


def grad(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `func`."""
    return wg.grad(func, argnums, has_aux)


def grad_and_value(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of `func`, and its value."""
    both = wg.value_and_grad(func, argnums, has_aux)

    def turned(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return gradient, value

    return turned


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function mapped over an axis of its arguments."""
    return wg.vmap(func, in_dims, out_dims, "different" if randomness == "error" else randomness)


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The result, and a function that returns vector-Jacobian products."""
    result = wg.vjp(func, *primals, has_aux=has_aux)
    pull = result[1]

    def pulled(*cotangents: Any, **options: Any) -> Any:
        found = pull(cotangents[0] if len(cotangents) == 1 else cotangents)
        return found[0] if len(primals) == 1 else found

    return (result[0], pulled, *result[2:])


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The result, and its directional derivative along the tangents."""
    if not has_aux:
        return wg.jvp(func, primals, tangents)
    kept: list[Any] = []

    def first(*args: Any) -> Any:
        value, aux = func(*args)
        kept[:] = [aux]
        return value

    return (*wg.jvp(first, primals, tangents), kept[0])


def jacrev(func: Callable[..., Any], argnums: Any = 0, *, has_aux: bool = False, **options: Any) -> Callable[..., Any]:
    """A function that returns the Jacobian, computed row by row."""
    return _without_aux(func, has_aux, lambda f: wg.jacobian(f, argnums, mode="reverse"))


def jacfwd(func: Callable[..., Any], argnums: Any = 0, has_aux: bool = False, **options: Any) -> Callable[..., Any]:
    """A function that returns the Jacobian, computed column by column."""
    return _without_aux(func, has_aux, lambda f: wg.jacobian(f, argnums, mode="forward"))


def hessian(func: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """A function that returns the Hessian."""
    return jacfwd(jacrev(func, argnums), argnums)


def _without_aux(func: Callable[..., Any], has_aux: bool, make: Callable[[Any], Any]) -> Callable[..., Any]:
    if not has_aux:
        return make(func)

    def both(*args: Any) -> Any:
        kept: list[Any] = []

        def first(*inner: Any) -> Any:
            value, aux = func(*inner)
            kept[:] = [wg.tree.map(lambda x: x.detach() if isinstance(x, wg.Tensor) else x, aux)]
            return value

        return make(first)(*args), kept[0]

    return both


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call the module with other values for its parameters and buffers, by name."""
    given: dict[str, Any] = {}
    dicts = parameter_and_buffer_dicts
    for part in dicts if isinstance(dicts, (tuple, list)) else (dicts,):
        given.update(part)
    places: list[tuple[Any, str, Any]] = []
    same = _tied(module) if tie_weights else {}
    try:
        for path, value in given.items():
            for each in same.get(path, (path,)):
                owner, _, name = each.rpartition(".")
                holder = module.get_submodule(owner)
                if name not in holder.__dict__:
                    raise KeyError(f"{path!r} is not a parameter or buffer of the module")
                places.append((holder, name, holder.__dict__[name]))
                holder.__dict__[name] = value
        return module(*_as_args(args), **(kwargs or {}))
    finally:
        for holder, name, before in reversed(places):
            holder.__dict__[name] = before


def _as_args(args: Any) -> tuple[Any, ...]:
    return () if args is None else args if isinstance(args, tuple) else (args,)


def _tied(module: Module) -> dict[str, list[str]]:
    """The paths of each tensor that stands in several places, by each of them."""
    paths: dict[int, list[str]] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        for name, slot in (*part.own_parameters(), *part.own_buffers()):
            paths.setdefault(id(slot), []).append(f"{path}.{name}" if path else name)
    return {path: each for each in paths.values() for path in each}


def stack_module_state(models: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters of several models of one kind, stacked by name, and their buffers."""
    params = {
        name: wg.stack([dict(m.named_parameters())[name].detach() for m in models]).requires_grad_()
        for name, _ in models[0].named_parameters()
    }
    buffers = {name: wg.stack([dict(m.named_buffers())[name] for m in models]) for name, _ in models[0].named_buffers()}
    return params, buffers


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.func", name)
