"""Steps of one kind of number: casts and mixtures, integers, complex numbers and Fourier transforms."""

from __future__ import annotations

from typing import Any

from tests.compiler.random_graphs import Untame
from tests.programs.step import Step, pairs, templates


def _integer(b: Any) -> Any:
    return b.integer()


def _inexact(b: Any) -> Any:
    return b.inexact()


def _cast(b: Any) -> str:
    return f"wg.astype({b.operand()}, wg.{b.choice([*b.mode.floats, *b.mode.integers]).name})"


def _truth(b: Any) -> str:
    x, y = b.truth(), b.truth()
    return b.choice([f"wg.logical_not({x})", f"wg.logical_and({x}, {y})", f"wg.logical_or({x}, {y})", f"{x} ^ {y}"])


def _by_integers(b: Any) -> str:
    """A float value weighed, chosen or indexed by integers."""
    i, x = b.integer(), b.real()
    if i.shape != x.shape:
        texts = [f"wg.astype({i}, wg.{x.dtype.name}) * 0.01", f"wg.where({i} > 1, 0.5, -1.0)"]
        return b.choice(texts) if not b.portable else texts[0]
    return b.choice([f"wg.where({i} > 1, {x}, -{x})", f"{x} * wg.clip({i}, -3, 3)", f"{x} + ({i} == 2)"])


def _indexed(b: Any) -> str:
    """x[i % n]: integers of the program as indices."""
    i = b.operand(*[d for d in b.mode.integers if d.itemsize == 8])
    x = b.operand()
    if not x.ndim or not x.shape[0] or i.dtype.kind == "u":
        raise Untame
    return f"{x}[wg.remainder({i}, {x.shape[0]})]"


def _shift(b: Any) -> str:
    x = b.integer()
    bits = 8 * x.dtype.itemsize - (x.dtype.kind == "i")
    return f"{x} {b.choice(['<<', '>>'])} {int(b.rng.integers(0, bits))}"


def _one_hot(b: Any) -> str:
    return f"wg.one_hot({b.places(b.choice([(3,), (2, 2), ()]), 5)}, 6)"


def _integer_matmul(b: Any) -> str:
    found = [n for n in b.pool if n.dtype in b.mode.integers and n.ndim >= 2]
    if not found:
        raise Untame
    x = b.written(b.choice(found))
    return f"{x} @ {x}.mT"


def _divided(b: Any) -> str:
    x = b.integer()
    by = b.choice([2, 3, 5, 7])
    return b.choice([f"{x} // {by}", f"{x} % {by}", f"wg.remainder({x}, {by})", f"wg.floor_divide({x}, {by})"])


def _complex(b: Any) -> str:
    x, y = b.real(), b.real()
    return f"{x} + 1j * {y}" if x.shape == y.shape else f"{x} * (1 - 0.5j)"


def _fft(b: Any) -> str:
    x = b.inexact()
    axis = b.axis(x)
    if not x.size:
        raise Untame
    norm = b.choice(["", ", norm='ortho'"])
    if x.ndim > 1 and b.chance(0.2):
        return f"0.2 * wg.fft.fft2({x}{norm})"
    name = b.choice(["fft", "ifft", *(["rfft", "ihfft"] if x.dtype.kind == "f" else ["irfft", "hfft"])])
    length = f", {b.choice([3, 4, 8])}" if name in ("irfft", "hfft") or b.chance(0.3) else ", None"
    return f"0.4 * wg.fft.{name}({x}{length}, {axis}{norm})"


MIXED = (
    Step(_cast, 3),
    Step(_truth),
    Step(_by_integers, 2),
    Step(_indexed),
    Step(_one_hot),
)
INTEGER = (
    pairs(_integer, "{x} + {y}", "{x} - {y}", "{x} * {y}", "wg.maximum({x}, {y})", "wg.minimum({x}, {y})", weight=4),
    pairs(_integer, "{x} & {y}", "{x} | {y}", "{x} ^ {y}", weight=2),
    pairs(_integer, "{x} < {y}", "{x} == {y}", "{x} >= {y}", "{x} != {y}", weight=2),
    templates(_integer, "~{x}", "wg.abs({x})", "wg.sign({x})", "wg.square({x})", "{x} * {x} + 1", "{x} ** 2", weight=3),
    templates(_integer, "wg.clip({x}, 0, 5)", "wg.where({x} > 2, {x}, 1)", "wg.bitwise_invert({x})", "{x} != 0"),
    templates(
        _integer, "wg.sum({x}, axis={A}, keepdims={k})", "wg.prod({x}, axis={a})", "wg.cumsum({x}, axis={a})", weight=3
    ),
    templates(
        _integer, "wg.max({x}, axis={a})", "wg.min({x}, axis={a})", "wg.argmax({x}, axis={a})", "wg.diff({x}, axis={a})"
    ),
    templates(
        _integer,
        "wg.sort({x}, axis={a})",
        "wg.argsort({x}, axis={a})",
        "wg.cumprod({x}, axis={a})",
        "wg.any({x} > 0, axis={A})",
    ),
    templates(_integer, "wg.astype({x}, wg.float32) * 0.01", "wg.astype({x}, wg.float64) / 7", "{x} / 4"),
    Step(_shift),
    Step(_divided, 2),
    Step(_integer_matmul),
)
COMPLEX = (
    Step(_complex, 2),
    Step(_fft, 3),
    templates(_inexact, "{x} * wg.sum({x}) * 0.1", "{x} - wg.conj({x})", "wg.stop_gradient({x}) * {x}", "{x} != 0"),
)
