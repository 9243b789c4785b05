"""The sweep: 24 ways from real to complex values, 36 functions of them, and 3 parts of the result, against PyTorch.

    python -m tests.complex.sweep

prints, for reverse mode, forward mode and the compiled gradient, how many of the 2,592 compositions are right, refused
(with the reason) and wrong. The exit status is 0 if none is wrong and at most 10 are refused in each mode. torch is
the other implementation; the derivative by a real operand does not depend on a convention.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

import wengert as wg
from wengert.core.errors import WengertError

Array = np.ndarray[Any, Any]
Step = Callable[[Any, Any], Any]  # of a library and a value
X = np.array([[0.6, 1.3], [0.9, 0.4]])
TANGENT = np.array([[0.3, -0.8], [1.1, 0.5]])
C = np.array([[1 + 0.5j, 0.3 - 1j], [0.5j - 0.2, 0.8 + 0.4j]])
MASK = np.array([[True, False], [False, True]])
MODES = ("vjp", "jvp", "compile(grad)")
AT_MOST_REFUSED = 10


class Wengert:
    """Wengert's names; real values meet complex ones without a word."""

    constant = staticmethod(wg.tensor)
    complex = staticmethod(lambda x: x.astype(wg.complex128))
    beside = staticmethod(lambda x: x)
    sgn, linear = staticmethod(wg.sign), staticmethod(wg.linear)

    def __getattr__(self, name: str) -> Any:
        return getattr(wg, name)


class Torch:
    """torch's names; some of its functions, or their derivatives, take operands of one dtype only."""

    constant = staticmethod(torch.tensor)
    complex = staticmethod(lambda x: x.to(torch.complex128))
    beside = complex
    linear = staticmethod(torch.nn.functional.linear)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)


WAYS: dict[str, Step] = {
    "astype": lambda m, x: m.complex(x),
    "x * (1+2j)": lambda m, x: x * (1 + 2j),
    "x * 1j": lambda m, x: x * 1j,
    "x + 1j": lambda m, x: x + 1j,
    "C - x": lambda m, x: m.constant(C) - x,
    "x * C": lambda m, x: x * m.constant(C),
    "x / C": lambda m, x: x / m.constant(C),
    "C / x": lambda m, x: m.constant(C) / x,
    "x @ C": lambda m, x: m.beside(x) @ m.constant(C),
    "C @ x": lambda m, x: m.constant(C) @ m.beside(x),
    "exp(1j x)": lambda m, x: m.exp(1j * x),
    "x + 1j sin(x)": lambda m, x: x + 1j * m.sin(x),
    "x ** (0.5+1j)": lambda m, x: x ** (0.5 + 1j),
    "C ** x": lambda m, x: m.constant(C) ** x,
    "fft": lambda m, x: m.fft.fft(x),
    "ifft": lambda m, x: m.fft.ifft(x) + 1j,
    "fft2": lambda m, x: m.fft.fft2(x) + (0.3 - 0.4j),
    "rfft": lambda m, x: m.fft.rfft(x) * (1 - 1j),
    "ihfft": lambda m, x: m.fft.ihfft(x) * C[0, 0],
    "einsum": lambda m, x: m.einsum("ij,kj->ik", m.beside(x), m.constant(C)),
    "linear": lambda m, x: m.linear(m.beside(x), m.constant(C)),
    "where": lambda m, x: m.where(m.constant(MASK), m.beside(x), m.constant(C)),
    "concat": lambda m, x: m.concat([x[:1], m.constant(C)[1:]]),
    "solve": lambda m, x: m.linalg.solve(m.constant(C), m.beside(x)),
}
FUNCTIONS: dict[str, Step] = {
    "z": lambda m, z: z,
    "conj": lambda m, z: m.conj(z),
    "z conj(z)": lambda m, z: z * m.conj(z) + z,
    "z * z": lambda m, z: z * z,
    "z / (z + 2)": lambda m, z: z / (z + 2),
    "1 / z": lambda m, z: 1 / z,
    "z ** 3": lambda m, z: z**3,
    "z ** 1.5": lambda m, z: z**1.5,
    "z ** z": lambda m, z: z**z,
    "exp": lambda m, z: m.exp(z),
    "log": lambda m, z: m.log(z),
    "sqrt": lambda m, z: m.sqrt(z),
    "sin": lambda m, z: m.sin(z),
    "cos": lambda m, z: m.cos(z),
    "tan": lambda m, z: m.tan(z),
    "sinh": lambda m, z: m.sinh(z),
    "cosh": lambda m, z: m.cosh(z),
    "tanh": lambda m, z: m.tanh(z),
    "atan": lambda m, z: m.atan(z * 0.3),
    "asinh": lambda m, z: m.asinh(z * 0.3 + 0.1),
    "sign": lambda m, z: m.sgn(z),
    "z abs(z)": lambda m, z: z * abs(z),
    "z angle(z)": lambda m, z: z * m.angle(z),
    "real + 1j imag ** 2": lambda m, z: m.real(z) + 1j * m.imag(z) ** 2 if m is WENGERT else z.real + 1j * z.imag**2,
    "z @ C": lambda m, z: z @ m.constant(C),
    "z @ conj(z)": lambda m, z: z @ m.conj(z),
    "einsum": lambda m, z: m.einsum("ij,ik->jk", z, m.constant(C)),
    "sum": lambda m, z: m.sum(z, 0),
    "prod": lambda m, z: m.prod(z, 0),
    "cumprod": lambda m, z: m.cumprod(m.cumsum(z, 0), 1),
    "z var(z)": lambda m, z: z * m.var(z, correction=0),
    "logsumexp": lambda m, z: m.logsumexp(z, 0),
    "fft": lambda m, z: m.fft.fft(z, 3, norm="ortho"),
    "irfft": lambda m, z: m.fft.irfft(z, 3) + 1j * m.fft.hfft(z, 3),
    "inv, det": lambda m, z: m.linalg.inv(z + 3j) * m.linalg.det(z),
    "where, index": lambda m, z: m.where(m.constant(MASK), z, z[0]),
}
PARTS: dict[str, Step] = {
    "real": lambda m, z: m.real(z) if m is WENGERT else z.real,
    "imag": lambda m, z: m.imag(z) if m is WENGERT else z.imag,
    "abs": lambda m, z: abs(z),
}
WENGERT, TORCH = Wengert(), Torch()
Composition = tuple[str, str, str]


