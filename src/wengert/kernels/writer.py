"""Elementwise ops as C: the expression an op makes of its operands' scalars, casts between dtypes, and literals.

An op's template `c` is one of

    "exp"            the header's function for the dtype computed in: `wg_exp_f32(a)`
    "({0} / {1})"    a text over the operands; also `{t}` (the dtype's suffix), `{T}` (its C type), `{U}` (the unsigned
                     type to wrap around in), `{wg.NAME}` (a function of the header: `{wg.erf}_{t}({0})`), `{error}`
                     (what a function that may note an error takes first), and the node's attributes by name
    {"f": ..., "iu": ..., "b": ..., "c": ...}   one of those for each kind: floats, signed and unsigned integers,
                     booleans, complex numbers

Templates name functions by `{wg.NAME}` only: `functions` finds which are called, and a dialect may have its own.
Scalars of float16 and bfloat16 are C floats: loads widen and stores round (`widened` and `narrowed` name the
functions), and ops on them compute in float32. Only `cast` rounds to them in between, as a user's rounding stays.
Booleans are uint8_t, 0 or 1. The functions called are in math.h. Complex numbers are C's own, and in CUDA C++ structs
with operators (complex.cuh); their functions are one text for both (complex.h).

What the two writers of the loop IR share is here too: statements as text, lines, parameters. A Dialect says what C and
CUDA C++ say differently. `expression` is the one function from a computed value to its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from wengert.core.dtypes import (
    COMPLEX,
    HALF,
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
    real_of,
    uint8,
    uint16,
    uint32,
    uint64,
)
from wengert.kernels.ir.intrinsics import Intrinsic
from wengert.kernels.ir.loops import DType, Guard, Let, Literal, Load, Operand, Position
from wengert.ops.core import CAST, STOP_GRADIENT, TO_DEVICE, VARIABLE
from wengert.ops.elementwise import nextafter
from wengert.ops.op import Op

HEADER = Path(__file__).with_name("math.h")

_SUFFIXES = {
    bool_: "b8", int8: "i8", int16: "i16", int32: "i32", int64: "i64", uint8: "u8", uint16: "u16", uint32: "u32",
    uint64: "u64", float16: "f16", bfloat16: "bf16", float32: "f32", float64: "f64",
    complex64: "c64", complex128: "c128",
}  # fmt: skip
_STORED = {bool_: "uint8_t", float16: "uint16_t", bfloat16: "uint16_t", float32: "float", float64: "double"}
_STORED |= {complex64: "wg_c64", complex128: "wg_c128"}
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


def widened(dtype: np.dtype[Any], stored: str) -> str:
    """An element as read from memory, as a scalar."""
    return f"wg_from_{suffix(dtype)}({stored})" if dtype in HALF else stored


def narrowed(dtype: np.dtype[Any], scalar: str) -> str:
    """A scalar as it is written to memory."""
    return f"wg_to_{suffix(dtype)}({scalar})" if dtype in HALF else scalar


@dataclass(frozen=True, eq=False)
class Dialect:
    """The differences between C and CUDA C++."""

    restrict: str  # the qualifier of pointers that do not alias
    error: str = ""  # what a function takes first that may note an error
    fast: Mapping[str, str] = field(default_factory=dict)  # functions that a device has less exact ones of, and these


C = Dialect("restrict")


def c_expression(
    op: Op | Intrinsic,
    dtype: np.dtype[Any],
    operands: Sequence[str],
    attrs: Mapping[str, Any] | None = None,
    dialect: Dialect = C,
    fast: bool = False,
) -> str | None:
    """An elementwise op applied to scalars, or None where it has no C form.

    `dtype` is that of the last operand, in which the op computes. Operands are names or literals: a template may use
    one twice. `fast`: a dialect's less exact functions serve.

    >>> from wengert.ops.elementwise import add, exp
    >>> c_expression(exp, float32, ["x"]), c_expression(add, float64, ["a", "b"])
    ('wg_exp_f32(x)', '(a + b)')
    """
    attrs = attrs or {}
    if op is CAST:
        return c_cast(dtype, attrs["dtype"], operands[0])
    template = _template(op, dtype)
    if template is None:
        return None
    compute = float32 if dtype in HALF and op is not nextafter else dtype
    resolved, _ = _resolved(template, compute, len(operands), tuple(attrs), dialect, fast)
    return resolved.format(*operands, **attrs)


def has_expression(op: Op | Intrinsic, dtype: np.dtype[Any], attrs: Mapping[str, Any]) -> bool:
    """Whether an elementwise op has a form for a dtype; see `c_expression`."""
    if op is CAST:
        return c_cast(dtype, attrs["dtype"], "x") is not None
    return _template(op, dtype) is not None


def functions(op: Op | Intrinsic, dtype: np.dtype[Any], attrs: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The header's functions that an op calls, without their suffixes.

    >>> from wengert.ops.elementwise import add, exp
    >>> functions(exp, float32), functions(add, float64)
    (('exp',), ())
    """
    attrs = attrs or {}
    if op is CAST:
        name = cast_function(dtype, attrs["dtype"])
        return () if name is None else (name,)
    template = _template(op, dtype)
    return () if template is None else _resolved(template, dtype, 1, tuple(attrs), C, False)[1]


