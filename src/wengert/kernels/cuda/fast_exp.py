"""Exponentials of what is known to half precision: by the device's own power of two, without the steps beyond it.

An element that was loaded as bfloat16 or float16 carries an error a thousand times that of float32, which the
exponential multiplies. The instruction for a power of two, within 2 ulp, serves as well as a full exponential, and a
softmax over half precision, gelu and its derivative are bound by memory instead of arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from wengert.core.dtypes import HALF
from wengert.kernels.ir.loops import Let, Load, LoopKernel, Stage, Statement
from wengert.kernels.ir.match import uses
from wengert.kernels.ir.transforms import statements_of


def with_fast_exponentials(kernel: LoopKernel) -> LoopKernel:
    """The kernel with fast exponentials of values in half precision."""
    if not any(isinstance(s, Load) and s.dtype in HALF for s in statements_of(kernel)):
        return kernel
    known: set[str] = set()  # values of half precision
    stages = [Stage(_changed(stage.before, known), _changed(stage.inside, known)) for stage in kernel.stages]
    return replace(kernel, stages=stages, after=_changed(kernel.after, known))


def _changed(statements: Iterable[Statement], known: set[str]) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Load) and statement.dtype in HALF:
            known.add(statement.name)
        if isinstance(statement, Let) and not known.isdisjoint(uses(statement)):
            known.add(statement.name)
            statement = replace(statement, fast=True)
        found.append(statement)
    return found
