"""`torch.linalg`: norms, factorisations, systems of equations."""

from __future__ import annotations

import math
from typing import Any

from wengert.core.dtypes import COMPLEX, INEXACT
from wengert.core.errors import LinearAlgebraError
from wengert.core.graph import Node
from wengert.ops import contract, decompose, matrix_functions, matrix_norms
from wengert.ops import linalg as la
from wengert.ops import lu as elimination
from wengert.ops.core import cast
from wengert.ops.creation import tril, triu
from wengert.ops.elementwise import real
from wengert.ops.movement import moveaxis, reshape
from wengert.torch import dtypes, return_types
from wengert.torch.arguments import as_asked, over_nodes
from wengert.torch.creation import filled
from wengert.torch.missing import missing_attribute
from wengert.torch.norms import of_matrices, of_vectors
from wengert.torch.products import cross_along, one_dtype
from wengert.torch.registry import torch_function, with_out
from wengert.torch.tensor import axis_of

LinAlgError = LinearAlgebraError


def _floating(name: str, x: Node) -> Node:
    if x.dtype not in INEXACT:
        kind = dtypes.scalar_name(x.dtype)
        raise RuntimeError(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {kind}")
    return x


def square(name: str, x: Node) -> Node:
    """Check for square matrices of floating-point or complex numbers."""
    matrices(name, x)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: A must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]} matrices"
        )
    return x


def matrices(name: str, x: Node) -> Node:
    """Check for matrices of floating-point or complex numbers."""
    if len(x.shape) < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")
    return _floating(name, x)


# --- norms ----------------------------------------------------------------------------------------------------------


