"""An LU factorisation that is reused inside a loop.

Matrices of up to 6 rows are eliminated element by element, with partial pivoting: then the whole step is arithmetic,
which is compiled into the loop, and a thread of a GPU or a vector's lane may do it. Larger ones go through `wg.linalg`.
"""

from __future__ import annotations

from collections.abc import Callable

import wengert as wg
from wengert import Tensor

SMALL = 6
"""Rows up to which a matrix is eliminated element by element: about rows^3 operations are recorded."""


def factored(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    """What solves systems of this matrix, which is factorised once."""
    if matrix.shape[0] <= SMALL:
        return _by_elements(matrix)
    factors = wg.linalg.lu_factor(matrix)
    return lambda right: wg.linalg.lu_solve(factors, right[:, None])[:, 0]


def _by_elements(matrix: Tensor) -> Callable[[Tensor], Tensor]:
    n = matrix.shape[0]
    rows = [[matrix[i, j] for j in range(n)] for i in range(n)]
    work: list[tuple[int, int, Tensor, Tensor]] = []  # the rows, whether they change places, and the multiplier
    for k in range(n):
        for i in range(k + 1, n):
            swaps = abs(rows[i][k]) > abs(rows[k][k])
            upper = [wg.where(swaps, b, a) for a, b in zip(rows[k], rows[i])]
            lower = [wg.where(swaps, a, b) for a, b in zip(rows[k], rows[i])]
            # a column of zeros gives 0 / 0 = NaN, which the step's error test sees
            factor = lower[k] / upper[k]
            rows[k], rows[i] = upper, [b if j <= k else b - factor * a for j, (a, b) in enumerate(zip(upper, lower))]
            work.append((k, i, swaps, factor))

    def solve(right: Tensor) -> Tensor:
        x = [right[i] for i in range(n)]
        for k, i, swaps, factor in work:
            upper, lower = wg.where(swaps, x[i], x[k]), wg.where(swaps, x[k], x[i])
            x[k], x[i] = upper, lower - factor * upper
        for i in reversed(range(n)):
            for j in range(i + 1, n):
                x[i] = x[i] - rows[i][j] * x[j]
            x[i] = x[i] / rows[i][i]
        return wg.stack(x)

    return solve
