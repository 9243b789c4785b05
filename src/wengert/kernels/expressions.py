"""Elementwise ops as C: the expression an op makes of its operands' scalars, casts between dtypes, and literals.

An op's template `c` is one of

    "exp"            the header's function for the dtype computed in: `wg_exp_f32(a)`
    "({0} / {1})"    a text over the operands; also `{t}` (the dtype's suffix), `{T}` (its C type), `{U}` (the unsigned
                     type to wrap around in), and the node's attributes by name
    {"f": ..., "iu": ..., "b": ...}     one of those for each kind: floats, signed and unsigned integers, booleans

Scalars of float16 and bfloat16 are C floats: loads widen and stores round (`load` and `store` name the functions), and
ops on them compute in float32. Only `cast` rounds to them in between, as a user's rounding stays. Booleans are uint8_t,
0 or 1. Complex numbers have no C form, and `c_expression` gives None. The functions called are in math.h.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wengert.core.dtypes import (
    COMPLEX,
    HALF,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from wengert.kernels.ir.index_map import Guard
from wengert.kernels.ir.loops import Let
from wengert.ops.core import CAST, STOP_GRADIENT, TO_DEVICE, VARIABLE
from wengert.ops.elementwise import nextafter
from wengert.ops.op import Op

HEADER = Path(__file__).with_name("math.h")

_SUFFIXES = {
    bool_: "b8", int8: "i8", int16: "i16", int32: "i32", int64: "i64", uint8: "u8", uint16: "u16", uint32: "u32",
    uint64: "u64", float16: "f16", bfloat16: "bf16", float32: "f32", float64: "f64",
}  # fmt: skip
_STORED = {bool_: "uint8_t", float16: "uint16_t", bfloat16: "uint16_t", float32: "float", float64: "double"}
_STORED |= {dtype: f"{dtype.name}_t" for dtype in _SUFFIXES if dtype not in _STORED}


def suffix(dtype: np.dtype[Any]) -> str:
    """How the header's functions of a dtype end: f32, i64, b8."""
    return _SUFFIXES[dtype]


def stored_type(dtype: np.dtype[Any]) -> str:
    """The C type of an element in memory."""
    return _STORED[dtype]


def scalar_type(dtype: np.dtype[Any]) -> str:
    """The C type of an element in an expression."""
    return "float" if dtype in HALF else stored_type(dtype)


def load(dtype: np.dtype[Any], stored: str) -> str:
    """An element as read from memory, as a scalar."""
    return f"wg_from_{suffix(dtype)}({stored})" if dtype in HALF else stored


def store(dtype: np.dtype[Any], scalar: str) -> str:
    """A scalar as it is written to memory."""
    return f"wg_to_{suffix(dtype)}({scalar})" if dtype in HALF else scalar


def c_expression(
    op: Op, dtype: np.dtype[Any], operands: Sequence[str], attrs: Mapping[str, Any] | None = None
) -> str | None:
    """An elementwise op applied to scalars, or None where it has no C form.

    `dtype` is that of the last operand, in which the op computes. Operands are names or literals: a template may use
    one twice.

    >>> from wengert.ops.elementwise import add, exp
    >>> c_expression(exp, float32, ["x"]), c_expression(add, float64, ["a", "b"])
    ('wg_exp_f32(x)', '(a + b)')
    """
    attrs = attrs or {}
    if op is CAST:
        return c_cast(dtype, attrs["dtype"], operands[0])
    if op in (VARIABLE, STOP_GRADIENT, TO_DEVICE):
        return operands[0]
    template = None if dtype in COMPLEX else _template(op, dtype)
    if template is None:
        return None
    compute = float32 if dtype in HALF and op is not nextafter else dtype
    if template.isidentifier():
        return f"wg_{template}_{suffix(compute)}({', '.join(operands)})"
    return template.format(*operands, t=suffix(compute), T=scalar_type(compute), U=_wrapping_type(compute), **attrs)


