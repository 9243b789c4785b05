"""A package `autograd` made of Wengert: the names that HIPS/autograd's tests import, as a plugin of pytest.

In: functions written with `autograd.numpy`. Out: values, gradients and checks as NumPy arrays, and tensors inside of
another derivative. Its convention for complex gradients is the transposed Jacobian, Wengert's the adjoint one: what
goes into and comes out of a pullback is conjugated.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
from collections.abc import Callable
from itertools import product
from types import ModuleType
from typing import Any

import numpy as np

import wengert as wg

Function = Callable[..., Any]


# --- values -----------------------------------------------------------------------------------------------------------


def lifted(value: Any) -> Any:
    """Numbers and arrays as tensors of their precision; containers leaf by leaf."""

    def leaf(x: Any) -> Any:
        if isinstance(x, (float, complex)) and not isinstance(x, (bool, np.generic)):
            return wg.tensor(x, dtype=wg.float64 if isinstance(x, float) else wg.complex128)
        if isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind in "fc":
            return wg.tensor(np.asarray(x))
        return x

    return wg.tree.map(leaf, value)


def lowered(value: Any) -> Any:
    """Tensors that nobody traces as arrays and numbers."""

    def leaf(x: Any) -> Any:
        if not isinstance(x, wg.Tensor) or is_traced(x):
            return x
        array = x.detach().numpy()
        return array[()] if array.ndim == 0 else array

    return wg.tree.map(leaf, value)


def is_traced(x: Any) -> bool:
    """Whether a derivative is being taken with respect to a value."""
    return isinstance(x, wg.Tensor) and bool(x.node.tracked or wg.graph.recording.trace is not None)


def _unary(operator: Function) -> Function:
    """An operator on functions of one argument, as one on functions of several: `argnum` says which."""

    @functools.wraps(operator)
    def of_several(fun: Function, argnum: Any = 0, *rest: Any, **settings: Any) -> Function:
        @functools.wraps(fun, updated=())
        def call(*args: Any, **kwargs: Any) -> Any:
            def of_one(x: Any) -> Any:
                given = builtins.list(args)
                for i, value in [(argnum, x)] if isinstance(argnum, int) else zip(argnum, x):
                    given[i] = value
                return fun(*given, **kwargs)

            of_one.__name__ = getattr(fun, "__name__", "function")
            x = args[argnum] if isinstance(argnum, int) else builtins.tuple(args[i] for i in argnum)
            return operator(of_one, x, *rest, **settings)

        return call

    return of_several


def _conj(value: Any) -> Any:
    return wg.tree.map(lambda x: np.conj(x) if np.iscomplexobj(x) or _is_complex(x) else x, value)


def _is_complex(x: Any) -> bool:
    return isinstance(x, wg.Tensor) and x.dtype.kind == "c"


def _pullback(fun: Function, x: Any) -> tuple[Any, Function]:
    out, back = wg.vjp(lambda v: wg.tree.map(np_result, fun(v)), lifted(x))

    def pull(v: Any) -> Any:
        like = wg.tree.map(lambda o, c: wg.asarray(c).astype(o.dtype) if isinstance(o, wg.Tensor) else c, out, v)
        found = back(_conj(like))
        return lowered(_conj(found[0] if isinstance(found, builtins.tuple) and len(found) == 1 else found))

    return out, pull


def _ones(value: Any) -> Any:
    return wg.tree.map(wg.ones_like, value)


# --- operators --------------------------------------------------------------------------------------------------------


@_unary
def make_vjp(fun: Function, x: Any) -> tuple[Function, Any]:
    out, pull = _pullback(fun, x)
    return pull, lowered(out)


@_unary
def make_jvp(fun: Function, x: Any) -> Function:
    def push(v: Any) -> Any:
        point = lifted(x)
        like = wg.tree.map(lambda p, t: wg.asarray(t).astype(p.dtype), point, lifted(v))
        return lowered(wg.jvp(fun, (point,), (like,)))

    return push


@_unary
def grad(fun: Function, x: Any) -> Any:
    out, pull = _pullback(fun, x)
    if not hasattr(out, "shape") or (out.shape not in ((), (1,)) and out.size != 1):
        raise TypeError(
            "Grad only applies to real scalar-output functions. Try jacobian, elementwise_grad or holomorphic_grad."
        )
    if _is_complex(out):
        raise TypeError(
            "Grad only applies to real scalar-output functions. Try jacobian, elementwise_grad or holomorphic_grad."
        )
    return pull(_ones(out))


@_unary
def value_and_grad(fun: Function, x: Any) -> Any:
    out, pull = _pullback(fun, x)
    if out.size != 1:
        raise TypeError("value_and_grad only applies to real scalar-output functions.")
    return lowered(out), pull(_ones(out))


@_unary
def elementwise_grad(fun: Function, x: Any) -> Any:
    out, pull = _pullback(fun, x)
    if _is_complex(out):
        raise TypeError("Elementwise_grad only applies to real-output functions.")
    return pull(_ones(out))


@_unary
def deriv(fun: Function, x: Any) -> Any:
    return make_jvp(fun)(x)(np.ones_like(lowered(x)) if not is_traced(x) else wg.ones_like(x))[1]


@_unary
def jacobian(fun: Function, x: Any) -> Any:
    out, pull = _pullback(fun, x)
    rows = [pull(np.reshape(row, out.shape)) for row in np.eye(builtins.max(out.size, 1), dtype=np.dtype(out.dtype))]
    return np.reshape(stacked(rows), out.shape + builtins.tuple(np.shape(x)))


@_unary
def holomorphic_grad(fun: Function, x: Any) -> Any:
    return grad(lambda z: np.real(fun(z)))(x)


@_unary
def hessian(fun: Function, x: Any) -> Any:
    return jacobian(jacobian(fun))(x)


@_unary
def make_hvp(fun: Function, x: Any) -> Any:
    return make_vjp(grad(fun))(x)


@_unary
def grad_and_aux(fun: Function, x: Any) -> Any:
    out, back, aux = wg.vjp(fun, lifted(x), has_aux=True)
    return lowered(back(_ones(out))), lowered(aux)


def grad_named(fun: Function, argname: str) -> Function:
    return grad(fun, builtins.list(inspect.signature(fun).parameters).index(argname))


def multigrad_dict(fun: Function) -> Function:
    parameters = inspect.signature(fun)

    def gradients(*args: Any, **kwargs: Any) -> Any:
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        given = builtins.dict(bound.arguments)

        def of_dict(values: Any) -> Any:
            again = parameters.bind(*args, **kwargs)
            again.apply_defaults()
            again.arguments.update(values)
            return fun(*again.args, **again.kwargs)

        return grad(of_dict)(given)

    return gradients


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    gradient = grad(fun, argnum)

    def against(*args: Any, **kwargs: Any) -> Any:
        *args, vector = args  # type: ignore[assignment]
        return np.tensordot(gradient(*args, **kwargs), vector, np.ndim(vector))

    return grad(against, argnum)


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    def against(*args: Any, **kwargs: Any) -> Any:
        *args, vector = args  # type: ignore[assignment]
        return np.tensordot(vector, fun(*args, **kwargs), axes=np.ndim(vector))

    return jacobian(against, argnum)


def make_ggnvp(f: Function, g: Function = lambda x: 1.0 / 2 * np.sum(x**2, axis=-1), f_argnum: int = 0) -> Function:
    @_unary
    def of_point(inner: Function, x: Any) -> Function:
        pull, out = make_vjp(inner)(x)
        curvature, _ = make_hvp(g)(out)

        def product_with(v: Any) -> Any:
            return pull(curvature(make_jvp(inner)(x)(v)[1]))

        return product_with

    return of_point(f, f_argnum)


def checkpoint(fun: Function) -> Function:
    return wg.checkpoint(fun)


OPERATORS = [
    *(make_vjp, make_jvp, grad, value_and_grad, elementwise_grad, deriv, jacobian, holomorphic_grad, hessian),
    *(make_hvp, grad_and_aux, grad_named, multigrad_dict, hessian_tensor_product, tensor_jacobian_product),
    *(make_ggnvp, checkpoint),
]

# --- checks -----------------------------------------------------------------------------------------------------------


def scalar_close(a: Any, b: Any) -> bool:
    return bool(abs(a - b) < 1e-6 or abs(a - b) / abs(a + b) < 1e-6)


def check_equivalent(x: Any, y: Any) -> None:
    wg.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), lowered(x), lowered(y))


@_unary
def check_grads(fun: Function, x: Any, modes: Any = ("fwd", "rev"), order: int = 2) -> None:
    ways = [{"fwd": "forward", "rev": "reverse"}[mode] for mode in modes or ("fwd", "rev")]
    wg.check_grads(lambda v: wg.tree.map(np_result, fun(v)), (lifted(x),), order=order, modes=ways, atol=1e-4)


def np_result(x: Any) -> Any:
    """What a function gave as a tensor, where it is a number."""
    return wg.asarray(x) if isinstance(x, (float, complex, np.ndarray, np.generic)) else x


def combo_check(fun: Function, *args: Any, **settings: Any) -> Function:
    def check(*choices: Any, **options: Any) -> None:
        named = [[(key, value) for value in values] for key, values in options.items()]
        for positional in product(*choices):
            for keywords in product(*named):
                check_grads(fun, *args, **settings)(*positional, **builtins.dict(keywords))

    return check


# --- the package ------------------------------------------------------------------------------------------------------


def stacked(value: Any, *args: Any, **kwargs: Any) -> Any:
    """`np.array`, of traced numbers too."""
    leaves = wg.tree.flatten(value)[0]
    if not any(isinstance(leaf, wg.Tensor) for leaf in leaves):
        return np.array(value, *args, **kwargs)
    if isinstance(value, wg.Tensor):
        return value
    parts = [stacked(each) for each in value]
    return wg.stack([wg.asarray(part) for part in parts])


def is_instance(value: Any, kind: Any) -> bool:
    """`isinstance`, where a tensor counts as an array, and one of a single number as a float."""
    kinds = kind if isinstance(kind, builtins.tuple) else (kind,)
    if isinstance(value, wg.Tensor) and (np.ndarray in kinds or (float in kinds and value.ndim == 0)):
        return True
    return isinstance(value, kind)


def _pulled(fun: Function, x: Any) -> tuple[Function, Any]:
    return make_vjp(fun)(x)


def _pushed(fun: Function, x: Any) -> Function:
    return make_jvp(fun)(x)


def flatten(value: Any) -> tuple[Any, Function]:
    """All numbers of nested containers as one vector, and the way back."""
    leaves, structure = wg.tree.flatten(value)
    shapes = [np.shape(leaf) for leaf in leaves]
    ends = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])

    def unflatten(vector: Any) -> Any:
        parts = [np.reshape(vector[a:b], shape) for a, b, shape in zip(ends, ends[1:], shapes)]
        return wg.tree.unflatten(structure, parts)

    vector = lowered(wg.r_[tuple(np.ravel(leaf) for leaf in leaves)]) if leaves else np.zeros(0)
    return vector, unflatten


def _absent(name: str) -> Function:
    """A name of autograd's inner workings: tests import it, and those that use it fail."""

    def call(*args: Any, **kwargs: Any) -> Any:
        raise AttributeError(f"{name} is a part of autograd that Wengert does not have")

    return call


