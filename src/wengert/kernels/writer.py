"""What the two writers of the loop IR share: statements as text, lines, parameters.

A Dialect says what C and CUDA C++ say differently. `expression` is the one function from a computed value to its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from wengert.kernels.expressions import Dialect, c_expression, c_literal, functions, scalar_type, stored_type
from wengert.kernels.expressions import load as widened
from wengert.kernels.ir.index_map import Guard
from wengert.kernels.ir.loops import DType, Let, Literal, Load, Operand, Position

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
    """What a value is computed by, and 0 where a guard does not hold."""
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
