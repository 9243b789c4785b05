"""check_grads: compares a function's derivatives with finite differences, in both modes, to any order, along random
directions.

For a function f at x, a random direction t and a random cotangent c:

    forward   jvp(f, x, t)           must be the central difference d of f along t
    reverse   <vjp(f, x)(c), t>      must be <c, d>

where <a, b> is the real part of the sum of conj(a) * b: real and imaginary parts of complex values move independently.
For the next order the same holds for the functions x -> jvp(f, x, t) and x -> vjp(f, x)(c). One direction is enough: a
wrong derivative agrees with it only by chance. A failure is then checked argument by argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.autodiff.numeric import central
from wengert.autodiff.transforms import jvp, vjp
from wengert.core import tree
from wengert.core.dtypes import COMPLEX, INEXACT, complex128, float64
from wengert.core.errors import ArgumentError, GradientError
from wengert.ops.core import data
from wengert.tensor import Tensor

Array = np.ndarray[Any, Any]
Flat = Callable[..., tuple[Tensor, ...]]  # a function of real and complex tensors alone that gives a tuple of such


class GradientMismatch(GradientError, AssertionError):
    """`check_grads` found a derivative that disagrees with differences of values."""


def check_grads(
    function: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("reverse", "forward"),
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
) -> None:
    """Compare the derivatives of `function` at `args` with finite differences; raises an error where they disagree.

    It checks all nestings of `modes` up to `order`, with respect to all floating-point and complex leaves of the
    arguments, converted to float64 and complex128. Other leaves are held fixed, and other results are ignored.

    >>> import wengert as wg
    >>> wg.check_grads(wg.tanh, (wg.tensor([0.5, -1.0]),), order=3)
    """
    for mode in modes:
        if mode not in ("reverse", "forward"):
            raise ArgumentError(f'check_grads: a mode must be "reverse" or "forward", not {mode!r}')
    if not isinstance(args, (tuple, list)):
        raise ArgumentError("check_grads: args must be a tuple with one entry for each argument: write (x,)")
    flat, points, names = _inexact_part(function, tuple(args))
    _Check(names, tuple(modes), eps, atol, rtol).check(flat, points, order, ())


def _inexact_part(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Flat, list[Array], list[str]]:
    """The function of its floating-point and complex leaves alone, those leaves, and what to call them."""
    leaves, structure = tree.flatten(args)
    owners = [i for i, arg in enumerate(args) for _ in tree.flatten(arg)[0]]
    places = [i for i, leaf in enumerate(leaves) if _is_inexact(leaf)]
    if not places:
        raise ArgumentError(
            "check_grads: no argument has a floating-point or complex value to differentiate with respect to"
        )
    points = [_wide(leaves[i].detach().numpy() if isinstance(leaves[i], Tensor) else leaves[i]) for i in places]
    names = [f"argument {owners[i]}" + _part(owners, i) for i in places]

    def flat(*moving: Tensor) -> tuple[Tensor, ...]:
        filled = list(leaves)
        for i, value in zip(places, moving):
            filled[i] = value
        outputs = tree.flatten(function(*tree.unflatten(structure, filled)))[0]
        found = tuple(out for out in outputs if isinstance(out, Tensor) and out.dtype in INEXACT)
        if not found:
            raise ArgumentError("check_grads: the function returns no floating-point or complex tensor")
        return found

    return flat, points, names


def _is_inexact(leaf: Any) -> bool:
    return isinstance(leaf, (float, complex)) or (hasattr(leaf, "dtype") and leaf.dtype in INEXACT)


def _wide(value: Any) -> Array:
    array = np.asarray(value)
    return array.astype(complex128 if array.dtype in COMPLEX else float64)


def _part(owners: Sequence[int], i: int) -> str:
    """Which leaf of its argument this is, where that has several."""
    return f", leaf {i - owners.index(owners[i])}" if owners.count(owners[i]) > 1 else ""


class _Check:
    """One check and what it holds fixed."""

    def __init__(self, names: list[str], modes: tuple[str, ...], eps: float, atol: float, rtol: float) -> None:
        self.names, self.modes, self.eps, self.atol, self.rtol = names, modes, eps, atol, rtol
        self.random = np.random.default_rng(0)

    def check(self, flat: Flat, points: list[Array], order: int, path: tuple[str, ...]) -> None:
        """Check `flat`, reached by taking the derivatives in `path`, and its own derivatives down to `order`."""
        tangents = [self._draw(p) for p in points]
        expected = self._difference(flat, points, tangents)
        cotangents = [self._draw(e) for e in expected]
        for mode in self.modes:
            name = f"{mode} mode, order {len(path) + 1}" + (f" (of {' of '.join(reversed(path))} mode)" if path else "")
            if mode == "forward":
                self._check_forward(name, flat, points, tangents, expected)
                derived = _pushforward(flat, tangents)
            else:
                self._check_reverse(name, flat, points, tangents, cotangents, expected)
                derived = _pullback(flat, cotangents)
            if order > 1:
                self.check(derived, points, order - 1, (*path, mode))

    def _draw(self, like: Array) -> Array:
        drawn = np.asarray(self.random.standard_normal(like.shape))
        return drawn + 1j * self.random.standard_normal(like.shape) if like.dtype in COMPLEX else drawn

    def _difference(self, flat: Flat, points: list[Array], tangents: Sequence[Array | None]) -> list[Array]:
        """The slope of each output along the tangents, by a central difference."""
        like: list[Array] = []

        def curve(t: complex) -> Array:
            moved = [p if v is None else p + t * v for p, v in zip(points, tangents)]
            values = [out.detach().numpy() for out in flat(*_tensors(moved))]
            like[:] = values
            return np.concatenate([value.ravel() for value in values])

        slopes = central(curve, self.eps)
        ends = np.cumsum([value.size for value in like])[:-1]
        parts = [part.reshape(value.shape) for part, value in zip(np.split(slopes, ends), like)]
        return [part if value.dtype in COMPLEX else part.real for part, value in zip(parts, like)]

    def _check_forward(
        self, name: str, flat: Flat, points: list[Array], tangents: list[Array], expected: list[Array]
    ) -> None:
        found = [t.detach().numpy() for t in _pushforward(flat, tangents)(*_tensors(points))]
        if all(map(self._close, found, expected)):
            return
        for i, argument in enumerate(self.names):
            alone = [t if i == j else None for j, t in enumerate(tangents)]
            wanted = self._difference(flat, points, alone)
            along = [t if i == j else np.zeros_like(t) for j, t in enumerate(tangents)]
            got = [t.detach().numpy() for t in _pushforward(flat, along)(*_tensors(points))]
            self._blame(name, argument, wanted, got)
        self._blame(name, "all arguments together", expected, found)

    def _check_reverse(
        self,
        name: str,
        flat: Flat,
        points: list[Array],
        tangents: list[Array],
        cotangents: list[Array],
        expected: list[Array],
    ) -> None:
        pulled = [c.detach().numpy() for c in _pullback(flat, cotangents)(*_tensors(points))]
        for argument, point, cotangent in zip(self.names, points, pulled):
            if cotangent.shape != point.shape:
                raise GradientMismatch(
                    f"check_grads, {name}: the cotangent of {argument} has shape {cotangent.shape}, not {point.shape}"
                )
        wanted = _inner(cotangents, expected)
        if self._close(_inner(pulled, tangents), wanted):
            return
        for i, argument in enumerate(self.names):
            alone = [t if i == j else None for j, t in enumerate(tangents)]
            slope = _inner(cotangents, self._difference(flat, points, alone))
            self._blame(name, argument, [slope], [_inner([pulled[i]], [tangents[i]])])
        self._blame(name, "all arguments together", [wanted], [_inner(pulled, tangents)])

    def _close(self, found: Array, expected: Array) -> bool:
        return np.shape(found) == np.shape(expected) and np.allclose(found, expected, self.rtol, self.atol)

    def _blame(self, name: str, argument: str, expected: list[Array], found: list[Array]) -> None:
        for i, (wanted, got) in enumerate(zip(expected, found)):
            if not self._close(got, wanted):
                result = f" of result {i}" if len(expected) > 1 else ""
                raise GradientMismatch(
                    f"check_grads, {name}, with respect to {argument}: the derivative{result} along a random "
                    "direction is\n"
                    f"  expected {np.array2string(np.asarray(wanted), threshold=20)} (difference of values)\n"
                    f"  found    {np.array2string(np.asarray(got), threshold=20)}"
                )


def _tensors(arrays: Sequence[Array]) -> list[Tensor]:
    return [Tensor(data(np.asarray(array))) for array in arrays]


def _inner(a: Sequence[Array], b: Sequence[Array]) -> Array:
    return np.asarray(sum(float(np.sum(np.conj(x) * y).real) for x, y in zip(a, b)))


def _pushforward(flat: Flat, tangents: Sequence[Array]) -> Flat:
    """The function that gives the tangents of `flat`'s results."""
    return lambda *points: jvp(flat, points, tuple(_tensors(tangents)))[1]


def _pullback(flat: Flat, cotangents: Sequence[Array]) -> Flat:
    """The function that gives the cotangents of `flat`'s arguments."""
    return lambda *points: vjp(flat, *points)[1](tuple(_tensors(cotangents)))