class _Functions:
    """`{wg.NAME}` in templates: the name of a function of the header, which is noted."""

    def __init__(self, other: Mapping[str, str]) -> None:
        self._other = other
        self._called: list[str] = []

    def __getattr__(self, name: str) -> str:
        self._called.append(name)
        return f"wg_{self._other.get(name, name)}"


@lru_cache(maxsize=1 << 12)
def _resolved(
    template: str, dtype: np.dtype[Any], count: int, attributes: tuple[str, ...], dialect: Dialect, fast: bool
) -> tuple[str, tuple[str, ...]]:
    """A template for a dtype, with nothing left to fill in but operands and attributes; and what it calls."""
    operands = [f"{{{k}}}" for k in range(max(count, 4))]
    if template.isidentifier():
        template = f"{{wg.{template}}}_{{t}}({', '.join(operands[:count])})"
    called = _Functions(dialect.fast if fast and dtype is float32 else {})
    kinds = {"t": suffix(dtype), "T": scalar_type(dtype), "U": _wrapping_type(dtype)}
    names = {name: f"{{{name}}}" for name in attributes}
    return template.format(*operands, **kinds, wg=called, error=dialect.error, **names), tuple(called._called)


def _template(op: Op | Intrinsic, dtype: np.dtype[Any]) -> str | None:
    if op in (VARIABLE, STOP_GRADIENT, TO_DEVICE):
        return "{0}"
    if not isinstance(op.c, dict):
        return op.c
    kind = "f" if dtype in HALF else dtype.kind
    return next((template for kinds, template in op.c.items() if kind in kinds), None)


def _wrapping_type(dtype: np.dtype[Any]) -> str:
    """C widens 8 and 16 bits to int, where the product of two of 16 bits would overflow."""
    return "uint64_t" if dtype.itemsize == 8 else "uint32_t"


def c_cast(source: np.dtype[Any], target: np.dtype[Any], operand: str) -> str | None:
    """A scalar of one dtype in another, as NumPy casts; None from complex numbers to real ones, which `real` is for.

    >>> c_cast(float32, int32, "x"), c_cast(int64, uint8, "x"), c_cast(float32, bfloat16, "x")
    ('wg_f32_to_i32(x)', '((uint8_t)x)', 'wg_round_bf16(x)')
    """
    if source in COMPLEX or target in COMPLEX:
        return _complex_cast(source, target, operand)
    if casts_for_nothing(source, target):
        return operand
    if target is bool_:
        return f"({operand} != 0)"
    function = cast_function(source, target)
    if function is None:
        return f"(({scalar_type(target)}){operand})"
    takes_float = target in HALF and function != "round_f16_f64"
    is_float = source is float32 or source in HALF
    return f"wg_{function}((float){operand})" if takes_float and not is_float else f"wg_{function}({operand})"


def _complex_cast(source: np.dtype[Any], target: np.dtype[Any], operand: str) -> str | None:
    if source is target:
        return operand
    if target is bool_:
        return f"({operand} != 0)"
    if target not in COMPLEX:
        return None
    made, part = f"wg_of_parts_{suffix(target)}", scalar_type(real_of(target))
    if source in COMPLEX:
        own = suffix(source)
        return f"{made}(({part})wg_real_{own}({operand}), ({part})wg_imag_{own}({operand}))"
    return f"{made}(({part}){operand}, 0)"


