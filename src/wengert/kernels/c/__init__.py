"""The C of a kernel: loops, OpenMP over the outer ones, SIMD in the innermost, indented and with readable names.

Work has one of three shapes:

    elements   no reduction: loops are merged as far as the indices allow, and the last one is vectorised
    rows       the reduced axes are innermost in memory: one row at a time, vectorised along it
    lanes      they are not: many neighbouring rows at a time, vectorised across them

A sum over everything, or down the columns, is cut into a fixed number of parts that are added in order, so that the
bits do not depend on the number of threads.
"""

from wengert.kernels.c.write import Function, FunctionCall, shared_name, write, write_rows

__all__ = ["Function", "FunctionCall", "shared_name", "write", "write_rows"]
