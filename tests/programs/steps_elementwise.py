"""Steps element by element: functions, operators, comparisons, choices."""

from __future__ import annotations

from typing import Any

from tests.compiler.random_graphs import Untame
from tests.programs.step import Step, pairs, templates


def _real(b: Any) -> Any:
    return b.real()


def _inexact(b: Any) -> Any:
    return b.inexact()


def _where(b: Any) -> str:
    x = b.inexact()
    y = b.beside_it(x)
    condition = b.truth()
    fitting = [n for n in b.pool if n.dtype.kind == "b" and n.shape == x.shape]
    if fitting and b.chance(0.5):
        condition = b.written(b.choice(fitting))
    return f"wg.where({condition}, {x}, {y})" if b.chance(0.6) else f"wg.where({condition}, {y}, {x})"


def _lerp(b: Any) -> str:
    x = b.real()
    return f"wg.lerp({x}, {_tensor(b, x)}, {b.choice(['0.25', '0.5'])})"


def _tensor(b: Any, x: Any) -> Any:
    y = b.beside_it(x)
    if isinstance(y, str):
        raise Untame
    return y


def _addcmul(b: Any) -> str:
    x = b.real()
    name = b.choice(["addcmul", "addcmul", "addcdiv"])
    return f"wg.{name}({x}, {_tensor(b, x)}, {_tensor(b, x)} + {b.choice(['0', '3'])})"


def _dtypes_meet(b: Any) -> str:
    """Two values of whatever dtypes."""
    x = b.operand()
    fitting = [n for n in b.pool if n.dtype is not x.dtype and (n.shape == x.shape or not n.shape or not x.shape)]
    if b.portable:  # in PyTorch a value without axes is a number, and truth values are not subtracted
        fitting = [n for n in fitting if n.ndim and x.ndim and "b" not in (n.dtype.kind, x.dtype.kind)]
    if not fitting:
        raise Untame
    return f"{x} {b.choice('+-*')} {b.written(b.choice(fitting))}"


def _masked_fill(b: Any) -> str:
    x = b.inexact()
    mask = b.constant_of(b.rng.random(x.shape) < 0.5) if b.chance(0.5) else f"({b.real()} > 0.2)"
    return f"wg.masked_fill({x}, {mask}, {b.number()})"


