"""The exercise `matmul`: a tiled matrix product for a GPU, on an emulated one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise, files_in
from wengert.learn.exercises.reference import drawn

HERE = Path(__file__).parent
GAPS = {"homework/matmul.py": ("kernel",)}
T = 4


def products(sizes: tuple[int, ...], reverse: bool = False) -> Cases:
    """Products whose values are compared."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for n in sizes:
            a, b = drawn(rng, n, n), drawn(rng, n, n)
            order = "threads from the last to the first" if reverse else "threads in order"
            yield Case((a, b, reverse), a @ b, f"n = {n}, {order}")

    return cases


def traffic(rng: np.random.Generator) -> Iterator[Case]:
    """The traffic of a tiled product."""
    for n in (8, 12, 10):
        a, b = drawn(rng, n, n), drawn(rng, n, n)
        expected = {
            "c": a @ b,
            "loads of a and b": 2 * n * n * -(-n // T),
            "stores of c": n * n,
            "loads of c": 0,
            "different numbers of barriers": 1,
        }
        yield Case((a, b), expected, f"n = {n}: the whole block loads each tile once")


EXERCISE = Exercise(
    name="matmul",
    title="A tiled matrix product for a GPU",
    lecture="Parallel computing: tiles in shared memory",
    lesson="A CUDA matrix product of your own",
    minutes=90,
    marks=15,
    allowed_imports=("typing", "collections", "math"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("one tile", "product", products((4,)), 2),
        Check("several tiles", "product", products((8, 12)), 3),
        Check("sizes that are no multiple of the tile", "product", products((1, 3, 5, 10)), 3),
        Check("no races: the same with the threads reversed", "product", products((8, 5), reverse=True), 3),
        Check("every tile is loaded once", "traffic", traffic, 4),
    ),
    questions=(
        "Which of the two barriers in the loop protects what? What goes wrong without each?",
        "How many operations per byte does the kernel do for a tile of T by T in float32? At which T is an H200 "
        "(67 TFLOP/s, 4.8 TB/s) no longer limited by memory?",
        "Which loads of neighbouring threads are neighbours in memory?",
    ),
)
