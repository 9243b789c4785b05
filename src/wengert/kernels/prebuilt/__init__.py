"""Kernels with sizes as arguments: one text per op and dtypes, whatever the shapes.

They run single ops, for code that is not compiled: a new shape launches existing kernels. Compiled programs with known
shapes (fused groups, constant divisors, rows in registers) are faster, and need a compilation each.

    elements    elementwise ops, ramps, random bits, strided copies
    totals      reductions
    work        which kernel runs which op
"""

from wengert.kernels.prebuilt.work import work

__all__ = ["work"]
