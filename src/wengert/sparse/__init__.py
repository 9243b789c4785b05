"""`wg.sparse`: sparse matrices as values, and sparse Jacobians and Hessians.

`matrix` has the values (`csr`, `spsolve`). A Jacobian's structure is read off the graph by the rules in `structure`,
`coloring` says which columns or rows share a product, `jacobian` has the functions users call, `picture` draws.
SciPy is imported when one of them is called.
"""

from wengert.sparse.matrix import CSR, csr, eye, spsolve

__all__ = ["CSR", "csr", "eye", "spsolve"]
