"""Random programs over real and complex matrices: value, gradient and tangent against PyTorch; compiled and hvp too.

    python -m tests.complex.random_programs 2000 0

makes 2,000 programs from seed 0 on, prints those that differ and a line of totals; the exit status is 0 if none does.
A program is a chain of steps over two matrices, each real or complex; a seed always makes the same one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

import wengert as wg
from tests.complex.sweep import TORCH, WENGERT, Array
from wengert.core.errors import WengertError

N = 3  # rows and columns of every value
COMPILE_EVERY = 10
EYE = np.eye(N)
Unary = Callable[[Any, Any, "Numbers"], Any]  # of a library, a value and the program's numbers
Binary = Callable[[Any, Any, Any], Any]


class Numbers(NamedTuple):
    """The constants of one step."""

    matrix: Array
    number: complex
    mask: Array
    places: Array


def is_complex(x: Any) -> bool:
    """Whether a value of either library is complex."""
    return "complex" in str(x.dtype)


def _spread(m: Any, x: Any) -> Any:
    return m.broadcast_to(x, (N, N))


def _if_complex(function: Callable[[Any, Any], Any]) -> Unary:
    """torch's functions of the parts of complex numbers do not take real ones."""
    return lambda m, x, c: function(m, x) if is_complex(x) else x


UNARY: dict[str, Unary] = {
    "exp": lambda m, x, c: m.exp(0.3 * x),
    "sin": lambda m, x, c: m.sin(0.5 * x),
    "tanh": lambda m, x, c: m.tanh(0.3 * x),
    "square": lambda m, x, c: x * x,
    "negative": lambda m, x, c: -x,
    "times a matrix": lambda m, x, c: x * m.constant(c.matrix),
    "times a number": lambda m, x, c: x * c.number,
    "plus a number": lambda m, x, c: x + c.number,
    "product with a matrix": lambda m, x, c: m.beside(x) @ m.constant(c.matrix),
    "product of a matrix": lambda m, x, c: m.constant(c.matrix) @ m.beside(x),
    "transpose": lambda m, x, c: x.mT,
    "flip": lambda m, x, c: m.flip(x, (0,)),
    "column sums": lambda m, x, c: 0.5 * _spread(m, m.sum(x, 0)),
    "total": lambda m, x, c: x + 0.1 * x.sum(),
    "abs": lambda m, x, c: abs(x) + 0.1,
    "conj": _if_complex(lambda m, x: m.conj(x)),
    "real": _if_complex(lambda m, x: m.real(x)),
    "imag": _if_complex(lambda m, x: m.imag(x)),
    "sign": _if_complex(lambda m, x: m.sgn(x)),
    "fft": lambda m, x, c: m.fft.fft(x),
    "ifft of columns": lambda m, x, c: m.fft.ifft(x, None, 0),
    "fft2": lambda m, x, c: m.fft.fft2(x, norm="ortho"),
    "rfft, irfft": lambda m, x, c: m.fft.irfft(x if is_complex(x) else m.fft.rfft(x, 4), N),
    "hfft": lambda m, x, c: 0.3 * m.fft.hfft(x, N),
    "where": lambda m, x, c: m.where(m.constant(c.mask), x, 2 * x),
    "rows": lambda m, x, c: x[m.constant(c.places)],
    "sqrt": lambda m, x, c: m.sqrt(m.complex(x) + 3),
    "log": lambda m, x, c: m.log(m.complex(x) + (4 + 1j)),
    "reciprocal": lambda m, x, c: 1 / (m.complex(x) + (5 + 2j)),
    "power": lambda m, x, c: 0.1 * (m.complex(x) + 6) ** 1.5,
    "cumsum": lambda m, x, c: m.cumsum(x, 0),
    "cumprod": lambda m, x, c: m.cumprod(0.5 * x, 1),
    "prod": lambda m, x, c: x + m.prod(0.5 * x, 0),
    "mean": lambda m, x, c: x - m.mean(x),
    "var": lambda m, x, c: x * m.var(x, correction=0),
    "std": lambda m, x, c: x + m.std(x, correction=1),
    "logsumexp": lambda m, x, c: m.logsumexp(0.3 * x, 0) + x,
    "norm": lambda m, x, c: x / (m.linalg.vector_norm(x) + 1),
    "inv": lambda m, x, c: m.linalg.inv(0.1 * x + m.constant(3 * EYE)),
    "det": lambda m, x, c: x * m.linalg.det(0.1 * x + m.constant(EYE)),
    "solve": lambda m, x, c: m.linalg.solve(m.constant(c.matrix + 3 * EYE), m.beside(x)),
    "concat": lambda m, x, c: m.concat([x[1:], x[:1]]),
    "first row": lambda m, x, c: _spread(m, x[:1]) + x,
    "tril": lambda m, x, c: m.tril(x) + 0.1 * x,
}
BINARY: dict[str, Binary] = {
    "add": lambda m, x, y: x + y,
    "subtract": lambda m, x, y: x - y,
    "multiply": lambda m, x, y: 0.5 * x * y,
    "divide": lambda m, x, y: x / (0.1 * m.complex(y) + (3 - 1j)),
    "matmul": lambda m, x, y: 0.3 * m.complex(x) @ m.complex(y),
    "einsum": lambda m, x, y: 0.3 * m.einsum("ij,kj->ik", m.beside(x), m.complex(y)),
    "vecdot": lambda m, x, y: x + m.linalg.vecdot(m.complex(x), m.complex(y)),
}


