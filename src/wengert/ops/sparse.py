"""Products and systems with sparse matrices: their values are operands, where they stand is an attribute.

In: the values of a matrix in the order of its rows (CSR), dense columns, and the matrix's `Sparsity`. Out: columns, or
one value for each entry. The references are SciPy's, compiled loops and SuperLU, on the host.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from wengert.core.errors import ArgumentError
from wengert.core.graph import Node
from wengert.ops.elementwise import conjugate, negative
from wengert.ops.facts import product_flops
from wengert.ops.movement import moveaxis, reshape
from wengert.ops.op import Op, count_lanes, each_batched

Array = Any


def scipy_sparse() -> Any:
    """`scipy.sparse`, imported now."""
    try:
        import scipy.sparse
        import scipy.sparse.linalg
    except ImportError:
        raise ArgumentError("sparse matrices are SciPy's, and SciPy is not installed: pip install scipy") from None
    return scipy.sparse


class Sparsity:
    """Where the entries of a sparse matrix stand: row by row, columns in order, none twice. Equal ones are one object.

    >>> Sparsity.of((2, 2), [0, 1, 2], [0, 1])
    Sparsity((2, 2), 2 entries)
    """

    _known: ClassVar[WeakValueDictionary[Any, Sparsity]] = WeakValueDictionary()

    def __init__(self, shape: tuple[int, int], starts: Array, columns: Array) -> None:
        self.shape, self.starts, self.columns = shape, starts, columns
        self.rows = np.repeat(np.arange(shape[0], dtype=columns.dtype), np.diff(starts))
        self._factors: tuple[Array, Any] | None = None
        self._repeated: dict[int, Sparsity] = {}

    @classmethod
    def of(cls, shape: Sequence[int], starts: Any, columns: Any) -> Sparsity:
        """The sparsity with these numbers; rows must be in order already."""
        size = int(shape[0]), int(shape[1])
        starts, columns = np.asarray(starts, np.int32), np.asarray(columns, np.int32)
        key = size, hashlib.blake2b(starts.tobytes() + b"|" + columns.tobytes(), digest_size=16).digest()
        found = cls._known.get(key)
        if found is None:
            found = cls._known[key] = cls(size, starts.copy(), columns.copy())
            found.starts.flags.writeable = found.columns.flags.writeable = False
        return found

    def __reduce__(self) -> Any:
        return Sparsity.of, (self.shape, self.starts, self.columns)

    def __repr__(self) -> str:
        return f"Sparsity({self.shape}, {self.count} entries)"

    @property
    def count(self) -> int:
        """How many entries there are."""
        return int(self.columns.size)

    def matrix(self, data: Array) -> Any:
        """SciPy's CSR array with these values, which it shares."""
        return scipy_sparse().csr_array((data, self.columns, self.starts), shape=self.shape)

    def repeated(self, lanes: int) -> Sparsity:
        """That of so many such matrices along a diagonal."""
        if lanes not in self._repeated:
            (rows, columns), steps = self.shape, np.arange(lanes)[:, None]
            starts = np.append((self.starts[:-1] + steps * self.count).ravel(), lanes * self.count)
            blocks = (self.columns + steps * columns).ravel()
            self._repeated[lanes] = Sparsity.of((lanes * rows, lanes * columns), starts, blocks)
        return self._repeated[lanes]

    def factors(self, data: Array) -> Any:
        """SuperLU's factors. The last ones are kept: systems with one matrix follow each other, gradients too."""
        kept = self._factors
        if kept is None or kept[0].dtype != data.dtype or not np.array_equal(kept[0], data):
            linalg = scipy_sparse().linalg
            try:
                found = linalg.splu(self.matrix(data).tocsc())
            except RuntimeError as error:
                n, text = self.shape[0], str(error)
                raise np.linalg.LinAlgError(
                    f"the sparse {n} x {n} matrix is singular" if "singular" in text else f"SuperLU: {text}"
                ) from None
            kept = self._factors = (data.copy(), found)
        return kept[1]


# --- products -------------------------------------------------------------------------------------------------------


def _product_numpy(data: Array, dense: Array, sparsity: Sparsity, transposed: bool) -> Array:
    matrix = sparsity.matrix(data)
    return (matrix.T if transposed else matrix) @ dense


def _in_columns(op: Op, data: Node, dense: Node, attrs: dict[str, Any]) -> Node:
    """Lanes of columns for one matrix: all of them are its columns."""
    lanes, n, k = dense.shape
    found = op(data, reshape(moveaxis(dense, 0, 1), (n, lanes * k)), **attrs)
    return moveaxis(reshape(found, (found.shape[0], lanes, k)), 1, 0)