def _template(op: Op, dtype: np.dtype[Any]) -> str | None:
    if not isinstance(op.c, dict):
        return op.c
    kind = "f" if dtype in HALF else dtype.kind
    return next((template for kinds, template in op.c.items() if kind in kinds), None)


def _wrapping_type(dtype: np.dtype[Any]) -> str:
    """C widens 8 and 16 bits to int, where the product of two of 16 bits would overflow."""
    return "uint64_t" if dtype.itemsize == 8 else "uint32_t"


def c_cast(source: np.dtype[Any], target: np.dtype[Any], operand: str) -> str | None:
    """A scalar of one dtype in another, as NumPy casts; None for complex numbers.

    >>> c_cast(float32, int32, "x"), c_cast(int64, uint8, "x"), c_cast(float32, bfloat16, "x")
    ('wg_f32_to_i32(x)', '((uint8_t)x)', 'wg_round_bf16(x)')
    """
    if source in COMPLEX or target in COMPLEX:
        return None
    if source is target or (source in HALF and target is float32):
        return operand
    if target is bool_:
        return f"({operand} != 0)"
    if target in HALF:
        # from float64 to float16 in one step: by way of float32 a number would be rounded twice
        if source is float64 and target is float16:
            return f"wg_round_f16_f64({operand})"
        scalar = operand if source is float32 or source in HALF else f"(float){operand}"
        return f"wg_round_{suffix(target)}({scalar})"
    if target.kind in "iu" and (source.kind == "f" or source in HALF):
        return f"wg_{'f64' if source is float64 else 'f32'}_to_{suffix(target)}({operand})"
    return f"(({scalar_type(target)}){operand})"


_LIMITS = {
    (dtype, limit): f"{dtype.name.upper()}_{name}"
    for dtype in (int8, int16, int32, int64)
    for name, limit in (("MIN", np.iinfo(dtype).min), ("MAX", np.iinfo(dtype).max))
}


def c_literal(value: Any, dtype: np.dtype[Any]) -> str | None:
    """A number as C text, exactly the value NumPy has for it in this dtype; None for complex numbers.

    >>> c_literal(0.1, float32), c_literal(-1, int64), c_literal(float("inf"), float64)
    ('0.1f', '(-1LL)', '__builtin_inf()')
    """
    if dtype in COMPLEX:
        return None
    number = np.asarray(value, dtype)
    if dtype.kind == "f" or dtype in HALF:
        return _float_literal(number.astype(float32) if dtype in HALF else number)
    if dtype is bool_:
        return str(int(number))
    integer = int(number)
    if (dtype, integer) in _LIMITS:
        return _LIMITS[dtype, integer]
    text = str(integer) + {int64: "LL", uint64: "ULL", uint32: "u"}.get(dtype, "")
    return f"({text})" if integer < 0 else text


def _float_literal(number: np.ndarray[Any, Any]) -> str:
    """The shortest decimal that reads back as the same number, which C's compilers round correctly."""
    end = "f" if number.dtype == float32 else ""
    if np.isnan(number):
        return f'__builtin_nan{end}("")'
    if np.isinf(number):
        return f"(-__builtin_inf{end}())" if number < 0 else f"__builtin_inf{end}()"
    text = str(number[()])
    return f"({text}{end})" if np.signbit(number) else text + end


def let_text(let: Let) -> str:
    """The expression that a name stands for."""
    if not let.guards:
        return let.text
    return f"({' && '.join(map(guard_text, let.guards))}) ? {let.text} : {c_literal(0, let.dtype)}"


def guard_text(guard: Guard) -> str:
    """A guard as a C condition."""
    text = f"{guard.index} >= {guard.low} && {guard.index} < {guard.high}"
    return text if guard.step == 1 else f"{text} && ({guard.index} - {guard.low}) % {guard.step} == 0"
