"""Solvers whose solutions are differentiated by the implicit function theorem: roots, minima, linear systems.

`implicit` has the op that knows what equation its value solves; `krylov` the iterations for linear systems, `linear`,
`nonlinear` and `minima` the functions users call.
"""
