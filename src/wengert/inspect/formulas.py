"""A function of a few numbers as JavaScript, so that a page can recompute its numbers while a slider moves.

In: a recorded computation whose nodes have one element each. Out: an expression for every node and every local
derivative, derived from each op's C template; None if an op has no such form. JavaScript computes in float64, and
results are rounded to float32 where a node has that dtype.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from wengert.core.dtypes import bool_, float32, float64
from wengert.core.graph import Node, has_array
from wengert.inspect.recorded import RecordedCall
from wengert.kernels.writer import c_expression, functions
from wengert.ops.core import CAST, LITERAL

if TYPE_CHECKING:
    from wengert.inspect.adjoints import Adjoints

_OF_MATH = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "cos", "cosh", "exp", "expm1"),
    *("floor", "hypot", "log", "log10", "log1p", "log2", "pow", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)
_ERF = (  # 2 / sqrt(pi) e^(-a^2) (a + 2 a^3 / 3 + 4 a^5 / 15 + ...)
    "const a = Math.abs(x); let term = (2 / Math.sqrt(Math.PI)) * Math.exp(-a * a) * a, sum = term;"
    " for (let n = 1; a < 6 && term > 1e-17 * sum; n++) { term *= (2 * a * a) / (2 * n + 1); sum += term; }"
)
_TAIL = (  # e^(-a^2) / sqrt(pi) / (a + 1/2 / (a + 2/2 / (a + 3/2 / ...)))
    "let tail = a; for (let n = 100; n > 0; n--) tail = a + n / 2 / tail;"
    " tail = Math.exp(-a * a) / Math.sqrt(Math.PI) / tail;"
)
FUNCTIONS = {name: f"Math.{name}" for name in _OF_MATH}
FUNCTIONS |= {
    "maximum": "Math.max",  # NaN wins in both languages
    "minimum": "Math.min",
    "square": "(x) => x * x",
    "safe_multiply": "(g, d) => (g === 0 ? 0 : g * d)",
    "sigmoid": "(x) => 1 / (1 + Math.exp(-x))",
    "erf": f"(x) => {{ {_ERF} return Math.sign(x) * (a < 6 ? sum : 1); }}",
    "erfc": f"(x) => {{ {_ERF} {_TAIL} const upper = a < 2 ? 1 - sum : tail; return x < 0 ? 2 - upper : upper; }}",
    "logaddexp": "(a, b) => (a === b ? a + Math.LN2 : Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b))))",
    "round": "(x) => { const f = Math.floor(x), r = x - f;"
    " return r < 0.5 ? f : r > 0.5 ? f + 1 : f % 2 === 0 ? f : f + 1; }",
    "copysign": "(x, s) => (s < 0 || Object.is(s, -0) ? -Math.abs(x) : Math.abs(x))",
    "isfinite": "(x) => +Number.isFinite(x)",
    "isinf": "(x) => +(Math.abs(x) === Infinity)",
    "remainder": "(a, b) => { const r = a % b; return r !== 0 && r < 0 !== b < 0 ? r + b : r; }",
    "floor_divide": "(a, b) => Math.floor(a / b)",
}
"""What the header's functions (kernels/math.h) are in JavaScript."""

_CALL = re.compile(r"\bwg_(\w+)_f64\(")
_FOREIGN = re.compile(r"_t\)|0x|__|\bwg_|\(double\)[^-\d.]|\d[fL]")  # C that is not JavaScript
_EXACT = frozenset({"sum", "max", "min", "prod"})  # reductions that of one element give that element
_MOST_INPUTS, _MOST_NODES = 6, 400

Operand = Callable[[Node], str | None]