class _Module(ModuleType):
    """A module that has a library's names where it has none of its own."""

    def __init__(self, name: str, behind: Any = None, **own: Any) -> None:
        super().__init__(name)
        self.__dict__.update(own, _behind=behind, __path__=[])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        return _absent(f"{self.__name__}.{name}") if self._behind is None else getattr(self._behind, name)


def _install() -> None:
    operators = {each.__name__: each for each in OPERATORS}
    operators["vector_jacobian_product"] = tensor_jacobian_product
    operators["hessian_vector_product"] = hessian_tensor_product
    kinds = {"isinstance": is_instance, "list": builtins.list, "tuple": builtins.tuple, "dict": builtins.dict}
    checks = {
        "check_grads": check_grads,
        "combo_check": combo_check,
        "scalar_close": scalar_close,
        "check_equivalent": check_equivalent,
    }
    numpy = _Module("autograd.numpy", np, array=stacked, r_=wg.r_, c_=wg.c_)
    parts = {
        "autograd": _Module("autograd", None, **operators, **kinds),
        "autograd.numpy": numpy,
        "autograd.numpy.random": np.random,
        "autograd.numpy.linalg": np.linalg,
        "autograd.numpy.fft": np.fft,
        "autograd.builtins": _Module("autograd.builtins", None, **kinds),
        "autograd.test_util": _Module("autograd.test_util", None, **checks),
        "autograd.tracer": _Module("autograd.tracer", None, isbox=is_traced),
        "autograd.misc": _Module("autograd.misc", None, flatten=flatten),
        "autograd.core": _Module("autograd.core", None, make_vjp=_pulled, make_jvp=_pushed),
        "autograd.extend": _Module("autograd.extend", None),
        "autograd.wrap_util": _Module("autograd.wrap_util", None, unary_to_nary=_unary),
    }
    for name, module in parts.items():
        sys.modules[name] = module
        outer, _, inner = name.rpartition(".")
        if outer and inner not in ("random", "linalg", "fft"):
            parts[outer].__dict__[inner] = module


_install()