class Program(NamedTuple):
    """The steps by name, the operands, and the program as a function of a library and values; it gives one number."""

    names: list[str]
    operands: list[Array]
    run: Callable[..., Any]


def program(seed: int) -> Program:
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    draw = lambda: rng.standard_normal((N, N))
    operands = [draw() + 1j * draw() if rng.random() < 0.5 else draw() for _ in range(2)]
    names: list[str] = []
    steps: list[Callable[[Any, list[Any]], Any]] = []
    for made in range(2, 2 + int(rng.integers(3, 9))):
        first, second = int(rng.integers(max(0, made - 3), made)), int(rng.integers(0, made))
        if rng.random() < 0.7:
            names.append(str(rng.choice(list(UNARY))))
            places = rng.integers(0, N, N)
            numbers = Numbers(draw() + 1j * draw(), complex(*rng.standard_normal(2)), rng.random((N, N)) < 0.5, places)
            steps.append(lambda m, v, f=UNARY[names[-1]], i=first, c=numbers: f(m, v[i], c))
        else:
            names.append(str(rng.choice(list(BINARY))))
            steps.append(lambda m, v, f=BINARY[names[-1]], i=first, j=second: f(m, v[i], v[j]))
    weights = draw(), draw()

    def run(m: Any, *values: Any) -> Any:
        made = list(values)
        for step in steps:
            made.append(step(m, made))
        y = made[-1] + 0.3 * made[-2]
        if not is_complex(y):
            return (y * m.constant(weights[0])).sum()
        return (m.real(y) * m.constant(weights[0])).sum() + (m.imag(y) * m.constant(weights[1])).sum()

    return Program(names, operands, run)


def expected(of: Program) -> tuple[float, list[Array]]:
    """torch's value and gradients."""
    leaves = [torch.tensor(x, requires_grad=True) for x in of.operands]
    value = of.run(TORCH, *leaves)
    found = torch.autograd.grad(value, leaves, allow_unused=True)
    pairs = zip(found, of.operands)
    return value.item(), [np.zeros_like(x) if g is None else g.resolve_conj().numpy() for g, x in pairs]


def differences(seed: int) -> list[str]:
    """What differs for the program of a seed, by name."""
    made = program(seed)
    value, gradients = expected(made)
    scale = max(1.0, *(float(np.abs(g).max()) for g in gradients))
    function = lambda *values: made.run(WENGERT, *values)
    x, tangents = [wg.tensor(a) for a in made.operands], [np.conj(a) + 0.5 for a in made.operands]
    moves = tuple(map(wg.tensor, tangents))

    def close(found: Any, want: Any) -> bool:
        a, b = np.asarray(found), np.asarray(want)
        return a.dtype == b.dtype and np.allclose(a, b, rtol=1e-6, atol=1e-8 * scale)

    def arrays(values: Any) -> list[Array]:
        return [each.numpy() for each in values]

    slope = sum(np.vdot(g, t).real for g, t in zip(gradients, tangents))
    mine, pulled = wg.value_and_grad(function, (0, 1))(*x)
    checks = {
        "value": close(mine.item(), value),
        "gradient": all(map(close, arrays(pulled), gradients)),
        "tangent": close(wg.jvp(function, tuple(x), moves)[1].item(), slope),
    }
    if seed % COMPILE_EVERY == 0:
        gradient = lambda *values: wg.grad(function, (0, 1))(*values)
        second = lambda *values: wg.hvp(function, values, moves)
        checks["compiled gradient"] = all(map(close, arrays(wg.compile(gradient)(*x)), arrays(pulled)))
        checks["compiled hvp"] = all(map(close, arrays(wg.compile(second)(*x)), arrays(second(*x))))
    return [name for name, right in checks.items() if not right]


def main(count: int, first: int) -> int:
    """Run so many programs; print what differs, and the totals."""
    wrong = refused = 0
    for seed in range(first, first + count):
        try:
            found = differences(seed)
        except WengertError as error:
            refused += 1
            print(f"refused: seed {seed}, {program(seed).names}: {error.message}")
            continue
        if found:
            wrong += 1
            print(f"wrong: seed {seed}, {program(seed).names}: {', '.join(found)}")
    print(f"{count} programs from seed {first}: {count - wrong - refused} right, {refused} refused, {wrong} wrong")
    return int(wrong + refused > 0)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
