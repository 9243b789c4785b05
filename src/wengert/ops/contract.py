"""Products over named or paired axes, written as movement around `matmul`: so their derivatives and batching are those.

`einsum` is the general one: each operand loses repeated and unneeded axes, then operands are contracted two at a time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import reduce
from itertools import combinations, pairwise
from typing import Any

from wengert.core.dtypes import result_dtype
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.core import as_node, cast, operands
from wengert.ops.elementwise import conj, multiply
from wengert.ops.linalg import matmul
from wengert.ops.movement import moveaxis, normalize_axis, permute_dims, reshape, take_slice
from wengert.ops.rearrange import roll
from wengert.ops.reduce import SUM
from wengert.ops.reduce import sum as sum_along


def _in_one_dtype(*values: Any) -> list[Node]:
    nodes = operands(*values)
    dtype = result_dtype(*[node.dtype for node in nodes])
    return [cast(node, dtype) for node in nodes]


# --- diagonals ------------------------------------------------------------------------------------------------------


def diagonal(x: Any, /, offset: int = 0) -> Node:
    """The diagonals of matrices, as vectors: the main one, one above it (`offset` > 0) or below (`offset` < 0).

    >>> import wengert as wg
    >>> wg.linalg.diagonal(wg.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    x = as_node(x)
    if x.ndim < 2:
        raise ShapeError(f"diagonal takes a matrix, or a batch of them in the axes before; the shape is {x.shape}")
    rows, columns = x.shape[-2:]
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    start = (max(offset, 0) - min(offset, 0) * columns) if length else 0
    # in a matrix laid out row by row, a diagonal is every (columns + 1)st element
    batch = x.shape[:-2]
    flat = reshape(x, (*batch, rows * columns))
    none = (0,) * len(batch)
    return take_slice(flat, (*none, start), (*(1,) * len(batch), columns + 1), (*batch, length))


def trace(x: Any, /, offset: int = 0, *, dtype: Any = None) -> Node:
    """The sum of the diagonals of matrices.

    >>> import wengert as wg
    >>> wg.linalg.trace(wg.eye(3)).item()
    3.0
    """
    return sum_along(diagonal(x, offset=offset), axis=-1, dtype=dtype)


# --- products of vectors --------------------------------------------------------------------------------------------


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Node:
    """The dot products of vectors that lie along an axis; the other axes broadcast. Complex `x1` is conjugated.

    >>> import wengert as wg
    >>> wg.vecdot(wg.tensor([[1.0, 2.0], [3.0, 4.0]]), wg.tensor([1.0, 1.0])).tolist()
    [3.0, 7.0]
    """
    a, b = _vectors_last("vecdot", x1, x2, axis)
    if a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"vecdot: vectors of {a.shape[-1]} and {b.shape[-1]} elements along axis {axis}")
    left = conj(a) if a.dtype.kind == "c" else a
    return sum_along(left * b, axis=-1, dtype=a.dtype)


def _vectors_last(name: str, x1: Any, x2: Any, axis: int) -> tuple[Node, Node]:
    a, b = _in_one_dtype(x1, x2)
    return tuple(moveaxis(x, normalize_axis(axis, x.ndim, name), -1) for x in (a, b))  # type: ignore[return-value]


