"""`gradcheck` and `gradgradcheck`: gradients compared with differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg
from wengert.torch.autograd.backward import grad
from wengert.torch.tensor import Base, Tensor


class GradcheckError(RuntimeError):
    """Raised when a gradient disagrees with finite differences."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **options: Any,
) -> bool:
    """Check the gradients of a function's results against central differences."""
    given = (inputs,) if isinstance(inputs, Base) else tuple(inputs)
    wanted = [i for i, x in enumerate(given) if isinstance(x, Base) and x.node.tracked]
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient")
    for k, result in enumerate(_results(func, given)):
        for i in wanted:
            found, expected = _analytical(func, given, k, i), _numerical(func, given, k, i, eps)
            if not np.allclose(found, expected, rtol, atol):
                if raise_exception:
                    raise GradcheckError(
                        f"Jacobian mismatch for output {k} with respect to input {i},\nnumerical:{expected}\n"
                        f"analytical:{found}\n"
                    )
                return False
        del result
    return True


def gradgradcheck(func: Callable[..., Any], inputs: Any, grad_outputs: Any = None, **options: Any) -> bool:
    """`gradcheck` of the gradient."""
    given = (inputs,) if isinstance(inputs, Base) else tuple(inputs)
    wanted = [i for i, x in enumerate(given) if isinstance(x, Base) and x.node.tracked]
    rng = np.random.default_rng(0)
    seeds = [Tensor(wg.tensor(rng.normal(size=r.node.shape).astype(r.node.dtype)).node) for r in _results(func, given)]

    def gradient(*args: Any) -> Any:
        results = _results(func, args)
        inner = [args[i] for i in wanted]
        pairs = [(r, s) for r, s in zip(results, seeds) if r.node.tracked]
        return grad(
            [r for r, _ in pairs],
            inner,
            [s for _, s in pairs],
            create_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )

    return gradcheck(gradient, given, **options)


def _results(func: Callable[..., Any], given: Any) -> list[Any]:
    result = func(*given)
    return [result] if isinstance(result, Base) else [x for x in result if isinstance(x, Base)]


def _analytical(func: Callable[..., Any], given: Any, k: int, i: int) -> np.ndarray[Any, Any]:
    """The Jacobian of result k with respect to input i, by one backward pass an element."""
    result = _results(func, given)[k]
    rows = []
    for place in range(result.node.size):
        seed = np.zeros(result.node.size, result.node.dtype)
        seed[place] = 1
        one = Tensor(wg.tensor(seed.reshape(result.node.shape)).node)
        if not result.node.tracked:
            rows.append(np.zeros(given[i].node.size))
            continue
        (found,) = grad(result, given[i], one, retain_graph=True, allow_unused=True, materialize_grads=True)
        rows.append(np.asarray(Base.detach(found)).ravel().copy())
    return np.array(rows)


def _numerical(func: Callable[..., Any], given: Any, k: int, i: int, eps: float) -> np.ndarray[Any, Any]:
    """The same by central differences; of complex inputs along both parts."""
    start = np.array(np.asarray(Base.detach(given[i])))

    def at(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        moved = list(given)
        moved[i] = Tensor(wg.tensor(array).node).requires_grad_()
        return np.array(np.asarray(Base.detach(_results(func, moved)[k]))).ravel()

    columns = []
    for place in range(start.size):
        step = np.zeros(start.size, start.dtype)
        step[place] = eps
        step = step.reshape(start.shape)
        column = (at(start + step) - at(start - step)) / (2 * eps)
        if start.dtype.kind == "c":
            other = (at(start + 1j * step) - at(start - 1j * step)) / (2 * eps)
            column = np.conj(column) + 1j * np.conj(other) if column.dtype.kind == "c" else column + 1j * other
        columns.append(column)
    return np.array(columns).T