def _in_blocks(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    """Lanes of matrices: they are the blocks of one."""
    lanes = count_lanes(sources, batched)
    flat = [reshape(s, (lanes * s.shape[1], *s.shape[2:])) for s in each_batched(sources, batched, lanes)]
    found = y.op(*flat, **{**y.attrs, "sparsity": y.attrs["sparsity"].repeated(lanes)})
    return reshape(found, (lanes, found.shape[0] // lanes, *found.shape[1:]))


def _over_lanes(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    if batched[0]:
        return _in_blocks(y, sources, batched)
    return _in_columns(y.op, sources[0], sources[1], y.attrs)


def _samples() -> Any:
    rng = np.random.default_rng(97)
    general, square = Sparsity.of((3, 4), [0, 2, 2, 5], [0, 2, 0, 1, 3]), _square()
    return rng, general, square


def _square() -> Sparsity:
    return Sparsity.of((3, 3), [0, 2, 4, 6], [0, 1, 1, 2, 0, 2])


def _product_samples() -> Any:
    rng, general, _ = _samples()
    for transposed, rows in ((False, 4), (True, 3)):
        yield (rng.normal(size=5), rng.normal(size=(rows, 2))), {"sparsity": general, "transposed": transposed}
    yield (
        (rng.normal(size=0), rng.normal(size=(4, 1))),
        {
            "sparsity": Sparsity.of((2, 4), [0, 0, 0], []),
            "transposed": False,
        },
    )


CSR_PRODUCT: Op = Op(
    "csr_product",
    infer=lambda data, dense, sparsity, transposed: ((sparsity.shape[int(transposed)], dense.shape[1]), data.dtype),
    numpy=_product_numpy,
    vjp=(
        lambda g, y, data, dense: _by_data(y, g, dense),
        lambda g, y, data, dense: CSR_PRODUCT(
            conjugate(data), g, sparsity=y.attrs["sparsity"], transposed=not y.attrs["transposed"]
        ),
    ),
    multilinear=(0, 1),
    complex=True,
    batch=_over_lanes,
    expensive=True,
    precision="low",
    can_fail=False,
    flops=lambda node: product_flops(node.sources[0].size, (node.shape[1],)),
    samples=_product_samples,
)


def _by_data(y: Node, g: Node, dense: Node) -> Node:
    a, b = (conjugate(dense), g) if y.attrs["transposed"] else (g, conjugate(dense))
    return SAMPLED_PRODUCT(a, b, sparsity=y.attrs["sparsity"])


def _sampled_samples() -> Any:
    rng, general, _ = _samples()
    yield (rng.normal(size=(3, 2)), rng.normal(size=(4, 2))), {"sparsity": general}


SAMPLED_PRODUCT: Op = Op(
    "sampled_product",
    infer=lambda a, b, sparsity: ((sparsity.count,), a.dtype),
    numpy=lambda a, b, sparsity: np.einsum("ij,ij->i", a[sparsity.rows], b[sparsity.columns]),
    vjp=(
        lambda g, y, a, b: CSR_PRODUCT(g, conjugate(b), sparsity=y.attrs["sparsity"], transposed=False),
        lambda g, y, a, b: CSR_PRODUCT(g, conjugate(a), sparsity=y.attrs["sparsity"], transposed=True),
    ),
    multilinear=(0, 1),
    complex=True,
    batch=_in_blocks,
    expensive=True,
    precision="low",
    can_fail=False,
    flops=lambda node: product_flops(node.size, (node.sources[0].shape[1],)),
    samples=_sampled_samples,
)
"""The entries of a @ b.T at the places of a sparse matrix."""


# --- systems --------------------------------------------------------------------------------------------------------


def _solve_numpy(data: Array, b: Array, sparsity: Sparsity, transposed: bool, checked: bool) -> Array:
    """Values that are not finite give NaN; so does a singular matrix, unless it is checked."""
    data = np.ascontiguousarray(data)
    if not np.isfinite(data).all():
        return np.full(b.shape, np.nan, b.dtype)
    try:
        return sparsity.factors(data).solve(np.asarray(b), trans="T" if transposed else "N")
    except np.linalg.LinAlgError:
        if checked:
            raise
        return np.full(b.shape, np.nan, b.dtype)


def _solve_jvp(tangents: Sequence[Node | None], y: Node, data: Node, b: Node) -> Node | None:
    moved, right = tangents
    if moved is not None:
        a = y.attrs
        change = negative(CSR_PRODUCT(moved, y, sparsity=a["sparsity"], transposed=a["transposed"]))
        right = change if right is None else right + change
    return None if right is None else SPARSE_SOLVE(data, right, **y.attrs)


def _solve_vjp(g: Node, y: Node) -> list[Node]:
    data, _ = y.sources
    back = SPARSE_SOLVE(conjugate(data), g, **{**y.attrs, "transposed": not y.attrs["transposed"]})
    return [negative(_by_data(y, back, y)), back]


def _solve_samples() -> Any:
    rng, _, square = _samples()
    for transposed in (False, True):
        data = rng.normal(size=6) + np.array([3.0, 0, 3, 0, 0, 3])
        yield (data, rng.normal(size=(3, 2))), {"sparsity": square, "transposed": transposed, "checked": True}


SPARSE_SOLVE: Op = Op(
    "sparse_solve",
    infer=lambda data, b, sparsity, transposed, checked: (b.shape, b.dtype),
    numpy=_solve_numpy,
    vjp=_solve_vjp,
    jvp=_solve_jvp,
    complex=True,
    batch=_over_lanes,
    expensive=True,
    precision="full",
    samples=_solve_samples,
)
