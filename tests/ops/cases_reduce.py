"""Cases of the reductions: over 0-d, empty, size-1, transposed and strided values, by all kinds of axes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from tests.ops.case import Case, arrays
from wengert.ops import registry
from wengert.ops.samples import of_axes, of_truths

(A,) = arrays(11, (3, 4))
WITH_ELEMENTS = [(x, attributes) for (x,), attributes in of_axes()]


def every_axis(x: Any, axis: Any) -> Any:
    """What torch wants for no axis at all."""
    return tuple(range(x.ndim)) if axis is None else axis


def by_axes(method: str) -> Callable[..., Any]:
    """The torch method of this name, which takes several axes."""
    return lambda x, axis=None, keepdims=False: getattr(x, method)(dim=every_axis(x, axis), keepdim=keepdims)


def extreme(method: str) -> Callable[..., Any]:
    return by_axes({"max": "amax", "min": "amin"}[method])


def torch_prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    for a in sorted((a % x.ndim for a in np.atleast_1d(every_axis(x, axis))), reverse=True) if x.ndim else []:
        x = x.prod(dim=int(a), keepdim=keepdims)
    return x


def torch_spread(method: str) -> Callable[..., Any]:
    def reference(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
        return getattr(x, method)(dim=every_axis(x, axis), correction=correction, keepdim=keepdims)

    return reference


def numpy_spread(function: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: Any, axis: Any = None, correction: float = 0, keepdims: bool = False) -> Any:
        return function(x, axis=axis, ddof=correction, keepdims=keepdims)

    return reference


def numpy_norm(x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    size = np.abs(x)
    if np.isinf(ord):
        return (np.max if ord > 0 else np.min)(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return np.sum(size != 0, axis=axis, keepdims=keepdims).astype(float)
    return np.sum(size**ord, axis=axis, keepdims=keepdims) ** (1 / ord)


def torch_norm(x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    return x.norm(ord, every_axis(x, axis), keepdims) if x.ndim else abs(x)


def lists(name: str, inputs: Any, numpy: Any, torch: Any, **options: Any) -> list[Case]:
    return [Case(name, (x,), kwargs, numpy=numpy, torch=torch, **options) for x, kwargs in inputs]


COUNTS = np.array([[0, 1, 2], [3, 0, 0]])
QUESTIONS = [(x, attributes) for (x,), attributes in of_truths()]


def own(name: str, numpy: Any, torch: Any, **options: Any) -> list[Case]:
    """The samples that a reduction states itself."""
    op = registry[name]
    assert op.samples is not None
    return [Case(name, args, kwargs, numpy=numpy, torch=torch, **options) for args, kwargs in op.samples()]


def torch_position(method: str) -> Callable[..., Any]:
    return lambda x, axis=None, keepdims=False: getattr(x, method)(dim=axis, keepdim=keepdims)


# The spread of a single element is 0 whatever it is, and the root there has a kink.
SPREAD = [(x, kwargs) for x, kwargs in WITH_ELEMENTS if x.shape not in ((), (1, 3, 1))]

CASES = [
    *own("sum", np.sum, by_axes("sum")),
    Case("sum", (COUNTS,), {"axis": 0}, numpy=np.sum, torch=by_axes("sum")),
    Case("sum", (QUESTIONS[1][0],), numpy=np.sum, torch=by_axes("sum")),
    *lists("mean", WITH_ELEMENTS, np.mean, by_axes("mean")),
    *own("max", np.max, extreme("max")),
    *own("min", np.min, extreme("min")),
    *own("prod", np.prod, torch_prod),
    *lists("var", WITH_ELEMENTS, numpy_spread(np.var), torch_spread("var")),
    *lists("std", SPREAD, numpy_spread(np.std), torch_spread("std")),
    Case("var", (A,), {"correction": 1, "axis": 1}, numpy=numpy_spread(np.var), torch=torch_spread("var")),
    Case("std", (A,), {"correction": 1.0}, numpy=numpy_spread(np.std), torch=torch_spread("std")),
    *lists("norm", WITH_ELEMENTS, numpy_norm, torch_norm),
    *[
        Case("norm", (x,), {"ord": order, **kwargs}, numpy=numpy_norm, torch=torch_norm)
        for order in (1, 3, 0.5, np.inf, -np.inf)
        for x, kwargs in WITH_ELEMENTS[1:4]
    ],
    Case("norm", (A,), {"ord": 0}, numpy=numpy_norm, torch=torch_norm),
    *lists("logsumexp", WITH_ELEMENTS, scipy.special.logsumexp, by_axes("logsumexp")),
    Case("logsumexp", (1e4 + A,), {"axis": 1}, numpy=scipy.special.logsumexp, torch=by_axes("logsumexp"), half=False),
    *own("all", np.all, None, differentiable=False),
    *own("any", np.any, None, differentiable=False),
    Case("all", (A,), {"axis": (0, 1)}, numpy=np.all, differentiable=False),
    Case("any", (A,), {"axis": (0, 1)}, numpy=np.any, differentiable=False),
    *lists("count_nonzero", QUESTIONS, np.count_nonzero, None, differentiable=False),
    *lists("count_nonzero", [(COUNTS, {}), (A, {"axis": 1})], np.count_nonzero, None, differentiable=False),
    *own("argmax", np.argmax, torch_position("argmax"), differentiable=False),
    *own("argmin", np.argmin, torch_position("argmin"), differentiable=False),
]
