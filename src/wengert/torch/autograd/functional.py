"""`torch.autograd.functional`: Jacobians, Hessians and their products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.torch.autograd.backward import grad
from wengert.torch.tensor import Base, Tensor, of

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _inputs(inputs: Any, create_graph: bool) -> tuple[tuple[Any, ...], bool]:
    """The inputs as tensors to differentiate with respect to, and whether there was one alone."""
    single = isinstance(inputs, Base)
    given = (inputs,) if single else tuple(inputs)
    if create_graph:
        return tuple(x if x.node.tracked else of(x).clone().requires_grad_() for x in given), single
    return tuple(Tensor(Base.detach(x).node).requires_grad_() for x in given), single


def _outputs(outputs: Any) -> tuple[tuple[Any, ...], bool]:
    single = isinstance(outputs, Base)
    return ((outputs,) if single else tuple(outputs)), single


def _loosened(value: Any, create_graph: bool) -> Any:
    """Values without their history, unless that was requested."""
    if isinstance(value, tuple):
        return tuple(_loosened(part, create_graph) for part in value)
    return value if create_graph else Tensor(Base.detach(value).node)


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function at some inputs: of each result with respect to each input."""
    given, one_input = _inputs(inputs, create_graph)
    results, one_output = _outputs(func(*given))
    rows = []
    for result in results:
        parts = [_rows(result, x, create_graph, strict) for x in given]
        rows.append(parts[0] if one_input else tuple(parts))
    return _loosened(rows[0] if one_output else tuple(rows), create_graph)


def _rows(result: Any, x: Any, create_graph: bool, strict: bool) -> Any:
    shape = (*result.node.shape, *x.node.shape)
    if not result.node.tracked:
        if strict:
            raise RuntimeError("the output is independent of an input, which strict=True does not allow")
        return Tensor(wg.zeros(shape, dtype=result.node.dtype).node)
    count = result.node.size
    seeds = Tensor(wg.reshape(wg.eye(count, dtype=result.node.dtype), (count, *result.node.shape)).node)
    found = grad(
        result,
        x,
        seeds,
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
        is_grads_batched=True,
        materialize_grads=True,
    )[0]
    return Tensor(wg.reshape(wg.broadcast_to(found, (count, *x.node.shape)), shape).node)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The matrix of second derivatives of a scalar function."""
    single = isinstance(inputs, Base)

    def gradient(*given: Any) -> Any:
        value = func(*given)
        if value.node.size != 1:
            raise RuntimeError("The Tensor returned by the function given to hessian should contain a single element")
        total = value.reshape(())
        if not total.node.tracked:
            found = tuple(x * 0 for x in given)
        else:
            found = grad(total, given, create_graph=True, allow_unused=True, materialize_grads=True)
        return found[0] if single else found

    return jacobian(gradient, inputs, create_graph=create_graph, strict=strict)


def vjp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The function's results, and the product of a vector with its Jacobian."""
    given, single = _inputs(inputs, create_graph)
    results, one_output = _outputs(func(*given))
    found = grad(results, given, v, create_graph=create_graph, allow_unused=not strict, materialize_grads=not strict)
    outputs = results[0] if one_output else results
    return _loosened(outputs, create_graph), _loosened(found[0] if single else found, create_graph)


def jvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The function's results, and the product of its Jacobian with a vector."""
    given, _ = _inputs(inputs, create_graph)
    vectors = tuple(wg.ones_like(x) for x in given) if v is None else (v,) if isinstance(v, Base) else tuple(v)
    value, moved = wg.jvp(func, given, vectors)
    return _loosened(value, create_graph), _loosened(moved, create_graph)


def hvp(
    func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """The function's value, and the product of its Hessian with a vector."""
    given, single = _inputs(inputs, True)
    value = func(*given)
    first = grad(value, given, create_graph=True, allow_unused=True, materialize_grads=True)
    vectors = (None,) * len(given) if v is None else (v,) if isinstance(v, Base) else tuple(v)
    tracked = [(g, u) for g, u in zip(first, vectors) if g.node.tracked]
    if tracked:
        found = grad(
            [g for g, _ in tracked],
            given,
            [u for _, u in tracked],
            create_graph=create_graph,
            allow_unused=True,
            materialize_grads=True,
        )
    else:
        found = tuple(x * 0 for x in given)
    return _loosened(value, create_graph), _loosened(found[0] if single else found, create_graph)


vhp = hvp
