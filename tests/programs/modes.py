"""The modes: which dtypes a program is of, and which steps it grows by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tests.programs import steps_elementwise, steps_kinds, steps_products, steps_rows, steps_shapes
from tests.programs.step import Step
from wengert.core.dtypes import (
    INTEGER,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)

PORTABLE = (int8, int16, int32, int64)  # the integers that PyTorch computes with, and adds up in the same dtype
_UNSIGNED = frozenset(INTEGER) - frozenset(PORTABLE)


class Mode(NamedTuple):
    """What programs are made of."""

    number: int
    dtypes: tuple[Any, ...]  # one of which is a program's own
    beside: tuple[Any, ...]  # of further inputs
    inexact: tuple[Any, ...]  # what counts as the program's own kind
    floats: tuple[Any, ...]
    integers: tuple[Any, ...]
    tables: tuple[tuple[Step, ...], ...]

    def portable(self) -> Mode:
        """The mode with the integers that PyTorch computes with."""
        own = tuple(dtype for dtype in self.dtypes if dtype not in INTEGER or dtype in PORTABLE)
        return self._replace(dtypes=own, integers=PORTABLE, beside=tuple(d for d in self.beside if d not in _UNSIGNED))

    def steps(self, portable: bool) -> list[Callable[..., str]]:
        """The steps, each as often as it weighs."""
        chosen = [step for table in self.tables for step in table if step.portable or not portable]
        return [step.text for step in chosen for _ in range(step.weight)]


_REAL = (steps_elementwise.REAL, steps_shapes.ANY, steps_rows.REAL, steps_rows.INEXACT, steps_products.INEXACT)
_REAL += (steps_products.REAL, steps_kinds.MIXED)
_COMPLEX = (steps_elementwise.COMPLEX, steps_shapes.ANY, steps_rows.INEXACT, steps_products.INEXACT)
_COMPLEX += (steps_kinds.COMPLEX,)
_INTEGER = (*[steps_kinds.INTEGER] * 3, steps_shapes.ANY, steps_shapes.ANY, steps_kinds.MIXED, steps_elementwise.REAL)
_INTEGER += (steps_rows.REAL, steps_rows.INEXACT)


def _real(number: int, dtype: Any, *others: Any) -> Mode:
    beside = (dtype, *others, int32, int64, bool_, uint8)
    floats = (dtype, *others)
    return Mode(number, (dtype,), beside, floats, floats, INTEGER, _REAL)


def _complex(number: int, dtype: Any, part: Any) -> Mode:
    return Mode(number, (dtype,), (dtype, part, part), (dtype, part), (part,), (int64,), _COMPLEX)


def _integer(number: int, integers: tuple[Any, ...]) -> Mode:
    beside = (float32, float32, float64, bool_, *integers)
    return Mode(number, integers, beside, (float32, float64), (float32, float64), integers, _INTEGER)


MODES = {
    "compile": _real(0, float32, float64),
    "float64": _real(1, float64, float32),
    "float16": _real(2, float16, float32),
    "bfloat16": _real(3, bfloat16, float32),
    "integers": _integer(4, INTEGER),
    "complex64": _complex(5, complex64, float32),
    "complex128": _complex(6, complex128, float64),
}
