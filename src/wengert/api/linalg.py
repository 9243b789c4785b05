"""`wg.linalg`: the linear algebra extension of the Array API standard, and a little more.

Matrices are the last two axes; the axes before them are a batch. A matrix that cannot be factorised or inverted raises
an error when the result is read, naming the line that requested it.
"""

from __future__ import annotations

from wengert.api.functions import cross, diagonal, matmul, matrix_transpose, outer, tensordot, trace, vecdot
from wengert.api.lift import lift
from wengert.api.spelling_hints import module_attribute as _module_attribute
from wengert.core.pickled_names import name_by_place as _name_by_place
from wengert.ops import contract as _contract
from wengert.ops import decompose as _decompose
from wengert.ops import linalg as _linalg
from wengert.ops import lu as _lu
from wengert.ops import matrix_functions as _functions
from wengert.ops import matrix_norms as _norms

cholesky = lift(_decompose.cholesky)
cholesky_ex = lift(_lu.cholesky_ex)
cholesky_inverse = lift(_lu.cholesky_inverse)
cholesky_solve = lift(_lu.cholesky_solve)
cond = lift(_norms.cond, precision="full")
det = lift(_linalg.det)
eig = lift(_decompose.eig)
eigh = lift(_decompose.eigh)
eigvals = lift(_decompose.eigvals)
eigvalsh = lift(_decompose.eigvalsh)
householder_product = lift(_functions.householder_product, precision="full")
inv = lift(_linalg.inv)
inv_ex = lift(_lu.inv_ex)
logdet = lift(_functions.logdet, precision="full")
lstsq = lift(_norms.lstsq, precision="full")
lu = lift(_lu.lu)
lu_factor = lift(_lu.lu_factor)
lu_factor_ex = lift(_lu.lu_factor_ex)
lu_solve = lift(_lu.lu_solve)
matrix_exp = lift(_functions.matrix_exp)
matrix_norm = lift(_norms.matrix_norm, precision="full")
matrix_power = lift(_linalg.matrix_power)
matrix_rank = lift(_norms.matrix_rank)
multi_dot = lift(_contract.multi_dot, precision="low")
pinv = lift(_norms.pinv)
qr = lift(_decompose.qr)
slogdet = lift(_linalg.slogdet)
solve = lift(_linalg.solve)
solve_ex = lift(_lu.solve_ex)
solve_triangular = lift(_linalg.solve_triangular)
svd = lift(_decompose.svd)
svdvals = lift(_decompose.svdvals)
tensorinv = lift(_functions.tensorinv, precision="full")
tensorsolve = lift(_functions.tensorsolve, precision="full")
triangular_solve = lift(_linalg.triangular_solve)
vander = lift(_functions.vander, precision="full")
vector_norm = lift(_norms.vector_norm, precision="full")
_name_by_place(globals())

__all__ = [
    "cholesky",
    "cholesky_ex",
    "cholesky_inverse",
    "cholesky_solve",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "logdet",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "triangular_solve",
    "vander",
    "vecdot",
    "vector_norm",
]


def __getattr__(name: str) -> object:
    return _module_attribute(name, __all__, __name__)


def __dir__() -> list[str]:
    return sorted(__all__)
