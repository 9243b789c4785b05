"""Convolutions of Wengert's C against PyTorch's (oneDNN) on the shapes of ResNet-18 for CIFAR and a ConvNet for MNIST.

    python benchmarks/conv.py [rounds]

Prints GFLOP/s of the forward pass and of both gradients, Wengert / PyTorch, best of the rounds, and the time of all
convolutions of a training step. The ceiling is a square sgemm by PyTorch in the same run. With
OMP_NUM_THREADS=1 the time of the processor is measured, which other work on the machine disturbs less.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

import wengert  # noqa: F401  every op registers itself
from wengert.backends.cpu.blas import single_threaded
from wengert.backends.cpu.program import build
from wengert.core.graph import Graph, Node, now
from wengert.kernels.threads import thread_count
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT
from wengert.ops.core import placeholder


class Layer(NamedTuple):
    """A convolution, and how often it stands in the network."""

    batch: int
    ins: int
    size: int
    outs: int
    kernel: int
    stride: int
    times: int


RESNET = [
    Layer(32, 3, 32, 64, 3, 1, 1),
    Layer(32, 64, 32, 64, 3, 1, 4),
    Layer(32, 64, 32, 128, 3, 2, 1),
    Layer(32, 64, 32, 128, 1, 2, 1),
    Layer(32, 128, 16, 128, 3, 1, 3),
    Layer(32, 128, 16, 256, 3, 2, 1),
    Layer(32, 128, 16, 256, 1, 2, 1),
    Layer(32, 256, 8, 256, 3, 1, 3),
    Layer(32, 256, 8, 512, 3, 2, 1),
    Layer(32, 256, 8, 512, 1, 2, 1),
    Layer(32, 512, 4, 512, 3, 1, 3),
]
CONVNET = [Layer(128, 1, 28, 32, 3, 1, 1), Layer(128, 32, 14, 64, 3, 1, 1), Layer(128, 64, 7, 128, 3, 1, 1)]


def best(run: Callable[[], Any], rounds: int) -> float:
    """The shortest of some runs, in seconds."""
    clock = time.perf_counter if thread_count() > 1 else time.thread_time
    run()
    times = []
    for _ in range(rounds):
        start = clock()
        run()
        times.append(clock() - start)
    return min(times)


def in_c(make: Callable[[Node, Node], Node], *arrays: Any) -> tuple[Callable[[], Any], Any]:
    """A call of one op's C on memory that stays, and that memory."""
    since = now()
    inputs = [placeholder(a.shape, a.dtype) for a in arrays]
    program = build(Graph(inputs, [make(*inputs)], since))
    result = np.empty(program.graph.outputs[0].shape, np.float32)
    table = [*arrays, result]
    pointers = (ctypes.c_void_p * len(table))(*[a.ctypes.data for a in table])
    arena = ctypes.c_void_p(program.arena.ctypes.data)

    def run() -> None:
        with single_threaded:
            program.library.piece0(pointers, arena)

    return run, result


def measure(layer: Layer, rounds: int) -> tuple[float, list[tuple[float, float]]]:
    """The GFLOPs of a pass, and (Wengert, PyTorch) seconds of the three."""
    random = np.random.default_rng(0)
    shape, pad = (layer.batch, layer.ins, layer.size, layer.size), layer.kernel // 2
    x = random.standard_normal(shape, np.float32)
    w = random.standard_normal((layer.outs, layer.ins, layer.kernel, layer.kernel), np.float32)
    tx, tw, step = torch.from_numpy(x), torch.from_numpy(w), (layer.stride,) * 2
    ty = torch.conv2d(tx, tw, stride=step, padding=pad)
    g = torch.randn_like(ty)
    form = {"stride": step, "padding": ((pad, pad),) * 2, "dilation": (1, 1), "groups": 1}

    def gradient(which: list[bool]) -> Any:
        return torch.ops.aten.convolution_backward(g, tx, tw, None, step, (pad, pad), (1, 1), False, (0, 0), 1, which)

    contenders = [
        (in_c(lambda a, b: CONVOLVE(a, b, **form), x, w), lambda: torch.conv2d(tx, tw, stride=step, padding=pad)),
        (
            in_c(lambda a, b: CONVOLVE_INPUT(a, b, sizes=shape[2:], **form), g.numpy(), w),
            lambda: gradient([True, False, False])[0],
        ),
        (
            in_c(lambda a, b: CONVOLVE_WEIGHT(a, b, kernel=w.shape[2:], **form), x, g.numpy()),
            lambda: gradient([False, True, False])[1],
        ),
    ]
    found = []
    for (ours, result), theirs in contenders:
        ours()
        expected = theirs().numpy()
        assert np.abs(result - expected).max() < 1e-4 * np.abs(expected).max(), layer
        found.append((best(ours, rounds), best(theirs, rounds)))
    return 2e-9 * ty.numel() * layer.ins * layer.kernel**2, found


def table(name: str, layers: list[Layer], rounds: int) -> None:
    """Print a network's table."""
    print(f"{name:34s}{'forward':>16s}{'by the input':>16s}{'by the weight':>16s}   GFLOP/s, Wengert / PyTorch")
    totals = [0.0, 0.0]
    for i, layer in enumerate(layers):
        work, times = measure(layer, rounds)
        kind = f"{layer.kernel} x {layer.kernel} / {layer.stride}"
        text = f"{layer.ins:4d} -> {layer.outs:3d}, {kind}, {layer.size} x {layer.size}"
        print(f"  {text:32s}" + "".join(f"{work / a:9.0f} /{work / b:5.0f}" for a, b in times), flush=True)
        needed = times if i else [times[0], times[2]]  # nobody asks for the images' gradient
        totals[0] += layer.times * sum(a for a, _ in needed)
        totals[1] += layer.times * sum(b for _, b in needed)
    print(f"  all of a training step: {1e3 * totals[0]:.1f} ms / {1e3 * totals[1]:.1f} ms\n")


def main() -> None:
    """Print both tables."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    torch.set_num_threads(thread_count())
    a = torch.randn(2048, 2048)
    print(f"{thread_count()} threads; sgemm of 2048: {2e-9 * 2048**3 / best(lambda: a @ a, rounds):.0f} GFLOP/s\n")
    table("ResNet-18, CIFAR, batch 32", RESNET, rounds)
    table("ConvNet, MNIST, batch 128", CONVNET, rounds)


if __name__ == "__main__":
    main()
