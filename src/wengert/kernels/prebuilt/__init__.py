"""Kernels with sizes as arguments: one text for an op and its dtypes, whatever the shapes.

They carry out single ops, for code that is not compiled: a shape that was never seen launches what is there. What a
compiled program does with its shapes known (fused groups, constant divisors, rows in registers) is faster, and takes a
compilation for each.

elements    elementwise ops, ramps, random bits, copies between places
totals      reductions
work        which op is carried out by which
"""

from wengert.kernels.prebuilt.work import work

__all__ = ["work"]
