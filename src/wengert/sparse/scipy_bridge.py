"""`wg.scipy`: a function in the forms that SciPy's optimizers and integrators take: arrays in, arrays out.

In: a function of a vector, in Wengert. Out: an object whose methods are functions of NumPy arrays, for
`scipy.optimize.minimize`, `least_squares`, `root` and `scipy.integrate.solve_ivp`. SciPy itself is imported for the
sparse matrices only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.api.creation import tensor
from wengert.autodiff.jacobian import hessian, jacobian
from wengert.autodiff.transforms import grad, hvp, value_and_grad
from wengert.core.errors import ArgumentError
from wengert.ops.core import as_node
from wengert.runtime.static.compile import compile as compiled
from wengert.sparse.jacobian import SparseDerivative, sparse_hessian, sparse_jacobian

Array = np.ndarray[Any, Any]


class ForScipy:
    """What `wg.scipy` returns. Each method is compiled on its first call, and takes SciPy's `args` after x."""

    def __init__(self, function: Callable[..., Any], argnum: int) -> None:
        self.__wrapped__, self.argnum = function, argnum
        self._made: dict[str, Callable[..., Any]] = {}
        self._jacobian = sparse_jacobian(function, argnum)
        self._hessian = sparse_hessian(function, argnum)

    def __call__(self, *args: Any) -> Any:
        """The value: `fun`."""
        return self.fun(*args)

    def _run(self, name: str, make: Callable[[], Callable[..., Any]], args: Any) -> Any:
        if name not in self._made:
            self._made[name] = compiled(make())
        return self._made[name](*[_tensor(a) for a in args])

    def fun(self, *args: Any) -> Any:
        """The value: a float for a scalar, otherwise an array."""
        value = self._run("fun", lambda: self.__wrapped__, args)
        return value.item() if value.shape == () else value.numpy()

    def fun_and_grad(self, *args: Any) -> tuple[float, Array]:
        """The value and the gradient in one pass: for `minimize(f.fun_and_grad, x0, jac=True)`."""
        value, gradient = self._run("fun_and_grad", lambda: value_and_grad(self.__wrapped__, self.argnum), args)
        return value.item(), gradient.numpy()

    def jac(self, *args: Any) -> Array:
        """The gradient of a scalar function, or the Jacobian of a vector function in the mode that needs fewer
        passes."""
        return np.asarray(self._run("jac", lambda: self._derivative, args).numpy())

    def _derivative(self, *args: Any) -> Any:
        x = as_node(args[self.argnum])
        result = as_node(self.__wrapped__(*args))
        if result.shape == ():
            return grad(self.__wrapped__, self.argnum)(*args)
        return jacobian(self.__wrapped__, self.argnum, "forward" if x.size <= result.size else "reverse")(*args)

    def hess(self, *args: Any) -> Array:
        """The Hessian of a scalar function."""
        return np.asarray(self._run("hess", lambda: hessian(self.__wrapped__, self.argnum), args).numpy())

    def hessp(self, x: Any, p: Any, *args: Any) -> Array:
        """The product of the Hessian with p: for `minimize(..., hessp=f.hessp)`."""
        if self.argnum != 0:
            raise ArgumentError(
                "wg.scipy: hessp differentiates with respect to the first argument, because SciPy passes the vector "
                "after it"
            )

        def product(x: Any, p: Any, *args: Any) -> Any:
            return hvp(lambda x: self.__wrapped__(x, *args), (x,), (p,))

        return np.asarray(self._run("hessp", lambda: product, (x, p, *args)).numpy())

    def sparse_jac(self, *args: Any) -> Any:
        """The Jacobian as a CSR array: for `least_squares`, and `solve_ivp` with an implicit method."""
        return self._sparse("sparse_jac", self._jacobian, args)

    def sparse_hess(self, *args: Any) -> Any:
        """The Hessian of a scalar function as a CSR array: for `minimize` with method "trust-constr"."""
        return self._sparse("sparse_hess", self._hessian, args)

    def _sparse(self, name: str, derivative: SparseDerivative, args: Any) -> Any:
        """Compiled, unless the structure depends on indices among the arguments: it is read off anew for those."""
        if any(isinstance(a, np.ndarray) and a.dtype.kind not in "fc" for a in args):
            return derivative(*map(_tensor, args))
        return self._run(name, lambda: derivative.csr, args).toscipy()

    def sparsity(self, *args: Any) -> Any:
        """The entries of the Jacobian that may be nonzero: for `jac_sparsity`."""
        return self._jacobian.structure(*map(_tensor, args))


def _tensor(a: Any) -> Any:
    """An array from SciPy as a Tensor with a copy of it, as SciPy writes to its arrays; other arguments stay."""
    return tensor(a) if isinstance(a, np.ndarray) else a


def scipy(function: Callable[..., Any], argnum: int = 0) -> ForScipy:
    """`function` in the forms SciPy takes: `fun`, `fun_and_grad`, `jac`, `hess`, `hessp`, `sparse_jac`, `sparse_hess`.

    All are compiled functions of NumPy arrays. `argnum` is the argument to differentiate with respect to: 1 for the
    right-hand side f(t, y) of an ODE.

    >>> import numpy as np
    >>> import wengert as wg
    >>> from scipy.optimize import minimize
    >>> f = wg.scipy(lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())
    >>> minimize(f.fun_and_grad, np.zeros(3), jac=True, hessp=f.hessp, method="trust-ncg").x.round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    if not callable(function):
        raise ArgumentError(f"wg.scipy takes a function, not a {type(function).__name__}")
    return ForScipy(function, argnum)