@with_out
@over_nodes("full")
def vector_norm(x: Node, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Node:
    """The norm of the vectors along some axes, or of all elements."""
    return of_vectors(as_asked(_floating("vector_norm", x), dtype), float(ord), dim, keepdim)


@with_out
@over_nodes("full")
def matrix_norm(A: Node, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None) -> Node:
    """The norm of matrices: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    return of_matrices(as_asked(_floating("matrix_norm", A), dtype), ord, dim, keepdim)


@with_out
@over_nodes("full")
def norm(A: Node, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Node:
    """The norm of vectors, or of matrices if `dim` has two axes, or is not given and the tensor has two."""
    x = as_asked(_floating("norm", A), dtype)
    if isinstance(ord, str) or (ord is not None and (_is_pair(dim) or dim is None)):
        if dim is None and len(x.shape) != 2 and not (len(x.shape) == 1 and not isinstance(ord, str)):
            raise RuntimeError(
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {len(x.shape)}D."
            )
        if _is_pair(dim) or len(x.shape) == 2:
            return of_matrices(x, ord, (-2, -1) if dim is None else dim, keepdim)
    return of_vectors(x, 2.0 if ord is None else float(ord), dim, keepdim)


def _is_pair(dim: Any) -> bool:
    return isinstance(dim, (tuple, list)) and len(dim) == 2


@with_out
@over_nodes("full")
def cond(A: Node, p: Any = None) -> Node:
    """The condition number of matrices."""
    return matrix_norms.cond(matrices("cond", A), p)


@with_out
@over_nodes("full")
def matrix_rank(A: Node, tol: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Node:
    """The number of singular values that are not small."""
    if tol is not None:
        atol, rtol = tol, 0.0
    return matrix_norms.matrix_rank(matrices("matrix_rank", A), rtol=rtol, atol=atol, hermitian=hermitian)


# --- products -------------------------------------------------------------------------------------------------------


@with_out
@over_nodes()
def cross(input: Node, other: Node, *, dim: int = -1) -> Node:
    """The cross products of vectors of three elements along an axis."""
    return cross_along(input, other, dim)


@with_out
@over_nodes("low")
def vecdot(x: Node, y: Node, *, dim: int = -1) -> Node:
    """The dot products of vectors along an axis; the first is conjugated."""
    if x.shape[dim] != y.shape[dim]:
        raise RuntimeError("linalg.vecdot: the vectors have different lengths")
    one_dtype("linalg.vecdot", x, y)
    return contract.vecdot(x, y, axis=dim)


@with_out
@over_nodes("low")
def multi_dot(tensors: Any) -> Node:
    """The product of several matrices, cheapest products first."""
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    one_dtype("multi_dot", *tensors)
    return contract.multi_dot(tensors)


@with_out
@over_nodes()
def diagonal(A: Node, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Node:
    """The diagonals of matrices that lie along two axes."""
    rank = len(A.shape)
    return contract.diagonal(moveaxis(A, (axis_of(dim1, rank), axis_of(dim2, rank)), (-2, -1)), offset=offset)


@torch_function(out=True)
@over_nodes("low")
def matrix_power(A: Node, n: int) -> Node:
    """The product of `n` copies of square matrices."""
    if len(A.shape) < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError("linalg.matrix_power: A must be batches of square matrices")
    return la.matrix_power(A, n)


# --- factorisations -------------------------------------------------------------------------------------------------


@with_out
@over_nodes("full")
def cholesky(A: Node, *, upper: bool = False) -> Node:
    """The triangular factor of symmetric positive definite matrices."""
    return decompose.cholesky(square("cholesky", A), upper=upper)


@with_out
@over_nodes("full")
def cholesky_ex(A: Node, *, upper: bool = False, check_errors: bool = False) -> Any:
    """`cholesky` that returns the number of the first minor that is not positive."""
    return return_types.linalg_cholesky_ex(*elimination.cholesky_ex(square("cholesky_ex", A), upper=upper))


@with_out
@over_nodes("full")
def qr(A: Node, mode: str = "reduced") -> Any:
    """Orthonormal columns and an upper triangular factor; the latter alone with the mode "r"."""
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}'")
    q, upper = decompose.qr(matrices("qr", A), mode="reduced" if mode == "r" else mode)
    return return_types.linalg_qr(nothing(q) if mode == "r" else q, upper)


def nothing(like: Node) -> Node:
    """An empty tensor, in place of a result that was not requested."""
    return filled((0,), 0, like.dtype, like.device)


@over_nodes("full")
def svd(A: Node, full_matrices: bool = True, *, driver: Any = None) -> Any:
    """The singular value decomposition `A = U @ diag(S) @ Vh`."""
    return return_types.linalg_svd(*decompose.svd(matrices("svd", A), full_matrices=full_matrices))


@over_nodes("full")
def svdvals(A: Node, *, driver: Any = None) -> Node:
    """The singular values, the largest first."""
    return decompose.svdvals(matrices("svdvals", A))


@over_nodes("full")
def eig(A: Node) -> Any:
    """The eigenvalues and eigenvectors of square matrices, complex numbers."""
    return return_types.linalg_eig(*decompose.eig(square("eig", A)))


@over_nodes("full")
def eigvals(A: Node) -> Node:
    """The eigenvalues of square matrices, complex numbers."""
    return decompose.eigvals(square("eigvals", A))


def _one_triangle(name: str, x: Node, UPLO: str) -> Node:
    """Symmetric matrices of which only one triangle is looked at."""
    square(name, x)
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    half = tril(x, k=-1) if UPLO.upper() == "L" else triu(x, k=1)
    middle = tril(triu(x))
    return half + la.adjoint(half) + (cast(real(middle), x.dtype) if x.dtype in COMPLEX else middle)


@over_nodes("full")
def eigh(A: Node, UPLO: str = "L") -> Any:
    """The eigenvalues, in ascending order, and eigenvectors of symmetric matrices."""
    return return_types.linalg_eigh(*decompose.eigh(_one_triangle("eigh", A, UPLO)))


@over_nodes("full")
def eigvalsh(A: Node, UPLO: str = "L") -> Node:
    """The eigenvalues of symmetric matrices, in ascending order."""
    return decompose.eigvalsh(_one_triangle("eigvalsh", A, UPLO))


def pivoted(pivots: Node) -> Node:
    """The pivots, counted from 1."""
    return pivots + 1


@over_nodes("full")
def lu_factor(A: Node, *, pivot: bool = True) -> Any:
    """The LU factorisation, packed for `lu_solve`."""
    packed, pivots = elimination.lu_factor(with_pivots("lu_factor", A, pivot))
    return return_types.linalg_lu_factor(packed, pivoted(pivots))


@over_nodes("full")
def lu_factor_ex(A: Node, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """`lu_factor`, and the number of the first zero pivot."""
    packed, pivots, info = elimination.lu_factor_ex(with_pivots("lu_factor_ex", A, pivot))
    return return_types.linalg_lu_factor_ex(packed, pivoted(pivots), info)


def with_pivots(name: str, x: Node, pivot: bool) -> Node:
    """Check that pivoting is requested; neither PyTorch nor Wengert supports LU without it on the CPU."""
    if not pivot:
        raise RuntimeError(f"linalg.{name}: LU without pivoting is not implemented on the CPU")
    return matrices(name, x)


@over_nodes("full")
def lu(A: Node, *, pivot: bool = True) -> Any:
    """The factors of `A = P @ L @ U`."""
    return return_types.linalg_lu(*elimination.lu(with_pivots("lu", A, pivot)))


@over_nodes("full")
def lu_solve(LU: Node, pivots: Node, B: Node, *, left: bool = True, adjoint: bool = False) -> Node:
    """Solve a system given the factors of its matrix."""
    if not left:
        turned = elimination.lu_solve((LU, pivots - 1), la.adjoint(B), trans=0 if adjoint else 2)
        return la.adjoint(turned)
    return elimination.lu_solve((LU, pivots - 1), B, trans=2 if adjoint else 0)


@over_nodes("full")
def householder_product(A: Node, tau: Node) -> Node:
    """The first columns of a product of Householder reflections."""
    return matrix_functions.householder_product(A, tau)


# --- systems --------------------------------------------------------------------------------------------------------


def _system(name: str, A: Node, B: Node, left: bool) -> tuple[Node, bool]:
    """The right-hand side, and whether it is a batch of vectors: one axis less, and the axes of A without its last."""
    square(name, A)
    one_dtype(f"linalg.{name}", A, B)
    vector = len(B.shape) == 1 or (len(B.shape) == len(A.shape) - 1 and B.shape == A.shape[:-1])
    if vector and not left:
        raise RuntimeError(f"linalg.{name}: Vector broadcasting of the left hand side is not supported for left=False.")
    return (reshape(B, (*B.shape, 1)) if vector else B), vector


@with_out
@over_nodes("full")
def solve(A: Node, B: Node, *, left: bool = True) -> Node:
    """Solve `A @ X = B`, or `X @ A = B`, for `X`."""
    columns, vector = _system("solve", A, B, left)
    found = la.solve(A, columns, left=left)
    return reshape(found, found.shape[:-1]) if vector else found


@with_out
@over_nodes("full")
def solve_ex(A: Node, B: Node, *, left: bool = True, check_errors: bool = False) -> Any:
    """`solve`, and the number of the first zero pivot."""
    columns, vector = _system("solve_ex", A, B, left)
    found, info = elimination.solve_ex(A, columns, left=left)
    return return_types.linalg_solve_ex(reshape(found, found.shape[:-1]) if vector else found, info)


@with_out
@over_nodes("full")
def solve_triangular(A: Node, B: Node, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Node:
    """Solve `A @ X = B` for a triangular `A`, or `X @ A = B`."""
    square("solve_triangular", A)
    return la.solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular)


@with_out
@over_nodes("full")
def inv(A: Node) -> Node:
    """The inverse of square matrices."""
    return la.inv(square("inv", A))


@with_out
@over_nodes("full")
def inv_ex(A: Node, *, check_errors: bool = False) -> Any:
    """`inv`, and the number of the first zero pivot."""
    return return_types.linalg_inv_ex(*elimination.inv_ex(square("inv_ex", A)))


@with_out
@over_nodes("full")
def pinv(A: Node, rcond: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Node:
    """The Moore-Penrose pseudo-inverse."""
    rtol = rcond if rtol is None else rtol
    return matrix_norms.pinv(matrices("pinv", A), rtol=rtol, atol=atol, hermitian=hermitian)


@with_out
@over_nodes("full")
def det(A: Node) -> Node:
    """The determinant of square matrices."""
    return la.det(square("det", A))


@with_out
@over_nodes("full")
def slogdet(A: Node) -> Any:
    """The sign of the determinant and the logarithm of its absolute value."""
    return return_types.linalg_slogdet(*la.slogdet(square("slogdet", A)))


@over_nodes("full")
def lstsq(A: Node, B: Node, rcond: Any = None, *, driver: Any = None) -> Any:
    """The `X` that minimises the sum of the squares of `A @ X - B`."""
    matrices("lstsq", A)
    vector = len(B.shape) == len(A.shape) - 1
    found = matrix_norms.lstsq(A, reshape(B, (*B.shape, 1)) if vector else B, rcond=rcond)
    solution, residuals, rank, values = found
    if driver == "gelsy" or not residuals.size:
        residuals = nothing(residuals)
    elif vector:
        residuals = reshape(residuals, residuals.shape[:-1])
    solution = reshape(solution, solution.shape[:-1]) if vector else solution
    if driver in ("gels", None):
        rank, values = (rank if driver is None else nothing(rank)), nothing(values)
    elif driver == "gelsy":
        values = nothing(values)
    return return_types.linalg_lstsq(solution, residuals, rank, values)


@with_out
@over_nodes("full")
def tensorsolve(A: Node, B: Node, dims: Any = None) -> Node:
    """Solve `tensordot(A, X, X.ndim) = B` for `X`."""
    if dims is not None:
        moved = tuple(axis_of(d, len(A.shape)) for d in dims)
        A = moveaxis(A, moved, tuple(range(len(A.shape) - len(moved), len(A.shape))))
    unknown = A.shape[len(B.shape) :]
    if math.prod(unknown) != B.size:
        raise RuntimeError("Expected self to satisfy prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim])")
    return reshape(la.solve(reshape(A, (B.size, B.size)), reshape(B, (-1,))), unknown)


@with_out
@over_nodes("full")
def tensorinv(A: Node, ind: int = 2) -> Node:
    """The inverse of a tensor as a map from its last axes to its first ones."""
    if ind <= 0:
        raise RuntimeError("Expected a strictly positive integer for 'ind'")
    return matrix_functions.tensorinv(A, ind=ind)


@over_nodes("full")
def vander(x: Node, N: int | None = None) -> Node:
    """Powers of the elements, one row each, starting from 0."""
    return matrix_functions.vander(x if x.shape else reshape(x, (1,)), N, increasing=True)


@over_nodes("full")
def matrix_exp(A: Node) -> Node:
    """The exponential of square matrices."""
    return matrix_functions.matrix_exp(square("matrix_exp", A))


@over_nodes("low")
def matmul(input: Node, other: Node) -> Node:
    """The matrix product."""
    one_dtype("matmul", input, other)
    return la.matmul(input, other)


def __getattr__(name: str) -> Any:
    return missing_attribute("torch.linalg", name)