def casts_for_nothing(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether a scalar of one dtype is one of the other."""
    return source is target or (source in HALF and target is float32)


def cast_function(source: np.dtype[Any], target: np.dtype[Any]) -> str | None:
    """The header's function that casts a scalar, if C's own casts do not."""
    if source in COMPLEX or target in COMPLEX or casts_for_nothing(source, target):
        return None
    if target in HALF:
        # from float64 to float16 in one step: by way of float32 a number would be rounded twice
        return "round_f16_f64" if source is float64 and target is float16 else f"round_{suffix(target)}"
    if target.kind in "iu" and (source.kind == "f" or source in HALF):
        return f"{'f64' if source is float64 else 'f32'}_to_{suffix(target)}"
    return None


_LIMITS = {
    (dtype, limit): f"{dtype.name.upper()}_{name}"
    for dtype in (int8, int16, int32, int64)
    for name, limit in (("MIN", np.iinfo(dtype).min), ("MAX", np.iinfo(dtype).max))
}


def c_literal(value: Any, dtype: np.dtype[Any]) -> str | None:
    """A number as C text, exactly the value NumPy has for it in this dtype.

    >>> c_literal(0.1, float32), c_literal(-1, int64), c_literal(float("inf"), float64)
    ('0.1f', '(-1LL)', '__builtin_inf()')
    """
    if dtype in COMPLEX:
        number, part = np.asarray(value, dtype), real_of(dtype)
        return f"wg_of_parts_{suffix(dtype)}({c_literal(number.real, part)}, {c_literal(number.imag, part)})"
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


# --- writer ---------------------------------------------------------------------------------------------------------


ERROR = "wg_error"  # the buffer of the flag that a kernel sets which met an index out of range
CUDA = Dialect("__restrict__", f"{ERROR}, ", {"exp": "quick_exp", "sigmoid": "quick_sigmoid"})


class Page:
    """Lines of text, indented."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.depth + text)

    def open(self, text: str = "") -> None:
        """Begin a block."""
        self.line(f"{text} {{" if text else "{")
        self.depth += 1

    def close(self, count: int = 1) -> None:
        """End some blocks."""
        for _ in range(count):
            self.depth -= 1
            self.line("}")


# --- values -----------------------------------------------------------------------------------------------------------


def expression(let: Let, dialect: Dialect) -> str:
    """A value's expression, or 0 where a guard fails."""
    operands = [one if isinstance(one, str) else _literal_text(one) for one in let.operands]
    attributes = dict(let.attributes) if let.attributes else None
    text = c_expression(let.op, let.computed_in, operands, attributes, dialect, let.fast)
    assert text is not None, f"{let.op} has no C form for {let.computed_in}"
    return guarded(text, let.guards, str(c_literal(0, let.dtype))) if let.guards else text


def loaded(load: Load, element: str) -> str:
    """A loaded element as a scalar, and 0 where a guard does not hold."""
    return guarded(widened(load.dtype, element), load.guards)


def position_text(position: Position) -> str:
    """A place as a number."""
    if position.dtype in COMPLEX:
        return str(c_cast(int64, position.dtype, f"({position.index})"))
    return f"({scalar_type(position.dtype)})({position.index})"


def operand_text(operand: Operand) -> str:
    """A name, or a number."""
    return operand if isinstance(operand, str) else _literal_text(operand)


@lru_cache(maxsize=1 << 12)
def _literal_text(number: Literal) -> str:
    return str(c_literal(number.value, number.dtype))


def guarded(text: str, guards: Iterable[Guard], otherwise: str = "0") -> str:
    """A value where guards hold, and something else where they do not."""
    conditions = " && ".join(map(guard_text, guards))
    return f"({conditions}) ? {text} : {otherwise}" if conditions else text


def guard_text(guard: Guard) -> str:
    """A guard as a condition."""
    text = f"{guard.index} >= {guard.low} && {guard.index} < {guard.high}"
    return text if guard.step == 1 else f"{text} && ({guard.index} - {guard.low}) % {guard.step} == 0"


def functions_of(let: Let) -> tuple[str, ...]:
    """The functions of the header that a value's expression calls."""
    return functions(let.op, let.computed_in, dict(let.attributes) if let.attributes else None)


# --- parameters -------------------------------------------------------------------------------------------------------


def parameter(dtype: DType, is_written: bool, name: str, dialect: Dialect) -> str:
    """How a buffer is declared."""
    return f"{'' if is_written else 'const '}{stored_type(dtype)} *{dialect.restrict} {name}"


def parameters(
    buffers: Mapping[str, tuple[DType, bool]], names: Mapping[str, str], dialect: Dialect
) -> tuple[str, ...]:
    """How buffers are declared, by what they are called."""
    return tuple(parameter(dtype, written, names[name], dialect) for name, (dtype, written) in buffers.items())
