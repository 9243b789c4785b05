"""Fused kernels against PyTorch on 8192 x 8192 float32: ms and TB/s, forward and with the backward, on the GPU.

    python benchmarks/fused.py [--compile]

The bytes counted are those that must move: inputs read once, results written once. `--compile` adds torch.compile.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from launch_shapes import Case, graph_of, kernels_of
from launching import Harness, checked, driver, this_device

import wengert as wg
from wengert.compiler.fuse import storage
from wengert.graph import Graph, Node
from wengert.kernels.cuda import write
from wengert.kernels.cuda.text import ERROR
from wengert.kernels.launch import Device, Launch, Work

N = 8192
F = torch.nn.functional


def both(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function that gives the result and the cotangents of the first `count` arguments; the last is the result's."""

    def run(*arguments: wg.Tensor) -> tuple[wg.Tensor, ...]:
        *rest, g = arguments
        slopes = wg.grad(lambda *xs: (function(*xs, *rest[count:]) * g).sum(), tuple(range(count)))(*rest[:count])
        return (function(*rest), *(slopes if isinstance(slopes, tuple) else (slopes,)))

    return run


def chain(x: Any, w: Any, b: Any) -> Any:
    return wg.gelu(x * w + b) * wg.sigmoid(x)


def norm(x: Any, w: Any, b: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / wg.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * w + b


def entropy(x: Any, target: Any) -> Any:
    return wg.cross_entropy(x, target)


def entropy_and_slope(x: Any, target: Any) -> Any:
    return entropy(x, target), wg.grad(lambda x: entropy(x, target))(x)


def torch_chain(x: Any, w: Any, b: Any) -> Any:
    return F.gelu(x * w + b) * torch.sigmoid(x)


def torch_norm(x: Any, w: Any, b: Any) -> Any:
    return F.layer_norm(x, (N,), w, b)


def softmax(x: Any) -> Any:
    return wg.softmax(x, axis=-1)


FULL, ROW = (N, N), (N,)
CASES = [  # name, ours, PyTorch's, whether with the backward
    ("gelu chain", Case("", chain, (FULL, ROW, ROW)), torch_chain, False),
    ("softmax", Case("", softmax, (FULL,)), lambda x: F.softmax(x, -1), False),
    ("layernorm", Case("", norm, (FULL, ROW, ROW)), torch_norm, False),
    ("cross-entropy", Case("", entropy, (FULL, ROW)), F.cross_entropy, False),
    ("gelu chain", Case("", both(chain, 3), (FULL, ROW, ROW, FULL)), torch_chain, True),
    ("softmax", Case("", both(softmax, 1), (FULL, FULL)), lambda x: F.softmax(x, -1), True),
    ("layernorm", Case("", both(norm, 3), (FULL, ROW, ROW, FULL)), torch_norm, True),
    ("cross-entropy", Case("", entropy_and_slope, (FULL, ROW)), F.cross_entropy, True),
]


def program(graph: Graph, device: Device) -> tuple[Work, dict[str, Node], list[str]]:
    """All kernels of a graph as one work, the values they read and write, and a line about each kernel."""
    launches: list[Launch] = []
    nodes: dict[str, Node] = {}
    space: dict[str, int] = {}
    lines = []
    for kernel, by_name in kernels_of(graph):
        work = write(kernel, device)
        nodes |= by_name
        for name, size in work.workspace.items():
            space[name] = max(size, space.get(name, 0))
        launches += work.launches
        lines += [
            f"      {launch.entry}: {launch.why}, {launch.grid[0]} x {launch.block[0]}" for launch in work.launches
        ]
    return Work(tuple(launches), space), nodes, lines


def torch_seconds(run: Callable[[], Any]) -> float:
    """The median of some runs."""
    for _ in range(3):
        run()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(10)]
    for first, last in events:
        first.record()
        run()
        last.record()
    torch.cuda.synchronize()
    return float(sorted(first.elapsed_time(last) for first, last in events)[len(events) // 2]) * 1e-3


def torch_run(function: Any, case: Case, backward: bool) -> Callable[[], Any]:
    made = [torch.randn(s, device="cuda") for s in case.shapes]
    if function is F.cross_entropy:
        made[1] = torch.randint(0, N, (N,), device="cuda")
    count = 1 if function is F.cross_entropy else len(made) - backward
    leaves = [m.requires_grad_(backward) if m.is_floating_point() and i < count else m for i, m in enumerate(made)]
    if not backward:
        return lambda: function(*leaves)
    slope = made[-1] if function is not F.cross_entropy else None

    def run() -> None:
        for leaf in leaves:
            leaf.grad = None
        result = function(*(leaves if slope is None else leaves[:-1]))
        result.backward(slope)

    return run


def main() -> None:
    device = this_device()
    made = []
    for name, case, function, backward in CASES:
        graph = graph_of(case, wg.int64 if function is F.cross_entropy else None)
        made.append((name, case, function, backward, graph, *program(graph, device)))
    harness = Harness([work for *_, work, _, _ in made], device.arch)
    for name, case, function, backward, graph, work, nodes, lines in made:
        space = dict(work.workspace) | {ERROR: 4}
        addresses = {n: int(checked(driver.cuMemAlloc(size))) for n, size in space.items()}
        for n, node in nodes.items():
            addresses[n] = int(checked(driver.cuMemAlloc(max(16, node.size * node.dtype.itemsize))))
            values = np.random.default_rng(0).standard_normal(min(node.size, 1 << 20))
            values = (values if node.dtype.kind == "f" else np.abs(values * 1000)).astype(node.dtype)
            for start in range(0, node.size, 1 << 20):
                part = values[: min(node.size - start, 1 << 20)]
                checked(driver.cuMemcpyHtoD(addresses[n] + start * node.dtype.itemsize, part.ctypes.data, part.nbytes))
        ours = harness.seconds(work, [addresses])
        each = [harness.seconds(Work((launch,)), [addresses]) for launch in work.launches]
        outside = {storage(n) for n in (*graph.inputs, *graph.outputs)}
        moved = sum(n.size * n.dtype.itemsize for n in outside)
        for address in addresses.values():
            checked(driver.cuMemFree(address))
        run = torch_run(function, case, backward)
        eager = torch_seconds(run)
        what = "forward + backward" if backward else "forward"
        text = f"{name:14} {what:19} {ours * 1e3:7.3f} ms {moved / ours / 1e12:5.2f} TB/s"
        text += f"   torch {eager * 1e3:7.3f} ({eager / ours:4.2f}x)"
        if "--compile" in sys.argv:
            compiled = torch_seconds(torch_run(torch.compile(function), case, backward))
            text += f"   compile {compiled * 1e3:7.3f} ({compiled / ours:4.2f}x)"
        print(text, flush=True)
        for line, seconds, launch in zip(lines, each, work.launches):
            print(f"{line}, {harness.registers(launch)[0]} registers: {seconds * 1e3:.3f} ms", flush=True)


if __name__ == "__main__":
    main()
