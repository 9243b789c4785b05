"""How good the launch shapes are that the CUDA writer lists out: each against an exhaustive sweep, on the GPU at hand.

    python -m benchmarks.launch_shapes [--all] [part of a name ...]

For each kernel and shape of data: the time of the computed launch shape, of the best of the sweep, their ratio, the
bandwidth reached, and which shape was best. `--all` prints every shape that was tried. What it printed on an H200 is in
results/.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from tests.gpu.harness import gpu, prepare, submit

import wengert as wg
from wengert.backends.cuda.bindings import check
from wengert.compiler.memory import storage
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph, Node, now
from wengert.kernels import c_ops
from wengert.kernels.cuda import write
from wengert.kernels.cuda.shapes import Columns, Elements, Rows, Shape, Tiles, kept_words, vector_width
from wengert.kernels.cuda.write import launch_shape
from wengert.kernels.ir.loops import LoopKernel
from wengert.kernels.ir.transforms import merge_loops, statements_of
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList
from wengert.ops.core import placeholder
from wengert.plan.fuse import grouped
from wengert.plan.lower import lower
from wengert.plan.lowering import inlines

MOST = 60  # shapes to try for a kernel; of more, so many are drawn
F32, BF16 = wg.float32, wg.bfloat16


class Case(NamedTuple):
    """A function over inputs of some shapes: one kernel."""

    name: str
    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: Any = F32


def _standardized(x: wg.Tensor, axis: Any) -> wg.Tensor:
    centred = x - x.mean(axis=axis, keepdims=True)
    return centred / wg.sqrt((centred * centred).mean(axis=axis, keepdims=True) + 1e-5)


def _batchnorm(x: wg.Tensor) -> wg.Tensor:
    return _standardized(x.astype(F32), (0, 1, 2)).astype(BF16)


def _chain(x: wg.Tensor, w: wg.Tensor, b: wg.Tensor) -> wg.Tensor:
    return wg.gelu(x * w + b) * wg.sigmoid(x)


def cases() -> Iterator[Case]:
    """Forty kernels and shapes."""
    for rows, columns in ((8192, 8192), (16384, 768), (512, 512), (100, 300), (1000, 1001)):
        yield Case("gelu chain", _chain, ((rows, columns), (columns,), (columns,)))
    for n in (1 << 26, 1 << 20, 1 << 14, 1_000_003):
        yield Case("add", lambda x, y: x + y, ((n,), (n,)))
    yield Case("exp", wg.exp, ((4096, 4096),))
    for n in (1 << 26, 1 << 20):
        yield Case("multiply-add", lambda x, y, z: x * y + z, ((n,), (n,), (n,)), BF16)
    for shape in ((8192, 8192), (16384, 1024), (1 << 18, 64), (1 << 20, 10), (16384, 50257), (128, 50257), (33, 1000)):
        yield Case("softmax", lambda x: wg.softmax(x, axis=-1), (shape,))
    yield Case("softmax", lambda x: wg.softmax(x, axis=-1), ((16384, 1024),), BF16)
    for rows, columns in ((8192, 8192), (16384, 768), (4096, 4096), (1024, 1600), (64, 768)):
        yield Case("layernorm", lambda x: _standardized(x, -1), ((rows, columns),))
    yield Case("layernorm", lambda x: _standardized(x, -1), ((16384, 768),), BF16)
    for batch, size, channels in ((256, 112, 64), (256, 14, 256), (512, 4, 512)):
        yield Case("batchnorm", _batchnorm, ((batch, size, size, channels),), BF16)
    yield Case("batchnorm nchw", lambda x: _standardized(x, (0, 2, 3)), ((128, 64, 32, 32),))
    for rows, columns in ((16384, 768), (16384, 3072), (8192, 8192), (128, 512), (1 << 20, 3)):
        yield Case("column sums", lambda x: x.sum(axis=0), ((rows, columns),))
    yield Case("row sums", lambda x: x.sum(axis=-1), ((8192, 8192),))
    for n in (1 << 26, 1 << 20):
        yield Case("sum", lambda x: x.sum(), ((n,),))
    yield Case("argmax", lambda x: wg.argmax(x, axis=-1), ((16384, 1000),))
    for rows, columns in ((8192, 8192), (1000, 3000)):
        yield Case("transpose", lambda x: x.T + 1.0, ((rows, columns),))
    yield Case("transpose", lambda x: wg.permute_dims(x, (0, 2, 1, 3)) * 2.0, ((16, 1024, 12, 64),), BF16)
    yield Case("nchw to nhwc", lambda x: wg.permute_dims(x, (0, 2, 3, 1)) * 2.0, ((64, 64, 56, 56),), BF16)


def graph_of(case: Case) -> Graph:
    """What a case computes, optimised."""
    since = now()
    inputs = [placeholder(shape, case.dtype) for shape in case.shapes]
    result = case.function(*[wg.Tensor(node) for node in inputs])
    results = result if isinstance(result, tuple) else (result,)
    return optimize(Graph(inputs, [r.node for r in results], since))[0]


def kernels_of(graph: Graph) -> list[tuple[LoopKernel, dict[str, Node]]]:
    """The loop kernels of a graph, and what their buffers are."""
    plan = grouped(graph, inlines, c_ops.operands)
    found = []
    for part in [part for group in plan.groups for part in group.parts()]:
        by_name: dict[str, Node] = {}

        def buffer_of(node: Node, by_name: dict[str, Node] = by_name) -> str:
            by_name[f"n{storage(node).serial}"] = storage(node)
            return f"n{storage(node).serial}"

        found.append((lower(part, "kernel", plan.inlined, buffer_of), by_name))
    return found


# --- the sweep ------------------------------------------------------------------------------------------------------


def sweep(kernel: LoopKernel, device: DeviceProperties) -> list[Shape]:
    """The launch shapes to try, around and far from the computed one."""
    kernel = merge_loops(kernel)
    chosen, _ = launch_shape(kernel, device)
    found: dict[Shape, None] = {chosen: None}
    if isinstance(chosen, Elements | Tiles):
        if isinstance(chosen, Tiles):
            found |= {Tiles(chosen.vector, lines): None for lines in (4, 8, 16)}
        loop = kernel.outer[-1]
        widest = vector_width(list(statements_of(kernel)), loop)
        widths = {w for w in (1, widest // 2, widest, 2 * widest) if 0 < w <= 8 and loop.extent % w == 0}
        for vector, steps, threads in itertools.product(sorted(widths), (1, 2, 4, 8), (128, 256, 512, 1024)):
            found[Elements(vector, steps, threads)] = None
    elif isinstance(chosen, Rows):
        found |= dict.fromkeys(_row_shapes(kernel, chosen.vector, device))
    else:
        found |= dict.fromkeys(_column_shapes(kernel, chosen.vector, device))
    shapes = list(found)
    return [shapes[0], *random.Random(0).sample(shapes[1:], min(MOST, len(shapes) - 1))]


def _row_shapes(kernel: LoopKernel, vector: int, device: DeviceProperties) -> Iterator[Rows]:
    rows = math.prod(loop.extent for loop in kernel.outer)
    length = math.prod(loop.extent for loop in kernel.inner)
    words = max(kept_words(kernel), 0.5)
    for width in {vector, max(1, vector // 2)}:
        vectors = length // width
        for lanes in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024):
            chunks = -(-vectors // lanes)
            if lanes > 2 * vectors or chunks * width * words > 1024:
                continue
            for threads in (64, 128, 256, 512):
                if lanes <= max(threads, 32) and (lanes >= threads or lanes * rows >= threads):
                    several = max(1, threads // lanes)
                    if lanes * several % 32 == 0 and chunks * width * words <= 160:
                        yield Rows(width, lanes, several, chunks)
                    if chunks > 1 and lanes * several % 32 == 0 and lanes >= 32:
                        yield Rows(width, lanes, several, 0)
        if not kernel.scratch and rows <= device.sms:
            for splits, lanes in itertools.product((1, 2, 4, 8), (256, 512, 1024)):
                per_row = splits * device.sms // rows // 2
                if 1 < per_row <= vectors // lanes:
                    yield Rows(width, lanes, 1, 0, per_row)


def _column_shapes(kernel: LoopKernel, vector: int, device: DeviceProperties) -> Iterator[Columns]:
    loop = kernel.outer[-1]
    steps = math.prod(inner.extent for inner in kernel.inner)
    for width in {w for w in (vector // 2, vector, vector * 2) if 0 < w <= 8 and loop.extent % w == 0}:
        vectors = loop.extent // width
        for across, threads in itertools.product({min(vectors, a) for a in (8, 16, 32, 64, 128)}, (128, 256, 512)):
            down = max(1, min(threads // across, steps))
            blocks = -(-vectors // across) * math.prod(outer.extent for outer in kernel.outer[:-1])
            for wanted in (0, 1, 2, 4, 8):
                splits = max(1, wanted * device.sms // blocks)
                if splits == 1 or steps // splits >= down:
                    yield Columns(width, across, down, splits)


# --- measuring ------------------------------------------------------------------------------------------------------


def buffers(by_name: dict[str, Node], device: DeviceProperties) -> list[dict[str, int]]:
    """Sets of buffers, as many as it takes to leave the cache."""
    sizes = {name: node.size * node.dtype.itemsize for name, node in by_name.items()}
    count = max(1, min(6, 2 * device.l2 // max(1, sum(sizes.values()))))
    sets = []
    for _ in range(count):
        addresses = {}
        for name, node in by_name.items():
            addresses[name] = gpu().allocate(max(sizes[name], 16))
            values = np.random.default_rng(0).standard_normal(min(node.size, 1 << 20)).astype(node.dtype)
            for start in range(0, node.size, 1 << 20):
                stop = min(node.size - start, 1 << 20)
                gpu().upload(addresses[name] + start * node.dtype.itemsize, values[:stop])
        sets.append(addresses)
    return sets


def main() -> None:
    wanted = [word for word in sys.argv[1:] if not word.startswith("--")]
    device = gpu().figures
    print(device)
    todo = []
    for case in cases():
        if wanted and not any(word in case.name for word in wanted):
            continue
        for kernel, by_name in kernels_of(graph_of(case)):
            lists = {shape: write(kernel, device, shape) for shape in sweep(kernel, device)}
            todo.append((case, kernel, by_name, lists))
    prepare(work for *_, lists in todo for work in lists.values())
    print(f"{sum(len(lists) for *_, lists in todo)} launch shapes of {len(todo)} kernels", flush=True)
    ratios = []
    for case, kernel, by_name, lists in todo:
        ratios.append(_report(case, kernel, by_name, lists, device))
    print(f"computed / best: median {np.median(ratios):.3f}, worst {max(ratios):.3f}, within 10%: "
          f"{sum(r <= 1.1 for r in ratios)} of {len(ratios)}")  # fmt: skip


def seconds(work: LaunchList, sets: Sequence[Mapping[str, int]], rounds: int = 5) -> float:
    """The time of a work, the median of some rounds, each a CUDA graph that goes over the sets of buffers often."""
    driver = gpu()

    def graph(repeats: int) -> Any:
        with driver.capturing() as recording:
            for _ in range(repeats):
                for addresses in sets:
                    for launch in work.launches:
                        submit(launch, addresses)
        recording.replay()
        return recording

    repeats = max(1, min(200, int(1.5e-3 / max(driver.time(graph(1).replay, 2), 1e-6))))
    often = graph(repeats)
    return float(np.median([driver.time(often.replay) for _ in range(rounds)])) / repeats / len(sets)


def registers(launch: Launch) -> tuple[int, int]:
    """Registers a thread, and bytes of memory it spills to."""
    driver = gpu()
    function, names = driver.functions[launch.source, launch.entry], driver.cu.CUfunction_attribute
    wanted = names.CU_FUNC_ATTRIBUTE_NUM_REGS, names.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
    first, second = (check(driver.cu.cuFuncGetAttribute(name, function)) for name in wanted)
    return first, second


def _report(case: Case, kernel: LoopKernel, by_name: dict[str, Node], lists: Any, device: DeviceProperties) -> float:
    sets = buffers(by_name, device)
    space = {name: size for work in lists.values() for name, size in work.workspace.items()}
    space = {name: max(work.workspace.get(name, 0) for work in lists.values()) for name in space}
    extra = {name: gpu().allocate(size) for name, size in space.items()}
    sets = [addresses | extra for addresses in sets]
    times = {shape: seconds(work, sets) for shape, work in lists.items()}
    chosen = next(iter(lists))
    best = min(times, key=lambda shape: times[shape])
    moved = sum(node.size * node.dtype.itemsize for node in by_name.values())
    ratio = times[chosen] / times[best]
    used = [registers(launch) for launch in lists[chosen].launches]
    print(
        f"{case.name:15} {kernel.comment[:24]:24} {case.shapes[0]!s:22} {np.dtype(case.dtype).name!s:9}"
        f" {times[chosen] * 1e6:8.1f} us {moved / times[chosen] / 1e12:5.2f} TB/s  best {times[best] * 1e6:8.1f}"
        f"  ratio {ratio:5.3f} of {len(times)}  {chosen} {used}{'' if best == chosen else f'  best: {best}'}",
        flush=True,
    )
    if "--all" in sys.argv:
        for shape in sorted(times, key=lambda shape: times[shape]):
            print(f"      {times[shape] * 1e6:8.1f} us {shape} {[registers(x) for x in lists[shape].launches]}")
    for addresses in sets:
        for name, address in addresses.items():
            if name not in extra:
                gpu().free(address)
    for address in extra.values():
        gpu().free(address)
    return ratio


if __name__ == "__main__":
    main()
