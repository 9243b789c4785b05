"""`torch.return_types`: the named tuples returned by functions with several results."""

from __future__ import annotations

import collections
from typing import Any

_named: Any = collections.namedtuple


def _type(name: str, *fields: str) -> Any:
    """A named tuple that prints as PyTorch's does."""

    def text(self: Any) -> str:
        parts = ",\n".join(f"{field}={getattr(self, field)!r}" for field in fields)
        return f"torch.return_types.{name}(\n{parts})"

    space = {"__repr__": text, "__slots__": (), "__module__": __name__, "__doc__": f"What `torch.{name}` gives."}
    return type(name, (_named(name, fields),), space)


max = _type("max", "values", "indices")
min = _type("min", "values", "indices")
median = _type("median", "values", "indices")
nanmedian = _type("nanmedian", "values", "indices")
mode = _type("mode", "values", "indices")
sort = _type("sort", "values", "indices")
topk = _type("topk", "values", "indices")
kthvalue = _type("kthvalue", "values", "indices")
cummax = _type("cummax", "values", "indices")
cummin = _type("cummin", "values", "indices")
aminmax = _type("aminmax", "min", "max")
frexp = _type("frexp", "mantissa", "exponent")
histogram = _type("histogram", "hist", "bin_edges")
histogramdd = _type("histogramdd", "hist", "bin_edges")
qr = _type("qr", "Q", "R")
svd = _type("svd", "U", "S", "V")
triangular_solve = _type("triangular_solve", "solution", "cloned_coefficient")
lu_unpack = _type("lu_unpack", "P", "L", "U")
geqrf = _type("geqrf", "a", "tau")
linalg_eig = _type("linalg_eig", "eigenvalues", "eigenvectors")
linalg_eigh = _type("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_svd = _type("linalg_svd", "U", "S", "Vh")
linalg_qr = _type("linalg_qr", "Q", "R")
linalg_slogdet = _type("linalg_slogdet", "sign", "logabsdet")
linalg_lstsq = _type("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_cholesky_ex = _type("linalg_cholesky_ex", "L", "info")
linalg_inv_ex = _type("linalg_inv_ex", "inverse", "info")
linalg_solve_ex = _type("linalg_solve_ex", "result", "info")
linalg_lu = _type("linalg_lu", "P", "L", "U")
linalg_lu_factor = _type("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = _type("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_ldl_factor = _type("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = _type("linalg_ldl_factor_ex", "LD", "pivots", "info")
