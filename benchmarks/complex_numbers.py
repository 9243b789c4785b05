"""Complex numbers on the CPU: a chain of 10 elementwise ops, a sum, a product of matrices; beside NumPy.

    python benchmarks/complex_numbers.py [ROW ...]

Milliseconds of a call, the least of 9; compiled, by the references (`wg.config.tier = "interpret"`), and NumPy's own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import wengert as wg

COUNT = 1 << 20


def numbers(*shape: int, dtype: Any = np.complex128) -> np.ndarray[Any, Any]:
    """Random complex numbers."""
    drawn = np.random.default_rng(len(shape))
    return (drawn.standard_normal(shape) + 1j * drawn.standard_normal(shape)).astype(dtype)


def chain(m: Any, x: Any, y: Any) -> Any:
    """Ten elementwise ops: five of arithmetic, five functions."""
    z = x * y + x
    z = z / (y + 3) - m.conj(x)
    return m.sqrt(m.exp(m.sin(z * 0.1))) * m.log(y + 4)


def arithmetic(m: Any, x: Any, y: Any) -> Any:
    """Ten ops of arithmetic."""
    z = x * y + x
    z = z / (y + 3) - m.conj(x)
    return (z * z + y) * (z - x) + m.conj(y)


ROWS: dict[str, tuple[Callable[..., Any], Callable[[Any], tuple[Any, ...]]]] = {
    "a chain of 10 ops, 2^20": (chain, lambda d: (numbers(COUNT, dtype=d), numbers(1024, 1024, dtype=d).ravel())),
    "10 ops of arithmetic, 2^20": (
        arithmetic,
        lambda d: (numbers(COUNT, dtype=d), numbers(1024, 1024, dtype=d).ravel()),
    ),
    "a sum of squared sizes, 2^20": (lambda m, x: m.sum(m.abs(x) ** 2), lambda d: (numbers(COUNT, dtype=d),)),
    "a sum along rows, 1024 x 1024": (lambda m, x: m.sum(x, axis=1), lambda d: (numbers(1024, 1024, dtype=d),)),
    "a sum along columns, 1024 x 1024": (lambda m, x: m.sum(x, axis=0), lambda d: (numbers(1024, 1024, dtype=d),)),
    **{
        f"a product of {n} x {n}": (
            lambda m, x, y: m.matmul(x, y),
            lambda d, n=n: (numbers(n, n, dtype=d), numbers(1, n, n, dtype=d)[0]),
        )
        for n in (8, 32, 128, 512)
    },
    "512 products of 16 x 16": (
        lambda m, x, y: m.matmul(x, y),
        lambda d: (numbers(512, 16, 16, dtype=d), numbers(512, 16, 16, dtype=d) + 1),
    ),
    "a running sum, 2^20": (
        lambda m, x: m.cumsum(x) if m is np else m.cumulative_sum(x),
        lambda d: (numbers(COUNT, dtype=d),),
    ),
    "2^20 elements by number": (
        lambda m, x, i: m.take(x, i, axis=0),
        lambda d: (numbers(COUNT, dtype=d), np.random.default_rng(1).permutation(COUNT)),
    ),
}


def least(call: Callable[[], Any]) -> float:
    """Milliseconds of the fastest call."""
    call()
    times = []
    for _ in range(9):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return 1e3 * min(times)


def row(name: str, dtype: Any) -> str:
    """The figures of one row."""
    function, operands = ROWS[name]
    arrays = operands(dtype)
    tensors = [wg.tensor(array) for array in arrays]
    step = wg.compile(lambda *values: function(wg, *values))
    compiled = least(lambda: step(*tensors).numpy())
    wg.config.tier = "interpret"
    interpreted = least(lambda: function(wg, *tensors).numpy())
    wg.config.tier = "auto"
    numpy = least(lambda: function(np, *arrays))
    return f"{name:36} {np.dtype(dtype).name:11} {compiled:10.3f} {interpreted:12.3f} {numpy:8.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", help="words that the names of rows have")
    wanted = parser.parse_args().rows
    print(f"{'':36} {'':11} {'compiled':>10} {'references':>12} {'NumPy':>8}")
    for name in ROWS:
        if not wanted or any(word in name for word in wanted):
            for dtype in (np.complex128, np.complex64):
                print(row(name, dtype))


if __name__ == "__main__":
    main()
