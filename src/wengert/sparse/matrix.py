"""Sparse matrices as values: `csr`, products with dense tensors, and `spsolve`.

A `CSR` has its values as a tensor and where they stand as a part of the program (`Sparsity`). It is a container: every
transform takes and gives it, and a gradient with respect to it is a matrix with entries in the same places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wengert.api import functions as fn
from wengert.api.creation import tensor
from wengert.core.dtypes import INEXACT, promote
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.ops.core import as_node, operands
from wengert.ops.movement import reshape
from wengert.ops.sparse import CSR_PRODUCT, SPARSE_SOLVE, Sparsity, scipy_sparse
from wengert.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class CSR:
    """A matrix that stores only some entries: `data` has them row by row. Made by `csr`.

    >>> import numpy as np, wengert as wg
    >>> matrix = wg.sparse.csr(np.array([[2.0, 0.0], [0.0, 3.0]]))
    >>> matrix.shape, matrix.data.tolist(), (matrix @ wg.tensor([1.0, 1.0])).tolist()
    ((2, 2), [2.0, 3.0], [2.0, 3.0])
    """

    data: Tensor
    sparsity: Sparsity = field(metadata={"static": True})
    __array_ufunc__ = None  # `array @ matrix` asks the matrix

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.sparsity.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the values."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """How many entries are kept."""
        return self.sparsity.count

    @property
    def T(self) -> CSR:
        """The transpose, in rows again."""
        turned, order = _transposed(self.sparsity)
        return CSR(self.data[order], turned)

    def __matmul__(self, dense: Any) -> Tensor:
        return self._times(dense, transposed=False)

    def __rmatmul__(self, dense: Any) -> Tensor:
        node = as_node(dense)
        if node.ndim != 1:
            return fn.matrix_transpose(self._times(fn.matrix_transpose(Tensor(node)), transposed=True))
        return self._times(dense, transposed=True)

    def _times(self, dense: Any, transposed: bool) -> Tensor:
        if isinstance(dense, CSR):
            raise DTypeError(
                "a product of two sparse matrices is not a CSR of a known structure; make one of them dense"
            )
        data, columns = operands(self.data, dense)
        inner = self.shape[int(not transposed)]
        if columns.ndim not in (1, 2) or columns.shape[0] != inner:
            of = "transposed " if transposed else ""
            raise ShapeError(f"a {of}sparse matrix of shape {self.shape} times a dense value of shape {columns.shape}")
        whole = columns if columns.ndim == 2 else reshape(columns, (inner, 1))
        meet = promote(data.dtype, whole.dtype)
        found = CSR_PRODUCT(
            Tensor(data).to(meet).node, Tensor(whole).to(meet).node, sparsity=self.sparsity, transposed=transposed
        )
        return Tensor(found if columns.ndim == 2 else reshape(found, found.shape[:1]))

    def __mul__(self, factor: Any) -> CSR:
        if isinstance(factor, CSR) or as_node(factor).shape != ():
            raise ShapeError("a sparse matrix is multiplied by a number; for others use @, or A.with_data(...)")
        return self.with_data(self.data * factor)

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> CSR:
        return self * (1 / factor)

    def __neg__(self) -> CSR:
        return self.with_data(-self.data)

    def __add__(self, other: Any) -> CSR:
        if not isinstance(other, CSR):
            return NotImplemented
        if self.sparsity is other.sparsity:
            return CSR(self.data + other.data, self.sparsity)
        union, places = _union(self.sparsity, other.sparsity)
        dtype = promote(self.dtype, other.dtype)
        total = fn.zeros(union.count, dtype=dtype)
        for part, where in zip((self, other), places):
            total = fn.index_add(total, 0, where, part.data.to(dtype))
        return CSR(total, union)

    def __sub__(self, other: Any) -> CSR:
        return self + (-other) if isinstance(other, CSR) else NotImplemented

    def with_data(self, data: Any) -> CSR:
        """A matrix with other values in the same places."""
        values = Tensor(as_node(data))
        if values.shape != (self.nnz,):
            raise ShapeError(f"{self.nnz} entries have values of shape ({self.nnz},), not {values.shape}")
        return CSR(values, self.sparsity)

    def diagonal(self) -> Tensor:
        """The diagonal, with 0 where it has no entry."""
        s, n = self.sparsity, min(self.shape)
        on = np.flatnonzero(s.rows == s.columns)
        return fn.index_add(fn.zeros(n, dtype=self.dtype), 0, s.rows[on], self.data[on])

    def todense(self) -> Tensor:
        """The matrix with all its elements."""
        s, (m, n) = self.sparsity, self.shape
        flat = s.rows.astype(np.int64) * n + s.columns
        return fn.reshape(fn.index_add(fn.zeros(m * n, dtype=self.dtype), 0, flat, self.data), (m, n))

    def toscipy(self) -> Any:
        """SciPy's CSR array of the values as they are now."""
        s = self.sparsity
        parts = (self.data.numpy().copy(), s.columns.copy(), s.starts.copy())
        return scipy_sparse().csr_array(parts, shape=self.shape)

    def __repr__(self) -> str:
        return f"CSR(shape={self.shape}, nnz={self.nnz}, dtype={self.dtype})"


