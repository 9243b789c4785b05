"""Products of matrices and vectors, and what is summed over named axes: matmul and its kin, addmm, einsum, kron."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.core.dtypes import INEXACT, bool_, int64
from wengert.core.graph import Node
from wengert.ops import contract, diagonals
from wengert.ops import elementwise as e
from wengert.ops import reduce as r
from wengert.ops import statistics as st
from wengert.ops.core import cast, literal
from wengert.ops.linalg import matmul as product
from wengert.ops.matrix_functions import logdet as _logdet
from wengert.ops.matrix_functions import matrix_exp as _matrix_exp
from wengert.ops.movement import broadcast_to
from wengert.tensor import Tensor as Base
from wengert.tensor import engine
from wengert.torch import dtypes
from wengert.torch.arguments import in_floats, int_of, over_nodes
from wengert.torch.registry import methods, torch_function
from wengert.torch.tensor import axis_of, together


def one_dtype(name: str, *nodes: Node) -> None:
    """Raise an error unless all have one dtype, as PyTorch's products require."""
    first = nodes[0]
    for node in nodes[1:]:
        if node.dtype is not first.dtype:
            raise RuntimeError(
                f"{name}: expected m1 and m2 to have the same dtype, but got: {dtypes.of(first.dtype).name} != "
                f"{dtypes.of(node.dtype).name}"
            )


def _ranks(name: str, *wanted: tuple[Node, int]) -> None:
    for i, (node, rank) in enumerate(wanted):
        if len(node.shape) != rank:
            raise RuntimeError(f"{name}: argument {i + 1} must be {rank}-D, but got {len(node.shape)}-D")


def _fits(name: str, a: Node, b: Node) -> None:
    if a.shape[-1] != b.shape[-2 if len(b.shape) > 1 else 0]:
        raise RuntimeError(f"{name}: shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied")


def times(name: str, a: Node, b: Node) -> Node:
    """The matrix product, after checking the operands."""
    one_dtype(name, a, b)
    _fits(name, a, b)
    return product(a, b)


@torch_function(out=True)
@over_nodes("low")
def matmul(input: Node, other: Node) -> Node:
    """The matrix product; a vector on the left is a row, on the right a column; batches broadcast."""
    if not input.shape or not other.shape:
        raise RuntimeError("both arguments to matmul need to be at least 1D")
    one_dtype("matmul", input, other)
    return product(input, other)


def _left(self: Any, other: Any) -> Any:
    return methods["matmul"](self, other) if isinstance(other, Base) else NotImplemented


def _right(self: Any, other: Any) -> Any:
    return methods["matmul"](other, self) if isinstance(other, Base) else NotImplemented


methods["__matmul__"], methods["__rmatmul__"] = _left, _right


@torch_function(out=True)
@over_nodes("low")
def mm(input: Node, mat2: Node) -> Node:
    """The product of two matrices."""
    _ranks("mm", (input, 2), (mat2, 2))
    return times("mm", input, mat2)


@torch_function(out=True)
@over_nodes("low")
def bmm(input: Node, mat2: Node) -> Node:
    """The products of as many matrices each."""
    _ranks("bmm", (input, 3), (mat2, 3))
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(f"bmm: batches of {input.shape[0]} and {mat2.shape[0]} matrices")
    return times("bmm", input, mat2)


@torch_function(out=True)
@over_nodes("low")
def mv(input: Node, vec: Node) -> Node:
    """The product of a matrix and a vector."""
    _ranks("mv", (input, 2), (vec, 1))
    return times("mv", input, vec)


@torch_function(out=True)
@over_nodes("low")
def dot(input: Node, tensor: Node) -> Node:
    """The sum of the products of the elements of two vectors."""
    _ranks("dot", (input, 1), (tensor, 1))
    return times("dot", input, tensor)


@torch_function(out=True)
@over_nodes("low")
def vdot(input: Node, other: Node) -> Node:
    """`dot` with the complex conjugate of the first."""
    _ranks("vdot", (input, 1), (other, 1))
    one_dtype("vdot", input, other)
    return contract.vecdot(input, other)


