"""Examples of the elementwise functions, which exist only once they are lifted: they end the docstrings of those.

Comes in: the name of an op. Goes out: its docstring with the example. Doctest finds them there.
"""

from __future__ import annotations

from inspect import cleandoc

_EXAMPLES = {
    "abs": ("wg.abs(wg.tensor([-1.5, 2.0])).tolist()", "[1.5, 2.0]"),
    "acos": ("wg.acos(wg.tensor([1.0])).tolist()", "[0.0]"),
    "acosh": ("wg.acosh(wg.tensor([1.0])).tolist()", "[0.0]"),
    "add": ("wg.add(wg.tensor([1.0, 2.0]), 3.0).tolist()", "[4.0, 5.0]"),
    "asin": ("wg.asin(wg.tensor([0.0])).tolist()", "[0.0]"),
    "asinh": ("wg.asinh(wg.tensor([0.0])).tolist()", "[0.0]"),
    "atan": ("wg.atan(wg.tensor([0.0])).tolist()", "[0.0]"),
    "atan2": ("wg.atan2(wg.tensor([0.0]), wg.tensor([1.0])).tolist()", "[0.0]"),
    "atanh": ("wg.atanh(wg.tensor([0.0])).tolist()", "[0.0]"),
    "bitwise_and": ("wg.bitwise_and(wg.tensor([6]), 3).tolist()", "[2]"),
    "bitwise_invert": ("wg.bitwise_invert(wg.tensor([0])).tolist()", "[-1]"),
    "bitwise_left_shift": ("wg.bitwise_left_shift(wg.tensor([1]), 3).tolist()", "[8]"),
    "bitwise_or": ("wg.bitwise_or(wg.tensor([6]), 3).tolist()", "[7]"),
    "bitwise_right_shift": ("wg.bitwise_right_shift(wg.tensor([8]), 3).tolist()", "[1]"),
    "bitwise_xor": ("wg.bitwise_xor(wg.tensor([6]), 3).tolist()", "[5]"),
    "ceil": ("wg.ceil(wg.tensor([1.2, -1.2])).tolist()", "[2.0, -1.0]"),
    "conj": ("wg.conj(wg.tensor([1 + 2j])).tolist()", "[(1-2j)]"),
    "copysign": ("wg.copysign(wg.tensor([1.0, 2.0]), wg.tensor([-0.0, 3.0])).tolist()", "[-1.0, 2.0]"),
    "cos": ("wg.cos(wg.tensor([0.0])).tolist()", "[1.0]"),
    "cosh": ("wg.cosh(wg.tensor([0.0])).tolist()", "[1.0]"),
    "digamma": ("wg.digamma(wg.tensor(2.0)).item() > 0.42", "True"),
    "divide": ("wg.divide(wg.tensor([1.0, 3.0]), 2.0).tolist()", "[0.5, 1.5]"),
    "equal": ("wg.equal(wg.tensor([1.0, 2.0]), 2.0).tolist()", "[False, True]"),
    "erf": ("wg.erf(wg.tensor([0.0])).tolist()", "[0.0]"),
    "erfc": ("wg.erfc(wg.tensor([0.0])).tolist()", "[1.0]"),
    "erfinv": ("wg.erfinv(wg.tensor([0.0])).tolist()", "[0.0]"),
    "exp": ("wg.exp(wg.tensor([0.0])).tolist()", "[1.0]"),
    "expm1": ("wg.expm1(wg.tensor([0.0])).tolist()", "[0.0]"),
    "floor": ("wg.floor(wg.tensor([1.2, -1.2])).tolist()", "[1.0, -2.0]"),
    "floor_divide": ("wg.floor_divide(wg.tensor([7.0, -7.0]), 2.0).tolist()", "[3.0, -4.0]"),
    "gcd": ("wg.gcd(wg.tensor([12]), 18).tolist()", "[6]"),
    "greater": ("wg.greater(wg.tensor([1.0, 3.0]), 2.0).tolist()", "[False, True]"),
    "greater_equal": ("wg.greater_equal(wg.tensor([1.0, 2.0]), 2.0).tolist()", "[False, True]"),
    "hypot": ("wg.hypot(wg.tensor([3.0]), wg.tensor([4.0])).tolist()", "[5.0]"),
    "imag": ("wg.imag(wg.tensor([1 + 2j])).tolist()", "[2.0]"),
    "isfinite": ("wg.isfinite(wg.tensor([1.0, wg.inf, wg.nan])).tolist()", "[True, False, False]"),
    "isinf": ("wg.isinf(wg.tensor([1.0, wg.inf, wg.nan])).tolist()", "[False, True, False]"),
    "isnan": ("wg.isnan(wg.tensor([1.0, wg.inf, wg.nan])).tolist()", "[False, False, True]"),
    "less": ("wg.less(wg.tensor([1.0, 3.0]), 2.0).tolist()", "[True, False]"),
    "less_equal": ("wg.less_equal(wg.tensor([2.0, 3.0]), 2.0).tolist()", "[True, False]"),
    "lgamma": ("wg.lgamma(wg.tensor(2.0)).item()", "0.0"),
    "log": ("wg.log(wg.tensor([1.0])).tolist()", "[0.0]"),
    "log10": ("wg.log10(wg.tensor(100.0)).item()", "2.000000238418579"),
    "log1p": ("wg.log1p(wg.tensor([0.0])).tolist()", "[0.0]"),
    "log2": ("wg.log2(wg.tensor(8.0)).item()", "3.0"),
    "logaddexp": ("wg.logaddexp(wg.tensor(0.0), -wg.inf).item()", "0.0"),
    "logaddexp2": ("wg.logaddexp2(wg.tensor(0.0), 0.0).item()", "1.0"),
    "logical_and": ("wg.logical_and(wg.tensor([True, True]), wg.tensor([True, False])).tolist()", "[True, False]"),
    "logical_not": ("wg.logical_not(wg.tensor([True, False])).tolist()", "[False, True]"),
    "logical_or": ("wg.logical_or(wg.tensor([True, False]), wg.tensor([False, False])).tolist()", "[True, False]"),
    "logical_xor": ("wg.logical_xor(wg.tensor([True, True]), wg.tensor([True, False])).tolist()", "[False, True]"),
    "maximum": ("wg.maximum(wg.tensor([1.0, 5.0]), 3.0).tolist()", "[3.0, 5.0]"),
    "minimum": ("wg.minimum(wg.tensor([1.0, 5.0]), 3.0).tolist()", "[1.0, 3.0]"),
    "multiply": ("wg.multiply(wg.tensor([1.0, 2.0]), 3.0).tolist()", "[3.0, 6.0]"),
    "negative": ("wg.negative(wg.tensor([1.0, -2.0])).tolist()", "[-1.0, 2.0]"),
    "nextafter": ("wg.nextafter(wg.tensor(0.0), 1.0).item() > 0", "True"),
    "not_equal": ("wg.not_equal(wg.tensor([1.0, 2.0]), 2.0).tolist()", "[True, False]"),
    "positive": ("wg.positive(wg.tensor([1.0, -2.0])).tolist()", "[1.0, -2.0]"),
    "real": ("wg.real(wg.tensor([1 + 2j])).tolist()", "[1.0]"),
    "reciprocal": ("wg.reciprocal(wg.tensor([2.0, 4.0])).tolist()", "[0.5, 0.25]"),
    "remainder": ("wg.remainder(wg.tensor([7.0, -7.0]), 4.0).tolist()", "[3.0, 1.0]"),
    "sigmoid": ("wg.sigmoid(wg.tensor([0.0])).tolist()", "[0.5]"),
    "sign": ("wg.sign(wg.tensor([-3.0, 0.0, 2.0])).tolist()", "[-1.0, 0.0, 1.0]"),
    "signbit": ("wg.signbit(wg.tensor([-0.0, 1.0])).tolist()", "[True, False]"),
    "sin": ("wg.sin(wg.tensor([0.0])).tolist()", "[0.0]"),
    "sinh": ("wg.sinh(wg.tensor([0.0])).tolist()", "[0.0]"),
    "sqrt": ("wg.sqrt(wg.tensor([4.0, 9.0])).tolist()", "[2.0, 3.0]"),
    "square": ("wg.square(wg.tensor([3.0, -2.0])).tolist()", "[9.0, 4.0]"),
    "subtract": ("wg.subtract(wg.tensor([1.0, 2.0]), 3.0).tolist()", "[-2.0, -1.0]"),
    "tan": ("wg.tan(wg.tensor([0.0])).tolist()", "[0.0]"),
    "tanh": ("wg.tanh(wg.tensor([0.0])).tolist()", "[0.0]"),
    "trunc": ("wg.trunc(wg.tensor([1.7, -1.7])).tolist()", "[1.0, -1.0]"),
    "where": ("wg.where(wg.tensor([True, False]), wg.tensor([1.0, 2.0]), 0.0).tolist()", "[1.0, 0.0]"),
}
"""What is written, and what it gives, by the name of the op."""


def with_example(name: str, doc: str | None) -> str | None:
    """The docstring of an op as that of a function, with its example."""
    if name not in _EXAMPLES:
        return doc
    code, result = _EXAMPLES[name]
    return f"{cleandoc(doc or '')}\n\n>>> import wengert as wg\n>>> {code}\n{result}"
