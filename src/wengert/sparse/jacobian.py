"""`sparse_jacobian` and `sparse_hessian`: SciPy's CSR arrays, from as many products as there are colours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wengert.api.functions import concat, ones, zeros
from wengert.autodiff import body as bodies
from wengert.autodiff.custom import CUSTOM_VJP
from wengert.autodiff.jacobian import each_over_lanes
from wengert.autodiff.transforms import grad
from wengert.core.canonical import canonical
from wengert.core.dtypes import INEXACT
from wengert.core.errors import AbstractValueError, ArgumentError, ShapeError
from wengert.core.graph import Graph, now, recorded_as, recording
from wengert.ops.core import as_node, data
from wengert.ops.sparse import Sparsity, scipy_sparse
from wengert.solvers.flat import Flat
from wengert.solvers.implicit import at
from wengert.sparse import coloring
from wengert.sparse.acyclic import Substitution, acyclic_colors, substitution
from wengert.sparse.matrix import CSR, spsolve
from wengert.sparse.picture import Picture, draw
from wengert.sparse.structure import structure_of
from wengert.tensor import Tensor


class OneMode(NamedTuple):
    """Products in one mode: which columns (of reverse mode: rows) go together, and the graph of a product for each."""

    colors: coloring.Colors
    products: Graph


class Found(NamedTuple):
    """The results of recording a function once: its structure, its colours, and the graph of its products."""

    structure: Any
    direction: str  # "forward", "reverse", "mixed", "star" or "acyclic"
    parts: tuple[OneMode, ...]
    substitution: Substitution | None = None

    @property
    def total(self) -> int:
        """How many products it takes."""
        return sum(coloring.count(part.colors) for part in self.parts)

    def product_of_entries(self) -> np.ndarray[Any, Any]:
        """For each entry the number of the product that yields it."""
        product = self.places()[0]
        return product if self.substitution is None else product[self.substitution.unknown]

    def places(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """For each entry (of a substitution: unknown) the product that yields it, and where in that.

        The products of later parts are counted on.
        """
        if self.substitution is not None:
            return self.substitution.product, self.substitution.place
        rows = np.repeat(np.arange(self.structure.shape[0]), np.diff(self.structure.indptr))
        columns = self.structure.indices
        if self.direction == "star":
            return coloring.star_places(self.structure, self.parts[0].colors)
        if self.direction == "forward":
            return self.parts[0].colors[columns], rows
        if self.direction == "reverse":
            return self.parts[0].colors[rows], columns
        forward, reverse = (part.colors for part in self.parts)
        by_row = reverse[rows] >= 0
        product = np.where(by_row, coloring.count(forward) + reverse[rows], forward[columns])
        return product, np.where(by_row, columns, rows)


class SparseDerivative:
    """A function that gives a sparse matrix of derivatives. It remembers what it found of each graph that it met.

    `structure(*args)` gives the pattern alone, `colors(*args)` the direction of the products and their number,
    `picture(*args)` both as an SVG picture, and `csr(*args)` the derivatives as a value within a program.
    """

    def __init__(self, name: str, function: Callable[..., Any], argnum: int, mode: str, structure: Any) -> None:
        self.__wrapped__, self.name, self.argnum, self.mode = function, name, argnum, mode
        self.given = None if structure is None else self._checked(structure)
        self.found: dict[Any, Found] = {}

    def _checked(self, structure: Any) -> Any:
        pattern = scipy_sparse().csr_array(structure).astype(bool)
        pattern.sum_duplicates()
        pattern.sort_indices()
        return pattern

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The derivatives at some arguments."""
        graph, constants, x = self._record(args, kwargs)
        found = self._look(graph, constants)
        data_ = self._entries(found, [*constants, x])
        return scipy_sparse().csr_array(
            (data_, found.structure.indices.copy(), found.structure.indptr.copy()), shape=found.structure.shape
        )

    def csr(self, *args: Any, **kwargs: Any) -> CSR:
        """The derivatives as a value of the program (`wg.sparse.csr`): compiled and differentiated with it."""
        graph, constants, x = self._record(args, kwargs)
        found = self._look(graph, constants)
        pattern = found.structure
        sparsity = Sparsity.of(pattern.shape, pattern.indptr, pattern.indices)
        if pattern.nnz == 0:
            return CSR(zeros(0, dtype=x.dtype), sparsity)
        product, place = found.places()
        taken, where, first = [], [], 0
        for part in found.parts:
            number = coloring.count(part.colors)
            products = Tensor(part.products.inline(*constants, x, data(coloring.seeds(part.colors, x.dtype)))[0])
            here = np.flatnonzero((product >= first) & (product < first + number))
            taken.append(products[product[here] - first, place[here]])
            where.append(here)
            first += number
        if found.substitution is not None:
            sums = found.substitution.sums
            taken = [spsolve(CSR(ones(sums.count, dtype=x.dtype), sums), taken[0])[found.substitution.unknown]]
        if len(taken) == 1:
            return CSR(taken[0], sparsity)
        return CSR(concat(taken)[np.argsort(np.concatenate(where))], sparsity)

    def structure(self, *args: Any, **kwargs: Any) -> Any:
        """The entries that may be nonzero, as a CSR array of booleans."""
        return self._look(*self._record(args, kwargs)[:2]).structure.copy()

    def colors(self, *args: Any, **kwargs: Any) -> tuple[str, int]:
        """How many products it takes, and in which mode: "forward", "reverse", "mixed", "star" or "acyclic"."""
        found = self._look(*self._record(args, kwargs)[:2])
        return found.direction, found.total

    def picture(self, *args: Any, **kwargs: Any) -> Picture:
        """The structure as an SVG picture: a square for each entry, in the colour of the product that yields it."""
        found = self._look(*self._record(args, kwargs)[:2])
        how = f"{found.total} product{'s' if found.total != 1 else ''} ({found.direction})"
        return draw(found.structure, found.product_of_entries(), how)

    def _record(self, args: Any, kwargs: Any) -> tuple[Graph, list[Any], Any]:
        """The function as a closed graph of constants and a vector, their nodes, and the vector."""
        if not -len(args) <= self.argnum < len(args):
            raise ArgumentError(f"{self.name}: argnum {self.argnum}, but {len(args)} positional arguments were given")
        place = self.argnum % len(args)
        flat = Flat(self.name, args[place])

        def of_vector(v: Any) -> Any:
            result = self.__wrapped__(*args[:place], flat.unravel(v), *args[place + 1 :], **kwargs)
            if self.name == "sparse_jacobian":
                return Flat(f"{self.name}: the result", result).vector
            if as_node(result).shape != ():
                raise ShapeError(
                    f"sparse_hessian: the function must return a scalar, not shape {as_node(result).shape}"
                )
            return result

        whole = of_vector if self.name == "sparse_jacobian" else grad(of_vector)
        graph, constants = bodies.close(bodies.record(self.name, whole, (flat.vector,)).graph)
        return graph, constants, flat.vector.node

    def _look(self, graph: Graph, constants: list[Any]) -> Found:
        values = [_known(c) for c in constants]
        key = canonical(graph), tuple([None if v is None else v.tobytes() for v in values])
        if key not in self.found:
            self.found[key] = self._find(graph, values)
        return self.found[key]

    def _find(self, graph: Graph, values: list[Any]) -> Found:
        shape = graph.outputs[0].size, graph.inputs[-1].size
        structure = structure_of(graph, values) if self.given is None else self.given
        if structure.shape != shape:
            raise ShapeError(f"{self.name}: structure= has shape {structure.shape}, but the matrix has shape {shape}")
        if self.name == "sparse_hessian":
            structure = self._checked(structure + structure.T)
            if self.mode == "acyclic":
                colors = acyclic_colors(structure)
                found = _found(graph, structure, "acyclic", colors)
                return found._replace(substitution=substitution(structure, colors))
            return _found(graph, structure, "star", coloring.star_colors(structure))
        ways = self._ways(graph, structure)
        direction = min(ways, key=lambda way: sum(map(coloring.count, ways[way])))
        return _found(graph, structure, direction, *ways[direction])

    def _ways(self, graph: Graph, structure: Any) -> dict[str, tuple[coloring.Colors, ...]]:
        """The colours of each way that may be taken. A rule of reverse mode alone leaves that one."""
        if self.mode in ("forward", "reverse"):
            return {self.mode: (coloring.column_colors(structure if self.mode == "forward" else structure.T),)}
        ways: dict[str, tuple[coloring.Colors, ...]] = {"reverse": (coloring.column_colors(structure.T),)}
        if any(node.op is CUSTOM_VJP for node in graph.nodes):
            return ways
        ways = {"forward": (coloring.column_colors(structure),), **ways}
        mixed = coloring.mixed_colors(structure, min(coloring.count(one[0]) for one in ways.values()))
        return ways if mixed is None else {**ways, "mixed": mixed}

    def _entries(self, found: Found, inputs: list[Any]) -> Any:
        dtype = inputs[-1].dtype
        if found.structure.nnz == 0:
            return np.zeros(0, dtype)
        product, place = found.places()
        entries, first = np.zeros(product.size, dtype), 0
        for part in found.parts:
            number = coloring.count(part.colors)
            with recorded_as(recording.location, False):
                products = part.products.inline(*inputs, data(coloring.seeds(part.colors, dtype)))[0]
            here = (product >= first) & (product < first + number)
            entries[here] = Tensor(products).numpy()[product[here] - first, place[here]]
            first += number
        if found.substitution is None:
            return entries
        sums, unknown = found.substitution.sums, found.substitution.unknown
        return sums.factors(np.ones(sums.count, dtype)).solve(entries)[unknown]