def outer(x1: Any, x2: Any, /) -> Node:
    """The products of each element of one vector with each of another, as a matrix.

    >>> import wengert as wg
    >>> wg.outer(wg.tensor([1, 2]), wg.tensor([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    a, b = _in_one_dtype(x1, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ShapeError(
            f"outer takes two vectors; the shapes are {a.shape} and {b.shape}. tensordot(a, b, axes=0) takes any"
        )
    return reshape(a, (a.size, 1)) * reshape(b, (1, b.size))


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Node:
    """The cross products of vectors of three elements that lie along an axis; the other axes broadcast.

    >>> import wengert as wg
    >>> wg.cross(wg.tensor([1.0, 0.0, 0.0]), wg.tensor([0.0, 1.0, 0.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    a, b = _vectors_last("cross", x1, x2, axis)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ShapeError(f"cross takes vectors of 3 elements; axis {axis} has {a.shape[-1]} and {b.shape[-1]}")
    product = roll(a, -1, -1) * roll(b, -2, -1) - roll(a, -2, -1) * roll(b, -1, -1)
    return moveaxis(product, -1, normalize_axis(axis, product.ndim, "cross"))


def kron(x1: Any, x2: Any, /) -> Node:
    """The Kronecker product: `x1` with each element replaced by its product with all of `x2`.

    >>> import wengert as wg
    >>> wg.kron(wg.tensor([1, 10]), wg.tensor([1, 2])).tolist()
    [1, 2, 10, 20]
    """
    a, b = _in_one_dtype(x1, x2)
    rank = max(a.ndim, b.ndim)
    left, right = (1,) * (rank - a.ndim) + a.shape, (1,) * (rank - b.ndim) + b.shape
    spread = [n for size in left for n in (size, 1)]
    tiles = [n for size in right for n in (1, size)]
    product = reshape(a, tuple(spread)) * reshape(b, tuple(tiles))
    return reshape(product, tuple(m * n for m, n in zip(left, right)))


# --- products of matrices and more ----------------------------------------------------------------------------------


def tensordot(x1: Any, x2: Any, /, axes: Any = 2) -> Node:
    """Products summed over pairs of axes: the last `axes` of `x1` with the first of `x2`, or two sequences of axes.

    >>> import wengert as wg
    >>> wg.tensordot(wg.tensor([[1.0, 2.0]]), wg.tensor([[3.0, 4.0]]), axes=((1,), (1,))).tolist()
    [[11.0]]
    """
    a, b = _in_one_dtype(x1, x2)
    over_a, over_b = _paired_axes(a, b, axes)
    if [a.shape[i] for i in over_a] != [b.shape[i] for i in over_b]:
        raise ShapeError(f"tensordot: axes {over_a} of shape {a.shape} and {over_b} of shape {b.shape} differ in size")
    rows = [i for i in range(a.ndim) if i not in over_a]
    columns = [i for i in range(b.ndim) if i not in over_b]
    row_sizes, column_sizes = tuple(a.shape[i] for i in rows), tuple(b.shape[i] for i in columns)
    inner = math.prod(a.shape[i] for i in over_a)
    left = reshape(permute_dims(a, (*rows, *over_a)), (math.prod(row_sizes), inner))
    right = reshape(permute_dims(b, (*over_b, *columns)), (inner, math.prod(column_sizes)))
    return reshape(matmul(left, right), (*row_sizes, *column_sizes))


def _paired_axes(a: Node, b: Node, axes: Any) -> tuple[list[int], list[int]]:
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ArgumentError(f"tensordot: {axes} axes of shapes {a.shape} and {b.shape}")
        return list(range(a.ndim - axes, a.ndim)), list(range(axes))
    if not isinstance(axes, (tuple, list)) or len(axes) != 2:
        raise ArgumentError(f"tensordot: axes is an integer or two sequences of axes, not {axes!r}")
    first, second = ([side] if isinstance(side, int) else list(side) for side in axes)
    over_a = [normalize_axis(i, a.ndim, "tensordot") for i in first]
    over_b = [normalize_axis(i, b.ndim, "tensordot") for i in second]
    if len(over_a) != len(over_b) or len(set(over_a)) != len(over_a) or len(set(over_b)) != len(over_b):
        raise ArgumentError(f"tensordot: {tuple(first)} and {tuple(second)} do not pair each axis with one other")
    return over_a, over_b


def multi_dot(arrays: Sequence[Any], /) -> Node:
    """The product of several matrices, cheapest products first; the first and the last may be vectors.

    >>> import wengert as wg
    >>> wg.linalg.multi_dot([wg.ones((2, 3)), wg.ones((3, 4)), wg.ones((4, 1))]).tolist()
    [[12.0], [12.0]]
    """
    xs = _in_one_dtype(*arrays)
    if len(xs) < 2:
        raise ArgumentError(f"multi_dot takes at least two matrices; there are {len(xs)}")
    ends = (0, len(xs) - 1)
    if any(x.ndim != 2 and not (x.ndim == 1 and i in ends) for i, x in enumerate(xs)):
        raise ShapeError(f"multi_dot takes matrices, vectors only at the ends; the shapes are {[x.shape for x in xs]}")
    terms: list[Term] = [(x, [i, i + 1]) for i, x in enumerate(xs)]
    if xs[0].ndim == 1:
        terms[0] = (xs[0], [1])
    if xs[-1].ndim == 1:
        terms[-1] = (xs[-1], [len(xs) - 1])
    kept = [*([0] if xs[0].ndim == 2 else []), *([len(xs)] if xs[-1].ndim == 2 else [])]
    for left, right in pairwise(xs):
        if left.shape[-1] != right.shape[0]:
            raise ShapeError(f"multi_dot: shapes {left.shape} and {right.shape} stand side by side and do not fit")
    return _contract_all(terms, kept)


# --- einsum ---------------------------------------------------------------------------------------------------------

Label = str | int  # a letter; for the axes of an ellipsis their place from the right, -1, -2, ...
Term = tuple[Node, list[Any]]  # a value and the label of each of its axes


def einsum(subscripts: str, /, *arrays: Any) -> Node:
    """Einstein's sum: axes are named by letters, and names that the result does not have are summed over.

    `"ij,jk->ik"` is a matrix product, `"ii->i"` a diagonal, `"ij->"` a sum; `...` stands for axes that broadcast.
    Without `->` the result has the names that appear once, in alphabetical order.

    >>> import wengert as wg
    >>> wg.einsum("ij,j->i", wg.tensor([[1.0, 2.0], [3.0, 4.0]]), wg.tensor([1.0, 1.0])).tolist()
    [3.0, 7.0]
    """
    if not isinstance(subscripts, str):
        raise DTypeError(f'einsum: the subscripts are text such as "ij,jk->ik", not {subscripts!r}')
    if not arrays:
        raise ArgumentError("einsum: there are no operands")
    xs = _in_one_dtype(*arrays)
    terms, output = _read(subscripts, xs)
    sizes = _sizes(terms)
    return _contract_all([_without_repeats(_without_ones(term, sizes)) for term in terms], output)


def _read(subscripts: str, xs: Sequence[Node]) -> tuple[list[Term], list[Label]]:
    """The operands with their labels, and the labels of the result."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(xs):
        raise ArgumentError(f"einsum: {subscripts!r} names {len(parts)} operands; {len(xs)} were given")
    terms: list[Term] = [(x, _labels(part, x.shape)) for part, x in zip(parts, xs)]
    used = [label for _, labels in terms for label in labels]
    ellipsis = sorted({label for label in used if isinstance(label, int)})
    if not arrow:
        return terms, [*ellipsis, *sorted(l for l in set(used) if isinstance(l, str) and used.count(l) == 1)]
    named = right.replace("...", "", 1)
    _check_letters(named, right)
    for letter in named:
        if letter not in used or named.count(letter) > 1:
            why = "twice in the result" if letter in used else "in no operand"
            raise ArgumentError(f"einsum: {letter!r} stands {why} in {subscripts!r}")
    head, dots, tail = right.partition("...")
    return terms, [*head, *(ellipsis if dots else ()), *tail]


def _labels(part: str, shape: Shape) -> list[Label]:
    head, dots, tail = part.partition("...")
    _check_letters(head + tail, part)
    free = len(shape) - len(head) - len(tail)
    if free < 0 or (free and not dots):
        raise ShapeError(f"einsum: {part!r} names {len(head) + len(tail)} axes; its operand has shape {shape}")
    return [*head, *range(-free, 0), *tail]


def _check_letters(letters: str, part: str) -> None:
    for letter in letters:
        if not (letter.isascii() and letter.isalpha()):
            raise ArgumentError(f"einsum: {letter!r} in {part!r}: axes are named by letters, an ellipsis is three dots")


def _sizes(terms: Sequence[Term]) -> dict[Label, int]:
    """The size of each label; an axis of size 1 broadcasts."""
    sizes: dict[Label, int] = {}
    for x, labels in terms:
        for label, n in zip(labels, x.shape):
            before = sizes.setdefault(label, n)
            if n != before and 1 not in (n, before):
                name = "an axis of the ellipsis" if isinstance(label, int) else f"axis {label!r}"
                raise ShapeError(f"einsum: {name} has {before} elements in one operand and {n} in another")
            sizes[label] = n if before == 1 else before
    return sizes


def _without_ones(term: Term, sizes: dict[Label, int]) -> Term:
    """An axis of size 1 that broadcasts is left out: contracting does the rest."""
    x, labels = term
    kept = [i for i, label in enumerate(labels) if x.shape[i] == sizes[label]]
    return reshape(x, tuple(x.shape[i] for i in kept)), [labels[i] for i in kept]


def _without_repeats(term: Term) -> Term:
    """A label that an operand has twice means its diagonal."""
    x, labels = term
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            x = diagonal(moveaxis(x, (i, j), (-2, -1)))
            labels = [*labels[:i], *labels[i + 1 : j], *labels[j + 1 :], label]
    return x, labels


def _contract_all(terms: list[Term], output: Sequence[Label]) -> Node:
    """The terms multiplied together, two at a time, cheapest first, and summed to the labels of the result."""
    while len(terms) > 1:
        i, j = min(combinations(range(len(terms)), 2), key=lambda pair: _cost(terms[pair[0]], terms[pair[1]]))
        second, first = terms.pop(j), terms.pop(i)
        needed = reduce(set.union, (labels for _, labels in terms), set(output))
        terms.append(_contract(first, second, needed))
    x, labels = _summed_to(terms[0], set(output))
    return permute_dims(x, [labels.index(label) for label in output])


def _cost(first: Term, second: Term) -> int:
    """The number of multiplications."""
    sizes = dict(zip(first[1], first[0].shape)) | dict(zip(second[1], second[0].shape))
    return math.prod(sizes.values())


def _summed_to(term: Term, needed: Collection[Label]) -> Term:
    x, labels = term
    axes = tuple(i for i, label in enumerate(labels) if label not in needed)
    if not axes:
        return term
    return SUM(x, axes=axes, keepdims=False), [label for label in labels if label in needed]


def _contract(first: Term, second: Term, needed: set[Label]) -> Term:
    """The product of two terms, summed over the labels that nothing else needs."""
    a, of_a = _summed_to(first, needed.union(second[1]))
    b, of_b = _summed_to(second, needed.union(of_a))
    batch = [label for label in of_a if label in of_b and label in needed]
    inner = [label for label in of_a if label in of_b and label not in needed]
    rows, columns = [l for l in of_a if l not in of_b], [l for l in of_b if l not in of_a]
    sizes = dict(zip(of_a, a.shape)) | dict(zip(of_b, b.shape))
    lanes, m, k, n = (tuple(sizes[label] for label in group) for group in (batch, rows, inner, columns))
    left = permute_dims(a, [of_a.index(label) for label in (*batch, *rows, *inner)])
    right = permute_dims(b, [of_b.index(label) for label in (*batch, *inner, *columns)])
    if not inner:
        product = multiply(reshape(left, lanes + m + (1,) * len(n)), reshape(right, lanes + (1,) * len(m) + n))
    else:
        flat = matmul(
            reshape(left, (*lanes, math.prod(m), math.prod(k))), reshape(right, (*lanes, math.prod(k), math.prod(n)))
        )
        product = reshape(flat, lanes + m + n)
    return product, [*batch, *rows, *columns]
