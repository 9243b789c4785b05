"""The ladder of our own matrix products beside cuBLAS (by way of PyTorch) on a GPU; and small products in a chain.

    python -m benchmarks.gemm --sizes 1024,2048,4096,8192 --dtypes float32,tf32,bfloat16

Square products, the right matrix transposed, random operands. Each figure is the best of five replays of a CUDA graph
of equal products; a rung's tile is the one the model chooses for it. An error is the distance from cuBLAS's result,
divided by its norm. All kernels are compiled before, side by side.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch
from tests.gpu.harness import prepare, submit, this_device

from wengert.core.dtypes import bfloat16, float32
from wengert.kernels.launch import LaunchList
from wengert.kernels.matmul.cuda import Matrix, Product, Tile, candidates, expected, write

KINDS = {
    "float32": (np.dtype(float32), torch.float32),
    "tf32": (np.dtype(float32), torch.float32),
    "bfloat16": (np.dtype(bfloat16), torch.bfloat16),
}
SMALL = [(100, 300, 300), (300, 300, 100), (128, 512, 784), (128, 256, 512), (784, 512, 128), (128, 10, 256)]


def microseconds(call: Callable[[int], None]) -> float:
    """Of one of ten equal calls (fewer of slow ones), replayed as a graph; the best of five."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        call(stream.cuda_stream)
        stream.synchronize()
        before = time.perf_counter()
        call(stream.cuda_stream)
        stream.synchronize()
        count = max(1, min(10, int(0.02 / (time.perf_counter() - before))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(count):
                call(stream.cuda_stream)
    graph.replay()
    times = []
    for _ in range(5):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / count * 1e3)
    return min(times)


def product(m: int, n: int, k: int, kind: str) -> Product:
    """a (m, k) times the transpose of b (n, k)."""
    dtype = KINDS[kind][0]
    return Product(
        m, n, k, Matrix("a", dtype, k, 1), Matrix("b", dtype, 1, k), Matrix("c", dtype, n, 1), tf32=kind == "tf32"
    )


def rungs(p: Product) -> Iterator[Tile]:
    """The best tile of each rung, from the bottom of the ladder up."""
    if p.flops < 2e11 and not p.tf32:
        yield Tile("naive", 16, 16, 1)
    if not p.tf32:
        yield Tile("tiled", 32, 32, 32)
    if p.dtype == float32 and p.tf32 is False:
        yield Tile("fma", 64, 64, 16, 32, 32, 2)
    best = sorted(candidates(p, this_device()), key=lambda tile: expected(p, tile, this_device()))
    for rung in ("small", "fma", "mma", "wgmma"):
        yield from [tile for tile in best if tile.rung == rung][:1]


def runner(work: LaunchList, buffers: dict[str, torch.Tensor]) -> Callable[[int], None]:
    """What puts a work on a stream."""
    space = {name: torch.empty(size, dtype=torch.uint8, device="cuda") for name, size in work.workspace.items()}
    held = {**buffers, **space}
    addresses = {name: tensor.data_ptr() for name, tensor in held.items()}

    def call(stream: int) -> None:
        for launch in work.launches:
            submit(launch, addresses, stream)

    call.held = held  # type: ignore[attr-defined]
    return call


def ladder(m: int, n: int, k: int, kind: str, unit: str) -> None:
    """Print a size's rungs beside cuBLAS."""
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    dtype = KINDS[kind][1]
    a, b = torch.randn(m, k, device="cuda").to(dtype), torch.randn(n, k, device="cuda").to(dtype)
    c = torch.empty(m, n, device="cuda", dtype=dtype)
    expected_result = a @ b.t()
    p = product(m, n, k, kind)

    def shown(us: float) -> str:
        return f"{us:8.2f} us" if unit == "us" else f"{p.flops / us / 1e6:8.1f} TFLOP/s"

    vendor = microseconds(lambda stream: torch.mm(a, b.t(), out=c))
    print(f"{m} x {n} x {k} {kind}\n  {shown(vendor)}   100%  cuBLAS", flush=True)
    for tile in rungs(p):
        c.fill_(float("nan"))
        call = runner(write(p, tile, this_device()), {"a": a, "b": b, "c": c})
        us = microseconds(call)
        error = ((c - expected_result).float().norm() / expected_result.float().norm()).item()
        print(f"  {shown(us)}  {vendor / us:5.0%}  {tile} (error {error:.0e})", flush=True)


def main() -> None:
    """Print the ladder and the small products."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1024,2048,4096,8192")
    parser.add_argument("--dtypes", default="float32,tf32,bfloat16")
    options = parser.parse_args()
    sizes = [int(size) for size in options.sizes.split(",")]
    squares = [((size, size, size), kind) for kind in options.dtypes.split(",") for size in sizes]
    small = [(size, "float32") for size in SMALL]
    products = [product(*size, kind) for size, kind in squares + small]
    prepare(write(p, tile, this_device()) for p in products for tile in rungs(p))
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}")
    for size, kind in squares:
        ladder(*size, kind, "TFLOP/s")
    print("small products, one after the other")
    for size, kind in small:
        ladder(*size, kind, "us")


if __name__ == "__main__":
    main()
