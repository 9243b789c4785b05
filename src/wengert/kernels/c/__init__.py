"""The C of a kernel: loops, OpenMP over the outer ones, SIMD in the innermost, indented and named for readers.

Three shapes of work:

    elements   no reduction: the loops are merged as far as the indices allow, the last one is vectorised
    rows       the reduced axes are the innermost in memory: a row at a time, vectorised along it
    lanes      they are not: neighbouring rows are worked on together, many at a time, vectorised across them

A sum over everything, or down the columns, is cut into a fixed number of parts that are added up in order: the same
bits whatever the number of threads.
"""

from wengert.kernels.c.write import Function, FunctionCall, shared_name, write, write_rows

__all__ = ["Function", "FunctionCall", "shared_name", "write", "write_rows"]