@torch_function(out=True)
@over_nodes("low")
def inner(input: Node, other: Node) -> Node:
    """The sums of products along the last axes of both."""
    one_dtype("inner", input, other)
    if input.shape and other.shape and input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    return st.inner(input, other)


@torch_function("ger", out=True)
@over_nodes("low")
def outer(input: Node, vec2: Node) -> Node:
    """The products of each element of one vector with each of another, as a matrix."""
    _ranks("outer", (input, 1), (vec2, 1))
    a, b = together(input, vec2)
    return contract.outer(a, b)


# --- a product added to something -------------------------------------------------------------------------------------


def _added(name: str, x: Node, product: Node, beta: Any, alpha: Any) -> Node:
    one_dtype(name, product, x)
    if x.dtype not in INEXACT:
        beta, alpha = int(beta), int(alpha)
        if x.dtype is bool_:
            beta, alpha = bool(beta), bool(alpha)
    x = broadcast_to(x, product.shape)
    if beta == 0:  # what is not counted may be NaN
        return _times(product, alpha)
    return e.add(_times(x, beta), _times(product, alpha))


def _times(x: Node, factor: Any) -> Node:
    return x if factor == 1 else e.multiply(x, literal(factor, x.dtype, x.device))


def _adding(name: str, combine: Callable[[Node, Node], Node], doc: str) -> None:
    def function(input: Node, first: Node, second: Node, *, beta: Any = 1, alpha: Any = 1) -> Node:
        return _added(name, input, combine(first, second), beta, alpha)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    names = _OPERANDS[name]
    inner = over_nodes("low")(function)

    def call(input: Any, *factors: Any, beta: Any = 1, alpha: Any = 1, **named: Any) -> Any:
        given = dict(zip(names, factors)) | named
        if given.keys() != set(names):
            raise TypeError(f"{name}() takes {names[0]} and {names[1]}, not {sorted(given)}")
        return inner(input, given[names[0]], given[names[1]], beta=beta, alpha=alpha)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = doc
    torch_function(in_place=True, out=True)(call)


_OPERANDS = {
    "addmm": ("mat1", "mat2"),
    "addbmm": ("batch1", "batch2"),
    "baddbmm": ("batch1", "batch2"),
    "addmv": ("mat", "vec"),
    "addr": ("vec1", "vec2"),
}


def _mm(a: Node, b: Node) -> Node:
    _ranks("addmm", (a, 2), (b, 2))
    return times("addmm", a, b)


def _bmm(a: Node, b: Node) -> Node:
    _ranks("baddbmm", (a, 3), (b, 3))
    return times("baddbmm", a, b)


def _mv(a: Node, b: Node) -> Node:
    _ranks("addmv", (a, 2), (b, 1))
    return times("addmv", a, b)


def _vectors(a: Node, b: Node) -> Node:
    _ranks("addr", (a, 1), (b, 1))
    return contract.outer(a, b)


def _sum_of_products(a: Node, b: Node) -> Node:
    return r.SUM(_bmm(a, b), axes=(0,), keepdims=False)


_adding("addmm", _mm, "`beta * input + alpha * mat1 @ mat2`.")
_adding("baddbmm", _bmm, "`beta * input + alpha * batch1 @ batch2`, of as many matrices each.")
_adding("addbmm", _sum_of_products, "`beta * input + alpha * sum(batch1 @ batch2)`.")
_adding("addmv", _mv, "`beta * input + alpha * mat @ vec`.")
_adding("addr", _vectors, "`beta * input + alpha * outer(vec1, vec2)`.")


@torch_function(method=False)
@over_nodes("low")
def chain_matmul(*matrices: Node) -> Node:
    """The product of several matrices, cheapest products first."""
    return matrices[0] if len(matrices) == 1 else contract.multi_dot(list(matrices))


# --- over named axes --------------------------------------------------------------------------------------------------


@torch_function(method=False)
@over_nodes("low")
def einsum(equation: Any, *operands: Any) -> Node:
    """Products summed over axes that share a letter: `einsum("bij,bjk->bik", a, b)`."""
    if not isinstance(equation, str):
        equation, operands = _by_numbers((equation, *operands))
    elif len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    return contract.einsum(equation, *operands)