def _transposed(sparsity: Sparsity) -> tuple[Sparsity, np.ndarray[Any, Any]]:
    """The sparsity of the transpose, and for each of its entries which one it is."""
    numbered = sparsity.matrix(np.arange(1, sparsity.count + 1)).T.tocsr()
    numbered.sort_indices()
    return Sparsity.of(numbered.shape, numbered.indptr, numbered.indices), numbered.data - 1


def _union(a: Sparsity, b: Sparsity) -> tuple[Sparsity, list[np.ndarray[Any, Any]]]:
    """The sparsity that has the entries of both, and where they are in it."""
    if a.shape != b.shape:
        raise ShapeError(f"two sparse matrices of shapes {a.shape} and {b.shape} cannot be added")
    keys = [s.rows.astype(np.int64) * s.shape[1] + s.columns for s in (a, b)]
    both = np.union1d(*keys)
    starts = np.searchsorted(both, np.arange(a.shape[0] + 1, dtype=np.int64) * a.shape[1])
    return Sparsity.of(a.shape, starts, both % max(a.shape[1], 1)), [np.searchsorted(both, one) for one in keys]


def csr(matrix: Any, shape: Sequence[int] | None = None) -> CSR:
    """A sparse matrix as a value: of a SciPy matrix, of `(data, indices, indptr)`, or of a dense matrix's nonzeros.

    Where the entries stand is a part of the program, as shapes are; their values `data` are a tensor. `A @ x` takes a
    vector or a matrix, and so does `x @ A`; there are `A.T`, sums, multiples, `A.diagonal()`, `A.todense()` and
    `spsolve(A, b)`. Products and solutions have derivatives with respect to the values and the dense operand in both
    modes and to any order, and map over lanes of either. They run on the host, by SciPy.

    Of `(data, indices, indptr)`, `data` may be a tensor of a graph, and `shape` is needed where the last columns are
    empty; entries of one place are not added up.

    >>> import wengert as wg
    >>> a = wg.sparse.csr(([1.0, 2.0, 3.0], [0, 1, 1], [0, 2, 3]))
    >>> (a @ wg.tensor([1.0, 10.0])).tolist(), a.T
    ([21.0, 30.0], CSR(shape=(2, 2), nnz=3, dtype=float32))
    >>> wg.grad(lambda a: (a @ wg.tensor([1.0, 10.0])).sum())(a).data.tolist()
    [1.0, 10.0, 10.0]
    """
    if isinstance(matrix, CSR):
        return matrix
    if isinstance(matrix, tuple):
        return _of_parts(matrix, shape)
    given = matrix.numpy() if isinstance(matrix, Tensor) else matrix
    if not hasattr(given, "tocsr") and np.ndim(given) != 2:
        raise ShapeError(f"csr takes a matrix, or (data, indices, indptr); the shape is {np.shape(given)}")
    found = scipy_sparse().csr_array(given)
    found.sum_duplicates()
    found.sort_indices()
    data = tensor(found.data)
    return CSR(data if data.dtype in INEXACT else data.to(np.dtype(np.float32)), _sparsity(found))