class Outcome(NamedTuple):
    """What came of one composition in one mode: "right", "refused" or "wrong", and why."""

    composition: Composition
    mode: str
    verdict: str
    reason: str = ""


def compositions(ways: Iterable[str] = WAYS, functions: Iterable[str] = FUNCTIONS) -> Iterator[Composition]:
    """All of them, or those of some ways and functions."""
    return ((way, function, part) for way in ways for function in functions for part in PARTS)


def loss(m: Any, composition: Composition, x: Any) -> Any:
    """One number; the elements count differently, so that none can stand for another."""
    way, function, part = composition
    y = PARTS[part](m, FUNCTIONS[function](m, WAYS[way](m, x)))
    weights = 1 + np.arange(int(np.prod(y.shape))).reshape(tuple(y.shape)) / 3
    return (y * m.constant(weights)).sum()


def expected(composition: Composition) -> Array:
    """torch's gradient."""
    x = torch.tensor(X, requires_grad=True)
    loss(TORCH, composition, x).backward()
    assert x.grad is not None
    return x.grad.numpy()


def outcomes(chosen: Iterable[Composition]) -> Iterator[Outcome]:
    """Each composition in each mode. The gradients of one way are compiled together."""
    listed = list(chosen)
    wanted = {composition: expected(composition) for composition in listed}
    for way in dict.fromkeys(composition[0] for composition in listed):
        yield from _of_one_way([composition for composition in listed if composition[0] == way], wanted)


def _of_one_way(chosen: list[Composition], wanted: dict[Composition, Array]) -> Iterator[Outcome]:
    x, tangent = wg.tensor(X), wg.tensor(TANGENT)
    losses = {each: lambda x, each=each: loss(WENGERT, each, x) for each in chosen}
    refused = []
    for each, function in losses.items():
        want = wanted[each]
        outcome = _judge(each, "vjp", want, lambda f=function: wg.vjp(f, x)[1](wg.tensor(1.0, wg.float64))[0])
        refused += [each] if outcome.verdict == "refused" else []
        yield outcome
        yield _judge(each, "jvp", np.sum(want * TANGENT), lambda f=function: wg.jvp(f, (x,), (tangent,))[1])
    whole = [each for each in chosen if each not in refused]
    gradients = wg.compile(lambda x: [wg.grad(losses[each])(x) for each in whole])(x)
    for each, found in zip(whole, gradients):
        yield _judge(each, MODES[2], wanted[each], lambda found=found: found)
    for each in refused:
        yield _judge(each, MODES[2], wanted[each], lambda f=losses[each]: wg.compile(wg.grad(f))(x))


def _judge(each: Composition, mode: str, want: Any, compute: Callable[[], wg.Tensor]) -> Outcome:
    try:
        found = compute().numpy()
    except WengertError as error:
        return Outcome(each, mode, "refused", error.message)
    if found.shape == np.shape(want) and np.allclose(found, want, rtol=1e-7, atol=1e-9):
        return Outcome(each, mode, "right")
    return Outcome(each, mode, "wrong", f"{found.tolist()} instead of {np.asarray(want).tolist()}")


def main() -> int:
    """Run all of it; print what is not right, and the counts."""
    counts: dict[str, Counter[str]] = {mode: Counter() for mode in MODES}
    for outcome in outcomes(compositions()):
        counts[outcome.mode][outcome.verdict] += 1
        if outcome.verdict != "right":
            print(f"{outcome.verdict}: {outcome.mode} of {' -> '.join(outcome.composition)}: {outcome.reason}")
    for mode, count in counts.items():
        print(f"{mode:14} {count['right']:5} right  {count['refused']:3} refused  {count['wrong']:3} wrong")
    bad = any(count["wrong"] or count["refused"] > AT_MOST_REFUSED for count in counts.values())
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