def _by_numbers(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """`einsum(a, [0, 1], b, [1, 2], [0, 2])` with letters."""

    def letters(axes: Any) -> str:
        return "".join("..." if n is Ellipsis else chr(ord("a") + n if n < 26 else ord("A") + n - 26) for n in axes)

    output = letters(given[-1]) if len(given) % 2 else None
    pairs = given[: len(given) // 2 * 2]
    left = ",".join(letters(axes) for axes in pairs[1::2])
    return (left if output is None else f"{left}->{output}"), tuple(pairs[::2])


@torch_function(method=False, out=True)
@over_nodes("low")
def tensordot(a: Node, b: Node, dims: Any = 2) -> Node:
    """Products summed over pairs of axes."""
    if isinstance(dims, Node):
        dims = engine.value(dims).tolist()
    if isinstance(dims, int) and dims < 0:
        raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
    one_dtype("tensordot", a, b)
    pairs = dims if isinstance(dims, int) else tuple([d] if isinstance(d, int) else list(d) for d in dims)
    if isinstance(pairs, tuple):
        pairs = tuple([axis_of(d, len(x.shape)) for d in side] for x, side in zip((a, b), pairs))
        for i, j in zip(*pairs):  # an axis of size 1 is as long as it has to be
            a, b = _met(a, i, b.shape[j]), _met(b, j, a.shape[i])
    return contract.tensordot(a, b, axes=pairs)


def _met(x: Node, axis: int, size: int) -> Node:
    if x.shape[axis] == size or size == 1:
        return x
    if x.shape[axis] != 1:
        raise RuntimeError(f"contracted dimensions need to match, but an axis has size {x.shape[axis]}, not {size}")
    return broadcast_to(x, (*x.shape[:axis], size, *x.shape[axis + 1 :]))


@torch_function(out=True)
@over_nodes("low")
def kron(input: Node, other: Node) -> Node:
    """The Kronecker product."""
    a, b = together(input, other)
    return contract.kron(a, b)


@torch_function(out=True)
@over_nodes()
def cross(input: Node, other: Node, dim: int | None = None) -> Node:
    """The cross products of vectors of three elements along an axis: by default the first of size 3."""
    if dim is None:
        found = [i for i, n in enumerate(input.shape) if n == 3]
        if not found:
            raise RuntimeError("no dimension of size 3 in input")
        dim = found[0]
    return cross_along(input, other, dim)


def cross_along(a: Node, b: Node, dim: Any) -> Node:
    """The cross products along an axis."""
    axis = axis_of(int_of(dim), max(len(a.shape), len(b.shape)))
    back = axis - max(len(a.shape), len(b.shape))
    if len(a.shape) != len(b.shape):
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    if a.shape[back] != 3 or b.shape[back] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {a.shape[back]} and {b.shape[back]}"
        )
    a, b = together(a, b)
    return contract.cross(a, b, axis=back)


@torch_function()
@over_nodes()
def trace(input: Node) -> Node:
    """The sum of the diagonal of a matrix."""
    if len(input.shape) != 2:
        raise RuntimeError("trace: expected a matrix")
    found = contract.diagonal(input)
    return r.sum(found if found.dtype in INEXACT else cast(found, int64))


@torch_function(method=False)
@over_nodes()
def block_diag(*tensors: Node) -> Node:
    """A matrix with matrices along its diagonal and zeros elsewhere."""
    for x in tensors:
        if len(x.shape) > 2:
            raise RuntimeError(f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Got {list(x.shape)}")
    meet = dtypes.promote_all(*tensors)
    return diagonals.block_diag(*[cast(x, meet) for x in tensors])


@torch_function(method=False)
@over_nodes("full")
def cdist(x1: Node, x2: Node, p: float = 2.0, compute_mode: str | None = None) -> Node:
    """The distance, in the p-norm, of each row of one tensor from each row of another."""
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.shape[-1]} X2: {x2.shape[-1]}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    a, b = together(x1, x2)
    return st.cdist(a, b, p=float(p))


@torch_function()
@over_nodes("full")
def logdet(input: Node) -> Node:
    """The logarithm of the determinant."""
    return _logdet(in_floats(input))


@torch_function()
@over_nodes("full")
def matrix_exp(input: Node) -> Node:
    """The exponential of square matrices."""
    return _matrix_exp(input)