def _sparsity(found: Any) -> Sparsity:
    return Sparsity.of(found.shape, found.indptr, found.indices)


def _of_parts(parts: tuple[Any, ...], shape: Sequence[int] | None) -> CSR:
    if len(parts) != 3:
        raise ArgumentError(f"csr takes (data, indices, indptr), not {len(parts)} values")
    data = parts[0] if isinstance(parts[0], Tensor) else tensor(parts[0])
    columns, starts = (np.asarray(p.numpy() if isinstance(p, Tensor) else p, np.int64) for p in parts[1:])
    rows = len(starts) - 1
    size = (rows, int(columns.max(initial=-1)) + 1) if shape is None else (int(shape[0]), int(shape[1]))
    right = starts.ndim == columns.ndim == 1 and rows == size[0] and starts[0] == 0 and starts[-1] == columns.size
    if not right or np.any(np.diff(starts) < 0) or data.shape != columns.shape:
        raise ShapeError(
            f"csr: data of shape {data.shape}, indices {columns.shape} and indptr {starts.shape} make no matrix of "
            f"shape {size}: indptr goes from 0 up to the number of entries, and has one number more than there are rows"
        )
    if columns.size and not 0 <= columns.min() <= columns.max() < size[1]:
        raise ShapeError(f"csr: columns from {columns.min()} to {columns.max()} in a matrix of shape {size}")
    keys = np.repeat(np.arange(rows), np.diff(starts)) * max(size[1], 1) + columns
    order = np.argsort(keys, kind="stable")
    if np.any(np.diff(keys[order]) == 0):
        raise ArgumentError("csr: two entries stand in one place; add them up before")
    if data.dtype not in INEXACT:
        data = data.to(np.dtype(np.float32))
    in_order = bool(np.all(order == np.arange(order.size)))
    return CSR(data if in_order else data[order], Sparsity.of(size, starts, columns[order]))


def eye(n: int, dtype: Any = np.float32) -> CSR:
    """The identity.

    >>> import wengert as wg
    >>> wg.sparse.eye(2).todense().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return CSR(fn.ones(n, dtype=np.dtype(dtype)), Sparsity.of((n, n), np.arange(n + 1), np.arange(n)))


def spsolve(matrix: Any, b: Any) -> Tensor:
    """The x with `matrix @ x = b`, for a vector or the columns of a matrix, by a sparse LU factorisation (SuperLU).

    A singular matrix raises `LinearAlgebraError` when x is looked at. x has derivatives with respect to the values and
    to `b`, in both modes and to any order; each takes further systems with the same factors.

    >>> import wengert as wg
    >>> a = wg.sparse.csr(wg.tensor([[2.0, 1.0], [0.0, 4.0]]))
    >>> wg.sparse.spsolve(a, wg.tensor([4.0, 8.0])).tolist()
    [1.0, 2.0]
    """
    return solved(csr(matrix), b, checked=True)


def solved(matrix: CSR, b: Any, checked: bool) -> Tensor:
    """`spsolve`; unless it is checked, a singular matrix gives NaN."""
    right = Tensor(as_node(b))
    n = matrix.shape[0]
    if matrix.shape != (n, n):
        raise ShapeError(f"spsolve takes a square matrix; its shape is {matrix.shape}")
    if right.ndim not in (1, 2) or right.shape[0] != n:
        raise ShapeError(f"spsolve: a matrix of shape {matrix.shape} with a right side of shape {right.shape}")
    dtype = promote(matrix.dtype, right.dtype)
    columns = fn.reshape(right, (n, 1)) if right.ndim == 1 else right
    found = SPARSE_SOLVE(
        matrix.data.to(dtype).node,
        columns.to(dtype).node,
        sparsity=matrix.sparsity,
        transposed=False,
        checked=checked,
    )
    return fn.reshape(Tensor(found), right.shape)