_SMOOTH = (
    *("wg.exp({x} * 0.3)", "wg.sin({x})", "wg.cos({x})", "wg.tanh({x})", "wg.sinh({x} * 0.5)", "wg.cosh({x} * 0.5)"),
    *("wg.square({x})", "{x} * {x}", "-{x}", "wg.reciprocal({x} * {x} + 2)", "{x} / 3", "{x} * {n}", "{x} + {n}"),
    *("{n} - {x}", "{x} ** 2", "{x} ** 3", "2 / ({x} + 20)", "wg.sqrt({x} * {x} + 1)", "wg.log({x} * {x} + 3)"),
    *("wg.atan({x} * 0.2)", "wg.asinh({x} * 0.2)", "wg.expm1({x} * 0.2)", "wg.tan({x} * 0.1)"),
)
REAL = (
    templates(_real, *_SMOOTH, weight=5),
    templates(
        _real,
        *("wg.abs({x})", "wg.sigmoid({x})", "wg.log1p(wg.abs({x}))", "wg.log2({x} * {x} + 1)", "wg.erf({x})"),
        *("wg.log10({x} * {x} + 1)", "wg.exp2({x} * 0.5)", "wg.asin({x} * 0.01)", "wg.acos(wg.tanh({x}) * 0.9)"),
        *("wg.atanh(wg.sin({x}) * 0.5)", "wg.acosh({x} * {x} + 1.5)", "wg.rsqrt({x} * {x} + 0.5)", "wg.sinc({x})"),
        *("wg.relu({x})", "wg.gelu({x})", "wg.silu({x})", "wg.softplus({x})", "wg.elu({x})", "wg.selu({x})"),
        *("wg.leaky_relu({x}, 0.1)", "wg.mish({x})", "wg.relu6({x})", "wg.hardswish({x})", "wg.hardtanh({x})"),
        *("wg.celu({x})", "wg.softsign({x})", "wg.tanhshrink({x})", "wg.logsigmoid({x})", "wg.erfc({x})"),
        *(
            "wg.gelu({x}, approximate='tanh')",
            "wg.erfc({x})",
            "wg.logit(wg.sigmoid({x}))",
            "wg.erfinv(wg.sin({x}) * 0.6)",
        ),
        *("wg.lgamma(wg.abs({x}) + 1)", "wg.clip({x}, -0.7, 1.1)", "wg.clip({x}, 0.1)"),
        *("wg.nan_to_num({x})", "wg.sqrt(wg.abs({x}) + 0.1)", "(abs({x}) + 0.1) ** 0.5", "{x} ** -2", "2.0 ** {x}"),
        weight=4,
    ),
    # PyTorch's slope of hardsigmoid is a sixth in float32, and its trigamma is off by 1e-9.
    templates(_real, "wg.hardsigmoid({x})", "wg.digamma(wg.abs({x}) + 1)", portable=False),
    templates(_real, "wg.floor({x})", "wg.ceil({x})", "wg.trunc({x})", "wg.round({x})", "wg.sign({x})"),
    templates(_real, "wg.stop_gradient({x})", "wg.positive({x})", "wg.zeros_like({x}) + {x}"),
    pairs(_inexact, "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} * {y} + {x}", "({x} + {y}) * 0.5", weight=6),
    pairs(_real, "{x} / ({y} * {y} + 0.7)", "{x} / (wg.abs({x}) + abs({y}) + 0.3)", weight=2),
    pairs(
        _real, "wg.maximum({x}, {y})", "wg.minimum({x}, {y})", "wg.logaddexp({x}, {y})", "wg.hypot({x}, abs({y}) + 1)"
    ),
    pairs(_real, "wg.hypot({x}, {y})", "wg.atan2({x}, {y})", "wg.fmax({x}, {y})", "wg.fmin({x}, {y})", portable=False),
    pairs(_real, "wg.atan2({x}, abs({y}) + 1)", "wg.copysign({x}, {y})"),
    pairs(_real, "wg.remainder({x}, {y})", "wg.fmod({x}, {y})", "wg.floor_divide({x}, {y})"),
    pairs(_real, "(wg.abs({x}) + 0.2) ** ({y} * 0.5)", "wg.xlogy({x}, {y} * {y} + 1)"),
    pairs(_real, "{x} < {y}", "{x} >= {y}", "{x} > {y}", "{x} <= {y}", "{x} == {y}", "{x} != {y}"),
    Step(_where, 3),
    Step(_lerp),
    Step(_addcmul),
    Step(_dtypes_meet),
    Step(_masked_fill),
)
COMPLEX = (
    templates(_inexact, *_SMOOTH, weight=6),
    templates(
        _inexact,
        *("wg.abs({x})", "wg.real({x})", "wg.imag({x})", "wg.conj({x})", "wg.sqrt({x} + 5)", "wg.log({x} + (4 + 1j))"),
        *("1 / ({x} + (5 + 2j))", "0.1 * ({x} + 6) ** 1.5", "{x} * (0.5 - 1j)", "{x} + 2j", "wg.exp(1j * {x})"),
        *("wg.angle({x} + 3)", "{x} * wg.conj({x})", "wg.sign({x} + (2 - 1j))", "wg.log1p({x} * 0.2)"),
        weight=4,
    ),
    pairs(_inexact, "{x} + {y}", "{x} - {y}", "{x} * {y}", "{x} / ({y} * 0.1 + (3 - 1j))", "{x} * {y} + {x}", weight=6),
    Step(_where, 3),
    Step(_dtypes_meet),
    templates(_real, "wg.relu({x})", "wg.gelu({x})", "wg.sigmoid({x})", "wg.softplus({x})", "{x} > {n}"),
    pairs(_real, "wg.maximum({x}, {y})", "wg.atan2({x}, abs({y}) + 1)", "{x} < {y}"),
)