def formulas(recorded: RecordedCall, numbers: Mapping[Node, int], adjoints: Adjoints) -> dict[str, Any] | None:
    """What a page needs to recompute a function of a few numbers; None for any other computation."""
    nodes = [*recorded.forward, *recorded.backward]
    inputs = [node for node in recorded.inputs if node in numbers and node.dtype.kind == "f"]
    if not 0 < len(inputs) <= _MOST_INPUTS or len(nodes) > _MOST_NODES or not all(map(_is_number, nodes)):
        return None
    if any(node not in recorded.values for node in nodes):
        return None
    written = _Writing(recorded, numbers)
    steps = [(numbers[node], written.step(node)) for node in nodes if node not in recorded.given]
    derivatives = []
    for node in recorded.forward:
        for i, each in enumerate(one for one in adjoints.local[node] if one.source in numbers):
            if each.node is not None:
                one = adjoints.cotangent_of_rule.get(node)
                derivatives.append((numbers[node], i, written.expression(each.node, one)))
    if any(text is None for *_, text in [*steps, *derivatives]):
        return None
    return {
        "inputs": [[numbers[node], float(np.ravel(recorded.values[node])[0])] for node in inputs],
        "given": {str(numbers[node]): _as_number(recorded.values[node]) for node in nodes if node in recorded.given},
        "functions": {name: FUNCTIONS[name] for name in sorted(written.called)},
        "steps": [list(step) for step in steps],
        "derivatives": [list(each) for each in derivatives],
    }


def _is_number(node: Node) -> bool:
    return not isinstance(node.dtype, tuple) and node.size == 1 and node.dtype.kind in "fiub"


def _as_number(value: Any) -> float:
    return float(np.ravel(value)[0])


class _Writing:
    """Nodes as JavaScript over `v`, the values by number, and `f`, the functions; notes which are called."""

    def __init__(self, recorded: RecordedCall, numbers: Mapping[Node, int]) -> None:
        self._recorded = recorded
        self._numbers = numbers
        self.called: set[str] = set()

    def step(self, node: Node) -> str | None:
        """A node over those before it."""
        return self._written(node, self._operand)

    def expression(self, node: Node, one: Node | None) -> str | None:
        """A node that is not on the page over those that are; `one` is 1."""
        if node is one:
            return "1"
        if node in self._numbers:
            return f"v[{self._numbers[node]}]"
        if not _is_number(node):
            return None
        return self._written(node, lambda source: self.expression(source, one))

    def _operand(self, node: Node) -> str | None:
        return f"v[{self._numbers[node]}]" if node in self._numbers else self.expression(node, None)

    def _written(self, node: Node, operand: Operand) -> str | None:
        if node.op is LITERAL:
            return _constant(node.attrs["value"])
        if has_array(node) and not node.sources:
            return _constant(_as_number(node.buffer))
        if not node.sources or not all(map(_is_number, node.sources)):
            return None
        operands = [operand(source) for source in node.sources]
        if any(text is None for text in operands):
            return None
        text = self._applied(node, operands)  # type: ignore[arg-type]
        return f"Math.fround({text})" if text is not None and node.dtype is float32 else text

    def _applied(self, node: Node, operands: list[str]) -> str | None:
        op, kind = node.op, node.op.kind
        if op is CAST:
            return _cast(node, operands[0])
        if kind in ("identity", "movement") or (kind == "reduction" and op.name in _EXACT):
            return operands[0] if len(operands) == 1 else None
        if kind != "elementwise" or node.sources[-1].dtype.kind not in "fb":
            return None
        dtype = float64 if node.sources[-1].dtype.kind == "f" else bool_
        try:
            text = c_expression(op, dtype, operands, node.attrs)
            called = functions(op, dtype, node.attrs)
        except KeyError:  # an attribute that it is made for
            return None
        if text is None or not set(called) <= FUNCTIONS.keys():
            return None
        text = _CALL.sub(r"f.\1(", text)
        if _FOREIGN.search(text):
            return None
        self.called |= set(called)
        text = text.replace("(double)", "")
        return f"+({text})" if node.dtype is bool_ else text


def _cast(node: Node, operand: str) -> str | None:
    if node.dtype.kind == "f":
        return f"+({operand})"
    if node.dtype is bool_:
        return f"+({operand} !== 0)"
    return f"Math.trunc({operand})"


def _constant(value: Any) -> str:
    value = float(value)
    if math.isfinite(value):
        return f"({value!r})"
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "(-Infinity)"
