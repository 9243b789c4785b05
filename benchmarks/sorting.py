"""Sorting, selecting, running sums and counting on a GPU, beside PyTorch, in one run.

    python -m benchmarks.sorting [--rows sort,topk] [--json FILE]

The kernels alone: each figure is the best of five replays of a CUDA graph of equal calls. What PyTorch cannot capture,
because it reads a size back, is called time after time; and so are Wengert's public functions, in rows of their own.
PyTorch's sorts and topk give values and indices; Wengert's give what they are asked for.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from benchmarks.gemm import microseconds, runner
from tests.gpu.harness import prepare, this_device

import wengert as wg
from wengert.core.dtypes import float32, int64
from wengert.core.graph import Node
from wengert.kernels.launch import LaunchList, work_of
from wengert.ops.core import placeholder
from wengert.ops.counting import BINCOUNT
from wengert.ops.op import Op
from wengert.ops.running import CUMSUM
from wengert.ops.sorting import ARGSORT, SORT, TOPK

DTYPES = {float32: torch.float32, int64: torch.int64}


class Row(NamedTuple):
    """An op with its attributes over random numbers, and what PyTorch has for it."""

    name: str
    op: Op
    shape: tuple[int, ...]
    dtype: Any
    attrs: dict[str, Any]
    theirs: Callable[[torch.Tensor], Any]
    most: int = 0  # the numbers are below it
    captured: bool = True

    @property
    def result(self) -> Node:
        """The node of it over a placeholder."""
        attrs = dict(self.attrs)
        if "axis" in attrs:
            attrs["axis"] %= len(self.shape)
        return self.op(placeholder(self.shape, self.dtype, "cuda:0"), **attrs)


SORTED, FIRST = {"axis": -1, "descending": False}, {"axis": -1, "descending": True}
RUNNING: dict[str, Any] = {"axis": 1, "backwards": False}
ROWS = [
    Row("sort 2^24 float32", SORT, (1 << 24,), float32, SORTED, torch.sort),
    Row("argsort 2^24 float32", ARGSORT, (1 << 24,), float32, SORTED, lambda x: torch.sort(x, stable=True)),
    Row("sort 2^24 int64", SORT, (1 << 24,), int64, SORTED, torch.sort),
    Row("argsort 2^24 int64", ARGSORT, (1 << 24,), int64, SORTED, torch.sort),
    Row("argsort 2^24 int64 < 1000", ARGSORT, (1 << 24,), int64, SORTED, torch.sort, 1000),
    Row("sort 10,000 x 1,000 float32", SORT, (10_000, 1000), float32, SORTED, torch.sort),
    Row("argsort 10,000 x 1,000 float32", ARGSORT, (10_000, 1000), float32, SORTED, torch.sort),
    Row("sort 100 x 100,000 float32", SORT, (100, 100_000), float32, SORTED, torch.sort),
    Row("sort 1,000,000 x 16 float32", SORT, (1_000_000, 16), float32, SORTED, torch.sort),
    Row("topk 100 of 10^7 float32", TOPK, (10**7,), float32, {**FIRST, "k": 100}, lambda x: torch.topk(x, 100)),
    Row("topk 10 of 1,000 x 50,000", TOPK, (1000, 50_000), float32, {**FIRST, "k": 10}, lambda x: torch.topk(x, 10)),
    Row("cumsum 2^27 float32", CUMSUM, (1 << 27,), float32, {**RUNNING, "axis": 0}, lambda x: torch.cumsum(x, 0)),
    Row("cumsum 10,000 x 10,000", CUMSUM, (10_000, 10_000), float32, RUNNING, lambda x: torch.cumsum(x, 1)),
    Row("cumsum, axis 0", CUMSUM, (10_000, 10_000), float32, {**RUNNING, "axis": 0}, lambda x: torch.cumsum(x, 0)),
    Row("bincount 10^7 < 1,000", BINCOUNT, (10**7,), int64, {"size": 1000}, torch.bincount, 1000, False),
]


def numbers(row: Row) -> torch.Tensor:
    """Random ones."""
    if row.dtype == int64:
        return torch.randint(0, row.most or (1 << 62), row.shape, device="cuda")
    return torch.randn(row.shape, device="cuda")


def launches(row: Row) -> LaunchList:
    """What Wengert launches for a row, from "x" to "y"."""
    node = row.result
    work = work_of(node, lambda value: "y" if value is node else "x", this_device(), {})
    assert work is not None
    return work


def ours(row: Row, x: torch.Tensor, work: LaunchList) -> tuple[float, torch.Tensor]:
    """The microseconds of Wengert's launches, and their result."""
    result = row.result
    y = torch.empty(result.shape, dtype=DTYPES[result.dtype], device="cuda")
    return microseconds(runner(work, {"x": x, "y": y})), y


def theirs(row: Row, x: torch.Tensor) -> float:
    """The microseconds of PyTorch's function."""
    return microseconds(lambda stream: row.theirs(x)) if row.captured else called(lambda: row.theirs(x))


def called(call: Callable[[], Any], count: int = 20) -> float:
    """The microseconds of a call, one after the other; the best of five times so many."""
    times = []
    call()
    for _ in range(5):
        torch.cuda.synchronize()
        wg.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            call()
        torch.cuda.synchronize()
        wg.synchronize()
        times.append((time.perf_counter() - start) / count * 1e6)
    return min(times)


def waited(call: Callable[[], Any], wait: Callable[[], Any]) -> Callable[[], Any]:
    """The call with all of its result, which is held: what nobody holds or looks at is not computed."""
    return lambda: (call(), wait())


def functions() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Public functions as they are called, one after the other, beside PyTorch's."""
    values = torch.where(torch.rand(10_000_000, device="cuda") < 0.5, torch.randn(10_000_000, device="cuda"), 0.0)
    few = torch.randint(0, 1000, (10_000_000,), device="cuda")
    x, n = wg.from_dlpack(values), wg.from_dlpack(few)
    return {
        "nonzero of 10^7": (lambda: wg.nonzero(x), lambda: torch.nonzero(values)),
        "x[x > 0] of 10^7": (lambda: x[x > 0], lambda: values[values > 0]),
        "bincount 10^7 into 1,000": (lambda: wg.bincount(n), lambda: torch.bincount(few)),
        "unique of 10^7 below 1,000": (lambda: wg.unique_values(n), lambda: torch.unique(few)),
        "topk 100 of 10^7": (lambda: wg.topk(x, 100).values.numpy(), lambda: torch.topk(values, 100).values.cpu()),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="words, separated by commas, that names begin with")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    options = parser.parse_args()
    wanted = tuple(options.rows.split(","))
    rows = [row for row in ROWS if row.name.startswith(wanted)]
    works = [launches(row) for row in rows]
    prepare(works)
    found: dict[str, tuple[float, float]] = {}
    print(f"{'':36} {'ours us':>9} {'torch us':>9}  ratio")
    for row, work in zip(rows, works):
        x = numbers(row)
        found[row.name] = ours(row, x, work)[0], theirs(row, x)
        show(row.name, *found[row.name])
        del x
    for name, (mine, other) in functions().items():
        if name.startswith(wanted):
            found[f"wg: {name}"] = called(waited(mine, wg.synchronize)), called(waited(other, torch.cuda.synchronize))
            show(f"wg: {name}", *found[f"wg: {name}"])
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))


def show(name: str, mine: float, other: float) -> None:
    """Print a row."""
    print(f"{name:36} {mine:9.1f} {other:9.1f}  {mine / other:.2f}", flush=True)


if __name__ == "__main__":
    main()
