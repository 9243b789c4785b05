"""Linear algebra and Fourier transforms on a GPU beside PyTorch's, forward and with gradients, in one run.

    python benchmarks/solvers.py [solve,cholesky,rfft]

prints for each row the milliseconds of both and their ratio: 10,000 matrices of 16 x 16, one of 2048 x 2048, and
transforms of 4096 x 4096; only those whose names begin so, if words are given. Compiled programs; the time is that of a
call among several, with the device waited for at the end. Before them come as many as it takes that none of those
records its function again, which calls 2, 4, 8, 16, 32 do, in half a millisecond. Needs a GPU and PyTorch for CUDA.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

import wengert as wg

Array = np.ndarray[Any, Any]
FEW = 25
WARM = {7: 8, FEW: 34}  # calls before so many that are timed


class Row(NamedTuple):
    """One op of both libraries on the same arrays, and how often it is called; `loss` makes its results a number."""

    name: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    loss: Callable[[Any], Any]
    arrays: tuple[Array, ...]
    calls: int


def squares(results: Any) -> Any:
    """The sum of squares of one result."""
    return (results * results).sum()


def all_sizes(results: Any) -> Any:
    """The sum of the sizes of all elements of several results."""
    return sum(abs(result).sum() for result in results)


def rows() -> Iterator[Row]:
    """All of them."""
    rng, t = np.random.default_rng(0), torch.linalg
    for batch, n, calls in (((10_000,), 16, FEW), ((), 2048, 7)):
        a = rng.normal(size=(*batch, n, n)).astype(np.float32)
        adjoint = np.swapaxes(a, -1, -2)
        positive = (a @ adjoint / n + np.eye(n, dtype=np.float32)).astype(np.float32)
        right, symmetric, name = a[..., :1].copy(), (a + adjoint) / 2, f"{'x '.join(map(str, (*batch, '')))}{n} x {n}"
        yield Row(f"solve {name}", wg.linalg.solve, t.solve, squares, (positive, right), calls)
        yield Row(f"cholesky {name}", wg.linalg.cholesky, t.cholesky, squares, (positive,), calls)
        eigh = lambda a: tuple(wg.linalg.eigh(a)), lambda a: tuple(t.eigh(a))
        yield Row(f"eigh {name}", *eigh, all_sizes, (symmetric,), calls)
        svd = (
            lambda a: tuple(wg.linalg.svd(a, full_matrices=False)),
            lambda a: tuple(t.svd(a, full_matrices=False)),
        )
        yield Row(f"svd {name}", *svd, all_sizes, (a,), calls)
    x = rng.normal(size=(4096, 4096)).astype(np.float32)
    yield Row("rfft 4096 x 4096", wg.fft.rfft, torch.fft.rfft, lambda y: (abs(y) ** 2).sum(), (x,), FEW)


def seconds(run: Callable[[], Any], wait: Callable[[], Any], calls: int) -> float:
    """Of one call, after some that warm up."""
    for _ in range(WARM[calls]):
        run()
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    wait()
    return (time.perf_counter() - start) / calls


def measure(row: Row) -> str:
    """A line: forward, and with the gradients of all operands."""
    here = [wg.tensor(array, device="cuda") for array in row.arrays]
    there = [torch.from_numpy(array).cuda() for array in row.arrays]
    forward, numbers = wg.compile(row.ours), tuple(range(len(here)))
    backward = wg.compile(wg.grad(lambda *x: row.loss(row.ours(*x)), numbers))

    def torch_backward() -> None:
        leaves = [x.detach().requires_grad_() for x in there]
        row.loss(row.theirs(*leaves)).backward()

    line = f"{row.name:24}"
    for ours, theirs in (
        (lambda: forward(*here), lambda: row.theirs(*there)),
        (lambda: backward(*here), torch_backward),
    ):
        own, other = seconds(ours, wg.synchronize, row.calls), seconds(theirs, torch.cuda.synchronize, row.calls)
        line += f"{own * 1e3:10.3f} {other * 1e3:10.3f} ms {own / other:6.2f}"
    return line


if __name__ == "__main__":
    print(f"{'':24}{'forward':>10} {'PyTorch':>10} {'ratio':>9}{'gradient':>10} {'PyTorch':>10} {'ratio':>9}")
    wanted = tuple(sys.argv[1].split(",")) if sys.argv[1:] else ("",)
    for one in rows():
        if one.name.startswith(wanted):
            print(measure(one), flush=True)
