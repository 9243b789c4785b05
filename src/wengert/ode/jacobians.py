"""The Jacobian within an implicit step: dense, or sparse from as many products as its structure has colours.

In: the slope as a function of a vector, and where. Out: `Linearized`, which for a number s gives what solves systems of
I - s J. The structure is read off the slope's graph, or given by the user.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg
from wengert import Tensor
from wengert.autodiff import body as bodies
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import has_array
from wengert.ode.factored import factored
from wengert.ops.sparse import Sparsity, scipy_sparse
from wengert.sparse import coloring
from wengert.sparse.matrix import CSR, eye, solved
from wengert.sparse.structure import structure_of

Vector = Callable[[Tensor], Tensor]
Linearized = Callable[[Tensor], Vector]
Jacobian = Callable[[Vector, Tensor], Linearized]


def dense(function: Vector, at: Tensor) -> Linearized:
    """By forward mode along every axis, and an LU factorisation."""
    matrix = wg.jacobian(function, mode="forward")(at)
    unit = wg.eye(at.shape[0], dtype=at.dtype)
    return lambda scale: factored(unit - scale * matrix)


def sparse(given: Any = None) -> Jacobian:
    """By a product for each colour, and a sparse LU factorisation; `given` is the structure where it is known."""

    def linearized(function: Vector, at: Tensor) -> Linearized:
        pattern = _read(function, at) if given is None else given
        n = at.shape[0]
        if pattern.shape != (n, n):
            raise ShapeError(
                f"ode.solve: jacobian= is a structure of shape {pattern.shape} for a state of {n} elements"
            )
        colors = coloring.column_colors(pattern)
        sparsity = Sparsity.of((n, n), pattern.indptr, pattern.indices)
        if coloring.count(colors) == 0:
            entries = wg.zeros(0, dtype=at.dtype)
        else:
            seeds = wg.tensor(coloring.seeds(colors, at.dtype))
            products = wg.vmap(lambda seed: wg.jvp(function, (at,), (seed,))[1])(seeds)
            entries = products[colors[sparsity.columns], sparsity.rows]
        matrix, unit = CSR(entries, sparsity), eye(n, at.dtype)

        def scaled(scale: Tensor) -> Vector:
            whole = unit - matrix * scale
            return lambda right: solved(whole, right, checked=False)

        return scaled

    return linearized


def _read(function: Vector, at: Tensor) -> Any:
    """The structure, off the function's graph."""
    graph, constants = bodies.close(bodies.record("ode.solve", function, (at,)).graph)
    return structure_of(graph, [np.asarray(c.buffer) if has_array(c) else None for c in constants])


def chosen(jacobian: Any) -> Jacobian:
    """What a user asks for: "dense", "sparse", or a structure."""
    if isinstance(jacobian, str):
        if jacobian not in ("dense", "sparse"):
            raise ArgumentError(f'ode.solve: jacobian is "dense", "sparse" or a sparse structure, not {jacobian!r}')
        return dense if jacobian == "dense" else sparse()
    pattern = scipy_sparse().csr_array(jacobian).astype(bool)
    pattern.sum_duplicates()
    pattern.sort_indices()
    return sparse(pattern)