def _known(constant: Any) -> Any:
    """The value of an integer that the function reads; None of one that is not known before a program runs."""
    if constant.dtype in INEXACT:
        return None
    try:
        return Tensor(constant).numpy()
    except AbstractValueError:
        return None


def _found(graph: Graph, structure: Any, direction: str, *colors: coloring.Colors) -> Found:
    modes = ("forward", "reverse") if direction == "mixed" else (direction,)
    parts = [OneMode(one, _products(graph, mode, one)) for mode, one in zip(modes, colors)]
    return Found(structure, direction, tuple(parts))


def _products(graph: Graph, direction: str, colors: coloring.Colors) -> Graph:
    """From the constants, the point and a seed for each colour to the products with them."""
    since = now()
    with recorded_as(recording.location, True):
        inputs = [bodies.placeholder_like(node) for node in graph.inputs]
        equation = at(graph, inputs[:-1], inputs[-1])
        product = equation.pulled() if direction == "reverse" else equation.pushed()
        (one,) = product.inputs
        lanes = bodies.placeholder((coloring.count(colors), *one.shape), one.dtype, one.device)
        results = each_over_lanes(product.outputs, one, lanes)
    return Graph([*inputs, lanes], results, since)


def sparse_jacobian(
    function: Callable[..., Any], argnum: int = 0, *, mode: str = "auto", structure: Any = None
) -> SparseDerivative:
    """A function that gives the Jacobian of `function` by one argument, as SciPy's CSR array.

    Which entries may differ from zero is read off the function's graph: it holds for all values of the argument, for
    both sides of `where` and `cond`. Columns (or rows) that share none of these are found in one product. The direction
    with the fewest products is taken: forward, reverse, or "mixed", with a few dense rows in reverse mode and all else
    in forward mode; `mode` may be "forward" or "reverse". Results and arguments that are containers or have several
    axes count as vectors, in the order of their elements.

    An index that depends on the argument's values raises; then, or where more is known, `structure` says which entries
    there are (entries outside of it are taken for zero, unchecked). The object remembers what it found, and
    `structure(*args)`, `colors(*args)` and `picture(*args)` show it.

    >>> import wengert as wg
    >>> differences = wg.sparse_jacobian(lambda x: x[1:] ** 2 - x[:-1])
    >>> x = wg.tensor([1.0, 2.0, 3.0])
    >>> differences(x).toarray().tolist(), differences.colors(x)
    ([[-1.0, 4.0, 0.0], [0.0, -1.0, 6.0]], ('forward', 2))
    """
    if mode not in ("auto", "forward", "reverse"):
        raise ArgumentError(f'sparse_jacobian: mode must be "auto", "forward" or "reverse", not {mode!r}')
    return SparseDerivative("sparse_jacobian", function, argnum, mode, structure)


def sparse_hessian(
    function: Callable[..., Any], argnum: int = 0, *, mode: str = "star", structure: Any = None
) -> SparseDerivative:
    """A function that gives the Hessian of a scalar `function` by one argument, as SciPy's CSR array.

    As `sparse_jacobian` of the gradient; by its symmetry it takes fewer products. With `mode` "star" each entry stands
    alone in one of them; "acyclic" takes fewer still, of whose sums the entries follow by substitution, which adds up
    rounding errors.

    >>> import wengert as wg
    >>> chain = wg.sparse_hessian(lambda x: (x[1:] * x[:-1] ** 2).sum())
    >>> chain(wg.tensor([1.0, 2.0, 3.0])).toarray().tolist()
    [[4.0, 2.0, 0.0], [2.0, 6.0, 4.0], [0.0, 4.0, 0.0]]
    """
    if mode not in ("star", "acyclic"):
        raise ArgumentError(f'sparse_hessian: mode is "star" or "acyclic", not {mode!r}')
    return SparseDerivative("sparse_hessian", function, argnum, mode, structure)
