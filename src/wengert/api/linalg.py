"""`wg.linalg`: the linear algebra extension of the Array API standard, and a little more.

Matrices are the last two axes; the axes before them are a batch. A matrix that cannot be factorised or inverted raises
when the result is looked at, naming the line that asked for it.
"""

from __future__ import annotations

from wengert.api.functions import cross, diagonal, matmul, matrix_transpose, outer, tensordot, trace, vecdot
from wengert.api.lift import lift
from wengert.api.spelling_hints import module_attribute as _module_attribute
from wengert.ops import contract as _contract
from wengert.ops import decompose as _decompose
from wengert.ops import linalg as _linalg

cholesky = lift(_decompose.cholesky)
det = lift(_linalg.det)
eigh = lift(_decompose.eigh)
eigvalsh = lift(_decompose.eigvalsh)
inv = lift(_linalg.inv)
matrix_norm = lift(_decompose.matrix_norm, precision="full")
matrix_power = lift(_linalg.matrix_power)
matrix_rank = lift(_decompose.matrix_rank)
multi_dot = lift(_contract.multi_dot, precision="low")
pinv = lift(_decompose.pinv)
qr = lift(_decompose.qr)
slogdet = lift(_linalg.slogdet)
solve = lift(_linalg.solve)
svd = lift(_decompose.svd)
svdvals = lift(_decompose.svdvals)
triangular_solve = lift(_linalg.triangular_solve)
vector_norm = lift(_decompose.vector_norm, precision="full")

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
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
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "triangular_solve",
    "vecdot",
    "vector_norm",
]


def __getattr__(name: str) -> object:
    return _module_attribute(name, __all__, __name__)


def __dir__() -> list[str]:
    return sorted(__all__)
