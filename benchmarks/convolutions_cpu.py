"""Depthwise, grouped, 1-d, 3-d, transposed and dilated convolutions of Wengert's C beside PyTorch's, on the CPU.

    python -m benchmarks.convolutions_cpu [--rounds 20] [--only REGEX] [--steps]

Each row is a shape; the three columns are the forward pass and the gradients with respect to the input and the weight.
The contenders take turns in one run. A cell says by how much Wengert is faster (PyTorch's time / Wengert's, of the best
rounds and of the medians), what it reaches in GFLOP/s and GB/s, and its floor as a part of its time: the time that
the multiply-adds or the bytes, each moved once, would take at this machine's sgemm and copy. `--steps` times training
steps of a MobileNet-style and a WaveNet-style stack instead. With OMP_NUM_THREADS=1 the processor's time is measured.
"""

from __future__ import annotations

import argparse
import math
import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from benchmarks.conv import in_c

from wengert.kernels.threads import thread_count
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT, extent

Sizes = tuple[int, ...]
Run = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """A convolution; `ins` and `outs` are all channels, and one number stands for all axes."""

    name: str
    batch: int
    ins: int
    outs: int
    sizes: Sizes
    kernel: Sizes
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    transposed: bool = False

    @property
    def weight(self) -> Sizes:
        """The shape of the weight."""
        first, second = (self.ins, self.outs) if self.transposed else (self.outs, self.ins)
        return (first, second // self.groups, *self.kernel)

    @property
    def form(self) -> dict[str, Any]:
        """The attributes of the primitives."""
        axes = len(self.sizes)
        return {
            "stride": (self.stride,) * axes,
            "padding": ((self.padding,) * 2,) * axes,
            "dilation": (self.dilation,) * axes,
            "groups": self.groups,
        }


CASES = [
    Case("depthwise 3x3, 128 of 56 x 56", 16, 128, 128, (56, 56), (3, 3), 1, 1, groups=128),
    Case("depthwise 3x3 / 2, 128 of 56 x 56", 16, 128, 128, (56, 56), (3, 3), 2, 1, groups=128),
    Case("depthwise 3x3, 512 of 14 x 14", 16, 512, 512, (14, 14), (3, 3), 1, 1, groups=512),
    Case("depthwise 3x3 / 2, 512 of 14 x 14", 16, 512, 512, (14, 14), (3, 3), 2, 1, groups=512),
    Case("depthwise 7x7, 96 of 56 x 56", 8, 96, 96, (56, 56), (7, 7), 1, 3, groups=96),
    Case("grouped 8, 3x3, 256 of 28 x 28", 16, 256, 256, (28, 28), (3, 3), 1, 1, groups=8),
    Case("grouped 32, 3x3, 128 of 56 x 56", 8, 128, 128, (56, 56), (3, 3), 1, 1, groups=32),
    Case("1x1, 128 -> 256 of 28 x 28", 16, 128, 256, (28, 28), (1, 1)),
    Case("1x1 / 2, 128 -> 256 of 28 x 28", 16, 128, 256, (28, 28), (1, 1), 2),
    Case("1-d, kernel 3, 64 of 8192", 4, 64, 64, (8192,), (3,), 1, 1),
    Case("1-d, kernel 3, dilation 8", 4, 64, 64, (8192,), (3,), 1, 8, 8),
    Case("1-d, kernel 3, dilation 64", 4, 64, 64, (8192,), (3,), 1, 64, 64),
    Case("1-d, kernel 15, 32 of 8192", 4, 32, 32, (8192,), (15,), 1, 7),
    Case("1-d depthwise, kernel 4, 256 of 2048", 8, 256, 256, (2048,), (4,), 1, 3, groups=256),
    Case("3-d, 3x3x3, 32 of 16 x 32 x 32", 2, 32, 32, (16, 32, 32), (3, 3, 3), 1, 1),
    Case("2-d dilation 2, 64 of 56 x 56", 4, 64, 64, (56, 56), (3, 3), 1, 2, 2),
    Case("transposed 4x4 / 2, 64 -> 32 of 32 x 32", 8, 64, 32, (32, 32), (4, 4), 2, 1, transposed=True),
    Case("transposed 1-d 16 / 8, 128 -> 64 of 512", 4, 128, 64, (512,), (16,), 8, 4, transposed=True),
]


@dataclass
class Cell:
    """The times of one pass by both."""

    ours: list[float]
    theirs: list[float]
    flops: int
    bytes: int

    def text(self, flops_per_second: float, bytes_per_second: float) -> str:
        """The cell of the table."""
        best = min(self.ours)
        ratios = (find(self.theirs) / find(self.ours) for find in (min, statistics.median))
        floor = max(self.flops / flops_per_second, self.bytes / bytes_per_second) / best
        rates = f"{1e-9 * self.flops / best:4.0f} GF {1e-9 * self.bytes / best:5.1f} GB"
        return "{:6.2f} {:5.2f}".format(*ratios) + f" {1e3 * best:7.2f} ms {rates} {100 * floor:3.0f} %"


def alternate(runs: list[Run], rounds: int) -> list[list[float]]:
    """Seconds of every round of each, in turns."""
    clock = time.perf_counter if thread_count() > 1 else time.thread_time
    times: list[list[float]] = [[] for _ in runs]
    for i in range(rounds + 1):
        for run, found in zip(runs, times):
            start = clock()
            run()
            if i:
                found.append(clock() - start)
    return times


def contenders(case: Case) -> tuple[list[tuple[Run, Any, Run]], Any, Any, Any]:
    """(Wengert's call, its result, PyTorch's call) of the three passes; input, weight and the result's gradient."""
    random = np.random.default_rng(0)
    axes, form = len(case.sizes), case.form
    x = random.standard_normal((case.batch, case.ins, *case.sizes), np.float32)
    w = random.standard_normal(case.weight, np.float32)
    tx, tw = torch.from_numpy(x), torch.from_numpy(w)
    steps, pads, apart = form["stride"], (case.padding,) * axes, form["dilation"]
    rest = (steps, pads, apart, case.transposed, (0,) * axes, case.groups)

    def forward() -> Any:
        return torch.ops.aten.convolution(tx, tw, None, *rest)

    g = random.standard_normal(tuple(forward().shape), np.float32)
    tg = torch.from_numpy(g)

    def backward(which: int) -> Any:
        wanted = [i == which for i in range(3)]
        return torch.ops.aten.convolution_backward(tg, tx, tw, None, *rest, wanted)[which]

    def apply(a: Any, b: Any) -> Any:
        return CONVOLVE(a, b, **form)

    def transpose(sizes: Sizes) -> Any:
        return lambda a, b: CONVOLVE_INPUT(a, b, sizes=sizes, **form)

    def by_weight(a: Any, b: Any) -> Any:
        return CONVOLVE_WEIGHT(a, b, kernel=case.kernel, **form)

    if case.transposed:
        ours = [in_c(transpose(g.shape[2:]), x, w), in_c(apply, g, w), in_c(by_weight, g, x)]
    else:
        ours = [in_c(apply, x, w), in_c(transpose(case.sizes), g, w), in_c(by_weight, x, g)]
    theirs: list[Run] = [forward, lambda: backward(0), lambda: backward(1)]
    return [(*own, their) for own, their in zip(ours, theirs)], x, w, g


def measure(case: Case, rounds: int) -> list[Cell]:
    """The cells of a case, checked against PyTorch's results."""
    passes, x, w, g = contenders(case)
    made, other = (x, g) if case.transposed else (g, x)
    flops = 2 * made.size * math.prod(case.weight[1:])
    moved = (x.nbytes + w.nbytes + g.nbytes, x.nbytes + w.nbytes + g.nbytes, x.nbytes + w.nbytes + g.nbytes)
    assert made.shape[2:] == tuple(
        (n + 2 * case.padding - extent(k, case.dilation)) // case.stride + 1
        for n, k in zip(other.shape[2:], case.kernel)
    )
    cells = []
    for (ours, result, theirs), size in zip(passes, moved):
        ours()
        expected = theirs().numpy()
        assert np.abs(result - expected).max() < 1e-4 * np.abs(expected).max(), case
        cells.append(Cell(*alternate([ours, theirs], rounds), flops, size))
    return cells


def floors(rounds: int) -> tuple[float, float]:
    """FLOP/s of a square product, and bytes/s that a copy of a large array reads and writes."""
    a, big = torch.randn(1024, 1024), torch.randn(1 << 25)
    to = torch.empty_like(big)
    product, copy = alternate([lambda: a @ a, lambda: to.copy_(big)], rounds)
    return 2 * 1024**3 / min(product), 2 * 4 * big.numel() / min(copy)


def table(rounds: int, only: str) -> None:
    """Print the table of single convolutions."""
    rates = floors(rounds)
    print(f"{thread_count()} threads; torch {torch.__version__}; sgemm {1e-9 * rates[0]:.0f} GFLOP/s, ", end="")
    print(f"copy {1e-9 * rates[1]:.1f} GB/s")
    print("PyTorch's time / Wengert's by best and by median; Wengert's best, and its floor as a part of it")
    print(f"{'':40s}{'forward':>46s}{'with respect to the input':>46s}{'with respect to the weight':>46s}")
    for case in CASES:
        if re.search(only, case.name):
            cells = measure(case, rounds)
            print(f"{case.name:40s}" + "".join(f"{cell.text(*rates):>46s}" for cell in cells), flush=True)


# --- training steps -------------------------------------------------------------------------------------------------


def mobilenet(nn: Any) -> Any:
    """Depthwise and 1 x 1 convolutions in turns, of torch.nn or wengert.nn, for images of 64 x 64."""

    def block(ins: int, outs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        conv = nn.Conv2d(ins, outs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(outs), nn.ReLU()]

    layers = block(3, 32, 3, 2)
    for ins, outs, stride in ((32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2)):
        layers += block(ins, ins, 3, stride, ins) + block(ins, outs, 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def wavenet(lib: Any, nn: Any, channels: int = 32) -> Any:
    """Gated convolutions whose dilation doubles, with residuals and skips."""

    class Layer(nn.Module):  # type: ignore[misc]
        def __init__(self, dilation: int) -> None:
            super().__init__()
            self.dilated = nn.Conv1d(channels, 2 * channels, 3, padding=dilation, dilation=dilation)
            self.mixed = nn.Conv1d(channels, 2 * channels, 1)

        def forward(self, x: Any) -> Any:
            y = self.dilated(x)
            y = self.mixed(lib.tanh(y[:, :channels]) * lib.sigmoid(y[:, channels:]))
            return x + y[:, :channels], y[:, channels:]

    class Stack(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv1d(1, channels, 1)
            self.layers = nn.ModuleList([Layer(2**i) for i in range(7)])
            self.last = nn.Conv1d(channels, 1, 1)

        def forward(self, x: Any) -> Any:
            x, total = self.first(x), None
            for layer in self.layers:
                x, skip = layer(x)
                total = skip if total is None else total + skip
            return self.last(lib.relu(total))

    return Stack()


def step_of(name: str, lib: Any, nn: Any, optim: Any, tensor: Any, jit: Any) -> Run:
    """A training step of a stack."""
    random = np.random.default_rng(0)
    if name == "MobileNet":
        model = mobilenet(nn)
        x = tensor(random.standard_normal((16, 3, 64, 64), np.float32))
        y = tensor(random.integers(0, 10, 16))
    else:
        model = wavenet(lib, nn)
        x, y = (tensor(random.standard_normal((2, 1, 8192), np.float32)) for _ in range(2))
    optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def step() -> Any:
        optimizer.zero_grad()
        out = model(x)
        loss = nn.CrossEntropyLoss()(out, y) if name == "MobileNet" else ((out - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    step = jit(step)
    return lambda: step().item()


def steps(rounds: int) -> None:
    """Print the times of training steps."""
    import wengert as wg

    print(f"{thread_count()} threads; torch {torch.__version__}; ms of a training step, best and median")
    for name in ("MobileNet", "WaveNet"):
        ours = step_of(name, wg, wg.nn, wg.optim, wg.tensor, wg.compile)
        theirs = step_of(name, torch, torch.nn, torch.optim, torch.from_numpy, lambda step: step)
        times = alternate([ours, theirs], rounds)
        cells = [f"{1e3 * min(t):8.1f}{1e3 * statistics.median(t):8.1f}" for t in times]
        ratios = [find(times[1]) / find(times[0]) for find in (min, statistics.median)]
        print(f"{name:12s} Wengert{cells[0]}   PyTorch{cells[1]}   {ratios[0]:.2f} {ratios[1]:.2f}", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--only", default="", help="cases whose names match")
    parser.add_argument("--steps", action="store_true", help="training steps of whole stacks")
    given = parser.parse_args()
    torch.set_num_threads(thread_count())
    if given.steps:
        steps(given.rounds)
    else:
        table(given.rounds, given.only)


if __name__ == "__main__":
    main()
