"""`torch.sparse`: matrices that store only some elements, with their indices (COO) or compressed rows (CSR).

The product of a sparse matrix with a dense one gathers rows and adds them, and so does its gradient. Any other function
sees such a tensor as the dense one that it represents.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

import wengert as wg
from wengert.core.graph import Node
from wengert.torch.misc import sparse_coo, sparse_csr
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.registry import functions, methods
from wengert.torch.tensor import Base, Tensor, of


class SparseTensor(Tensor):
    """Values, and their indices in a tensor of zeros."""

    def __init__(self, indices: Any, values: Any, size: Any, is_coalesced: bool = False, is_rows: bool = False) -> None:
        self._indices, self._values = of(indices, wg.int64), of(values)
        self._size = tuple(int(n) for n in size)
        self._is_coalesced, self._is_rows = is_coalesced, is_rows
        self._grad = None
        self._taken_from = None

    @property
    def node(self) -> Node:
        """The dense tensor that it stands for."""
        return self.to_dense().node

    @node.setter
    def node(self, node: Node) -> None:
        raise RuntimeError("a sparse tensor cannot be modified in place; create another with torch.sparse_coo_tensor")

    def to_dense(self, *args: Any, **kwargs: Any) -> Tensor:
        """The tensor with all its elements; values of one place are added up."""
        ndim = self.sparse_dim()
        rest = self._size[ndim:]
        flat = _flat(self._indices, self._size[:ndim])
        zeros = wg.zeros((int(np.prod(self._size[:ndim])), *rest), dtype=self._values.node.dtype)
        return of(wg.reshape(wg.index_add(zeros, 0, flat, self._values), self._size))

    @property
    def layout(self) -> Any:
        """How the elements are kept."""
        return sparse_csr if self._is_rows else sparse_coo

    is_sparse = property(lambda self: not self._is_rows)
    is_sparse_csr = property(lambda self: self._is_rows)
    requires_grad = property(lambda self: self._values.node.tracked)

    def sparse_dim(self) -> int:
        """How many axes are sparse."""
        return int(self._indices.node.shape[0])

    def dense_dim(self) -> int:
        """How many axes each value has."""
        return self._values.node.ndim - 1

    def indices(self) -> Tensor:
        """The indices of the values, one row per axis."""
        if not self._is_coalesced and not self._is_rows:
            raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
        return self._indices

    def values(self) -> Tensor:
        """The values."""
        if not self._is_coalesced and not self._is_rows:
            raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
        return self._values

    def crow_indices(self) -> Tensor:
        """Where each row begins."""
        counts = wg.bincount(self._indices[0], minlength=self._size[0])
        return of(wg.concat([wg.zeros(1, dtype=wg.int64), wg.cumsum(counts, axis=0)]), wg.int64)

    def col_indices(self) -> Tensor:
        """The column of each value."""
        return of(self._indices[1])

    def _nnz(self) -> int:
        return int(self._values.node.shape[0])

    def is_coalesced(self) -> bool:
        """Whether each place is there once, in order."""
        return self._is_coalesced

    def coalesce(self) -> SparseTensor:
        """The same with each place once, in order."""
        if self._is_coalesced:
            return self
        flat = np.asarray(_flat(self._indices, self._size[: self.sparse_dim()]))
        places, which = np.unique(flat, return_inverse=True)
        shape = (len(places), *self._values.node.shape[1:])
        zeros = wg.zeros(shape, dtype=self._values.node.dtype)
        values = wg.index_add(zeros, 0, wg.tensor(which.reshape(-1)), self._values)
        indices = np.array(np.unravel_index(places, self._size[: self.sparse_dim()]))
        return SparseTensor(of(wg.tensor(indices)), of(values), self._size, True)

    def t(self) -> SparseTensor:
        """The transposed matrix."""
        return SparseTensor(of(wg.flip(self._indices, axis=0)), self._values, self._size[::-1])

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """Two axes exchanged."""
        order = list(range(len(self._size)))
        order[dim0], order[dim1] = order[dim1], order[dim0]
        size = [self._size[axis] for axis in order]
        indices = wg.stack([self._indices[axis] for axis in order[: self.sparse_dim()]])
        return SparseTensor(of(indices), self._values, size)

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """The values in another dtype or on another device."""
        return SparseTensor(
            self._indices, self._values.to(*args, **kwargs), self._size, self._is_coalesced, self._is_rows
        )

    def float(self) -> SparseTensor:
        """The values in float32."""
        return self.to(wg.float32)

    def to_sparse_coo(self) -> SparseTensor:
        """The places of the values, an index an axis."""
        return SparseTensor(self._indices, self._values, self._size, self._is_coalesced)

    to_sparse = coalesce

    def to_sparse_csr(self) -> SparseTensor:
        """The places of the values, by rows."""
        ordered = self.coalesce()
        return SparseTensor(ordered._indices, ordered._values, self._size, True, True)

    def __matmul__(self, other: Any) -> Any:
        return mm(self, other)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (int, float)) or (isinstance(other, Base) and not other.node.shape):
            return SparseTensor(self._indices, self._values * other, self._size, self._is_coalesced, self._is_rows)
        return self.to_dense() * other

    __rmul__ = __mul__

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        size = f"size={self._size}, nnz={self._nnz()}, layout={self.layout}"
        return f"tensor(indices={self._indices!r},\n       values={self._values!r},\n       {size})"


def _flat(indices: Any, size: tuple[int, ...]) -> Any:
    """The places counted in one row."""
    flat = wg.zeros((indices.node.shape[1],), dtype=wg.int64)
    for axis, n in enumerate(size):
        flat = flat * n + indices[axis]
    return flat


def sparse_coo_tensor(
    indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """A tensor of zeros but for values at places: `indices` has a row an axis and a column a value."""
    places, numbers = of(indices, wg.int64), of(values, dtype)
    if places.node.ndim == 1:
        places = of(wg.reshape(places, (1, -1)))
    if size is None:
        most = np.asarray(places).max(1) + 1 if places.node.size else np.zeros(places.node.shape[0], int)
        size = (*most.tolist(), *numbers.node.shape[1:])
    if requires_grad:
        numbers.requires_grad = True
    return SparseTensor(places, numbers, size, bool(is_coalesced))


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, **options: Any
) -> SparseTensor:
    """A matrix of zeros but for values at columns of rows, which begin at `crow_indices`."""
    starts, columns = np.asarray(of(crow_indices)), of(col_indices, wg.int64)
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    if size is None:
        size = (len(starts) - 1, int(np.asarray(columns).max()) + 1)
    indices = of(wg.stack([wg.tensor(rows.astype(np.int64)), columns]))
    return SparseTensor(indices, of(values, dtype), size, True, True)


def mm(mat1: Any, mat2: Any, reduce: str = "sum") -> Any:
    """The product of a sparse matrix and a dense one."""
    if not isinstance(mat1, SparseTensor) or mat1.sparse_dim() != 2:
        return wg.matmul(mat1, mat2)
    if mat1._size[1] != mat2.node.shape[0]:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({mat1._size} and {tuple(mat2.node.shape)})")
    rows, columns = mat1._indices[0], mat1._indices[1]
    vector = mat2.node.ndim == 1
    dense = wg.expand_dims(mat2, -1) if vector else mat2
    terms = wg.take(dense, columns, axis=0) * wg.expand_dims(mat1._values, -1)
    zeros = wg.zeros((mat1._size[0], dense.node.shape[1]), dtype=terms.node.dtype)
    result = of(wg.index_add(zeros, 0, rows, terms))
    return of(result[:, 0]) if vector else result


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1, alpha: float = 1) -> Any:
    """`beta * mat + alpha * mat1 @ mat2` with a sparse `mat1`."""
    return mat * beta + mm(mat1, mat2) * alpha


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """The sum of the elements, or along axes."""
    if dim is None and isinstance(input, SparseTensor):
        return of(wg.sum(input._values))
    return of(wg.sum(input, axis=dim))


def softmax(input: Any, dim: int, *, dtype: Any = None) -> SparseTensor:
    """The softmax of the values that are there, along the rows of a matrix."""
    whole = input.coalesce()
    along = whole._indices[1 - dim % 2]
    count = whole._size[1 - dim % 2]
    exponentials = wg.exp(whole._values - wg.max(whole._values))
    totals = wg.index_add(wg.zeros((count,), dtype=exponentials.dtype), 0, along, exponentials)
    return SparseTensor(whole._indices, of(exponentials / wg.take(totals, along, axis=0)), whole._size, True)


def to_sparse(self: Any, *args: Any, **kwargs: Any) -> SparseTensor:
    """The nonzero elements, with their indices."""
    places = np.array(np.nonzero(np.asarray(Base.detach(self))))
    return SparseTensor(of(wg.tensor(places)), self[tuple(wg.tensor(row) for row in places)], self.node.shape, True)


def _with_sparse(name: str) -> Callable[..., Any]:
    """A product that takes the sparse way where its first matrix is sparse."""
    dense = functions[name]

    @wraps(dense)
    def product(input: Any, mat2: Any, *args: Any, **kwargs: Any) -> Any:
        return mm(input, mat2) if isinstance(input, SparseTensor) else dense(input, mat2, *args, **kwargs)

    return product


for _name in ("mm", "matmul", "mv"):
    functions[_name] = methods[_name] = _with_sparse(_name)
functions["spmm"] = functions["hspmm"] = mm
functions["sparse_coo_tensor"], functions["sparse_csr_tensor"] = sparse_coo_tensor, sparse_csr_tensor
methods["to_sparse"] = methods["to_sparse_coo"] = to_sparse
methods["to_dense"] = lambda self, *args, **kwargs: self
methods["is_sparse"] = property(lambda self: False)


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.sparse", name)
