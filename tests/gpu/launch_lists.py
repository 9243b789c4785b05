"""Small launch lists, one of every kernel text: of the op suite, of random graphs, and of the kernels written by hand.

Needs no GPU but its properties. `every_launch_list()` leaves out those all of whose kernels came before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import wengert as wg
from tests.compiler.fuzz import joined
from tests.compiler.loop_graphs import loop_graph
from tests.compiler.test_compiled_ops import CASES, record
from tests.compiler.wide_graphs import Sample, wide_graph
from tests.gpu.harness import Array, Item
from tests.kernels.test_attention_cuda import CASES as ATTENTIONS
from tests.kernels.test_attention_cuda import names_of, node_of
from tests.kernels.test_convolution_cuda import DOUBLED, FORMS, ONE_IMAGE, channels_last, nodes
from tests.kernels.test_convolution_depthwise import FORMS as DEPTHWISE
from tests.kernels.test_convolution_rows import CASES as BY_ROWS
from tests.kernels.test_convolution_rows import LARGER as LARGER_BY_ROWS
from tests.kernels.test_gemm import product
from tests.kernels.test_multi_transpose import SHAPES
from tests.kernels.test_multi_transpose import channels_last as weights_transposed
from tests.kernels.test_prebuilt import FAMILIES, value
from tests.kernels.test_recurrent_cuda import trained, work_for
from wengert.backends.cuda.libraries import CudaLibraries
from wengert.backends.cuda.memory import opened
from wengert.backends.cuda.program import CudaProgram, codegen_with, target_of
from wengert.compiler.memory import storage
from wengert.compiler.passes import optimize
from wengert.core.dtypes import bfloat16, float16, float32, float64, int32, int64
from wengert.core.graph import Graph, now
from wengert.kernels import prebuilt
from wengert.kernels.attention import cuda as attention_cuda
from wengert.kernels.convolution import cuda as convolution_cuda
from wengert.kernels.launch import ERROR_FLAG, FAILING_OP, DeviceProperties, LaunchList
from wengert.kernels.matmul import cuda
from wengert.ops.core import placeholder, to_device
from wengert.ops.op import picks
from wengert.plan import launches, lowering
from wengert.plan.outputs import device_of
from wengert.plan.pipeline import planned

UNIT = 60  # cases of the op suite to a program
GRAPHS = 10  # random graphs to a program


class Planned(CudaProgram):
    """A program with no library in it, planned and not compiled."""

    def __init__(self, graph: Graph) -> None:
        without = lambda *_, **__: ()
        with patch.object(CudaLibraries, "candidates", without), patch.object(CudaLibraries, "recipes", without):
            super().__init__(planned(graph, target_of(device_of(graph)), codegen_with()))

    def _connect(self) -> None:
        pass


def every_launch_list(graphs: int = 300, every: int = 1) -> Iterator[Item]:
    """A work of every kernel text by hand, of so many random graphs, and of one in `every` of the op suite."""
    device = opened("cuda:0").properties
    found = itertools.chain(
        of_gemm(device),
        of_convolutions(device),
        of_attention(device),
        of_recurrences(device),
        of_prebuilt(device),
        of_norms(),
        of_long_rows(),
        of_following(),
        of_turned_weights(),
        of_ops(CASES[::every], float64),
        of_ops(CASES[::every], float32),
        of_random_graphs(range(graphs)),
        of_random_graphs(range(graphs // 2), loop_graph),
        of_trajectories(),
    )
    seen: set[tuple[str, str]] = set()
    for item in found:
        kernels = {(launch.source, launch.entry) for launch in item.work.launches}
        if kernels - seen:
            seen |= kernels
            yield item


# --- of graphs ------------------------------------------------------------------------------------------------------


def of_ops(cases: Sequence[Any], dtype: Any) -> Iterator[Item]:
    """The op suite, forward and backward."""
    for start in range(0, len(cases), UNIT):
        wg.synchronize()
        since = now()
        parts = [p for p in (record(case, dtype) for case in cases[start : start + UNIT]) if p is not None]
        inputs = [node for nodes, _, _ in parts for node in nodes]
        outputs = [to_device(node, "cuda:0") for _, _, nodes in parts for node in nodes]
        yield from of_program(Planned(Graph(inputs, outputs, since)))


def of_random_graphs(seeds: Sequence[int], make: Callable[[int], Sample] = wide_graph) -> Iterator[Item]:
    """Graphs as the compiler is fuzzed with."""
    for start in range(0, len(seeds), GRAPHS):
        graph = joined([make(seed) for seed in seeds[start : start + GRAPHS]]).graph
        graph, _ = optimize(graph)
        moved = [to_device(node, "cuda:0") for node in graph.outputs]
        yield from of_program(Planned(Graph(graph.inputs, moved, nodes=[*graph.nodes, *moved])))


def of_trajectories() -> Iterator[Item]:
    """Loops over lanes that end by themselves, there and back, and the total of what they share."""
    for shared, dtype in itertools.product((True, False), (float32, float64)):
        since = now()
        inputs = [placeholder(() if shared else (70,), dtype, "cuda:0"), placeholder((70,), dtype, "cuda:0")]
        inputs.append(placeholder((70,), int64, "cuda:0"))
        found = wg.grad(partial(_swung, shared), argnums=(0, 1))(*map(wg.Tensor, inputs))
        graph, _ = optimize(Graph(inputs, [one.node for one in found], since))
        yield from of_program(Planned(graph))


def _swung(shared: bool, rate: wg.Tensor, x: wg.Tensor, more: wg.Tensor) -> wg.Tensor:
    def end(rate: wg.Tensor, x: wg.Tensor, more: wg.Tensor) -> wg.Tensor:
        step = lambda state: (wg.sin(rate * state[0]), state[1] + 1)
        return wg.while_loop(lambda state: state[1] < 90, step, (x, 9 * more))[0]

    return (wg.vmap(end, (None if shared else 0, 0, 0))(rate, x, more) ** 2).sum()


def of_norms() -> Iterator[Item]:
    """Norms forward and backward, with the totals of columns that these take along: of one, and of two at once."""
    for shape, dtype, count in itertools.product(((300, 96), (70, 2500)), (float32, bfloat16), (1, 2)):
        since = now()
        kinds = ((shape, dtype), (shape[1:], float32), (shape[1:], float32), (shape, dtype))
        given, results = [], []
        for _ in range(count):
            *inputs, cotangent = (wg.Tensor(placeholder(*kind, "cuda:0")) for kind in kinds)
            forward = lambda x, *weights: wg.layer_norm(x.to(float32), x.shape[1:], *weights).to(x.dtype)
            given += [*inputs, cotangent]
            results += wg.vjp(forward, *inputs)[1](cotangent)
        graph, _ = optimize(Graph([x.node for x in given], [x.node for x in results], since))
        with patch.object(lowering, "LARGE", 1):
            yield from of_program(Planned(graph))


def of_long_rows() -> Iterator[Item]:
    """Cross-entropy and its gradient over the scores of a product, in rows that stay in shared memory."""
    since = now()
    hidden, head = placeholder((70, 64), bfloat16, "cuda:0"), placeholder((64, 50_000), bfloat16, "cuda:0")
    targets = placeholder((70,), int64, "cuda:0")
    loss = lambda hidden: wg.cross_entropy((hidden @ wg.Tensor(head)).to(float32), wg.Tensor(targets))
    results = wg.value_and_grad(loss)(wg.Tensor(hidden))
    graph, _ = optimize(Graph([hidden, head, targets], [x.node for x in results], since))
    yield from of_program(Planned(graph))


def of_following() -> Iterator[Item]:
    """Rows that threads hold, normalised and otherwise, in kernels that are all of a program."""
    for function in (lambda x: wg.layer_norm(x, x.shape[1:]), lambda x: wg.softmax(x, axis=1), lambda x: x * x):
        since = now()
        x = wg.Tensor(placeholder((70, 1024), float32, "cuda:0"))
        graph, _ = optimize(Graph([x.node], [function(x).node], since))
        with patch.object(launches, "LONG", 1):
            yield from of_program(Planned(graph))


def of_turned_weights() -> Iterator[Item]:
    """Weights with their channels last, in one launch."""
    for stored in (float32, bfloat16):
        yield from of_program(Planned(weights_transposed(SHAPES, stored, bfloat16, "cuda:0")))


def of_program(program: CudaProgram) -> Iterator[Item]:
    """The lists of a program's steps, on random numbers."""
    for step in program.steps:
        if not step.launches:
            continue
        reads = {storage(node) for node in step.reads}
        read = {name: node for name, node in step.buffers.items() if node in reads}
        rest = {name: node for name, node in step.buffers.items() if node not in reads}
        given = {name: numbers(node.shape, node.dtype) for name, node in read.items()}
        if any(ERROR_FLAG in launch.arguments for launch in step.launches):
            given |= {ERROR_FLAG: np.zeros(1, np.int32), FAILING_OP: np.zeros(1, np.int64)}
        empty = {name: node.size * node.dtype.itemsize for name, node in rest.items()}
        yield Item(
            ",".join(node.op.name for node in step.writes), LaunchList(step.launches, step.workspace), given, empty
        )


def numbers(shape: tuple[int, ...], dtype: Any) -> Array:
    """Random ones, the integers small enough to be indices."""
    rng = np.random.default_rng(0)
    if dtype == np.bool_ or np.dtype(dtype).kind in "iu":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


# --- by hand --------------------------------------------------------------------------------------------------------


def of_gemm(device: DeviceProperties) -> Iterator[Item]:
    """Matrix products: every tile of one layout, and every rung of the others."""
    for dtype, tf32 in ((float32, False), (float32, True), (bfloat16, False), (float16, False), (float64, False)):
        for transposed in itertools.product((False, True), repeat=2):
            p = product((136, 72, 80), transposed, dtype, tf32=tf32).normal()
            tiles = [tile for tile in cuda.candidates(p, device) if tile.split <= 2]
            if any(transposed):
                tiles = list({(tile.rung, tile.split): tile for tile in tiles}.values())
            a, b = ((80, 136) if transposed[0] else (136, 80)), ((72, 80) if transposed[1] else (80, 72))
            given = {"a": numbers(a, dtype), "b": numbers(b, dtype)}
            for tile in tiles:
                yield Item(f"{p} {tile}", cuda.write(p, tile, device), given, {"c": 136 * 72 * dtype.itemsize})
    odd = product((33, 17, 5), (False, True), int32)
    for work in cuda.matmul(odd, device):
        yield Item(f"{odd}", work, {"a": numbers((33, 5), int32), "b": numbers((17, 5), int32)}, {"c": 33 * 17 * 4})


def of_convolutions(device: DeviceProperties) -> Iterator[Item]:
    """Convolutions and their transposes, by every kernel that can do them."""
    for form, (dtype, tf32) in itertools.product(FORMS, ((float32, False), (float32, True), (bfloat16, False))):
        for node in nodes(form, dtype):
            found = convolution_cuda.convolution(node, tf32=tf32)
            assert found is not None
            given = {name: np.array(source.buffer) for name, source in zip("ab", node.sources)}
            for work in convolution_cuda.candidates(found, "a", "b", "c", device)[:4]:
                yield Item(f"{node.op.name} {form}", work, given, {"c": node.size * node.dtype.itemsize})
    for form, dtype in itertools.product(DEPTHWISE, (float32, bfloat16)):
        for node in map(channels_last, nodes(form, dtype)):
            found = convolution_cuda.convolution(node)
            assert found is not None
            given = {name: np.array(source.buffer) for name, source in zip("ab", node.sources)}
            for work in convolution_cuda.candidates(found, "a", "b", "c", device)[:2]:
                yield Item(f"{node.op.name} {form}", work, given, {"c": node.size * node.dtype.itemsize})
    for form, which, rung in (*BY_ROWS, *LARGER_BY_ROWS):
        node = channels_last(nodes(form, float32)[which])
        found = convolution_cuda.convolution(node, tf32=True)
        assert found is not None
        given = {name: np.array(source.buffer) for name, source in zip("ab", node.sources)}
        for tile in convolution_cuda.tiles(found, device):
            if tile is not None and tile.rung == rung:
                work = convolution_cuda.work(found, "a", "b", "c", device, tile)
                yield Item(f"{node.op.name} {form} by {tile}", work, given, {"c": node.size * node.dtype.itemsize})
    node = channels_last(nodes(ONE_IMAGE, bfloat16)[0])
    found = convolution_cuda.convolution(node)
    assert found is not None
    given = {name: np.array(source.buffer) for name, source in zip("ab", node.sources)}
    for tile, epilogue in itertools.product(convolution_cuda.tiles(found, device)[:2], (None, DOUBLED)):
        work = convolution_cuda.work(found, "a", "b", "c", device, tile, epilogue)
        yield Item(f"{node.op.name} {ONE_IMAGE} by {tile}", work, given, {"c": node.size * 4})


def of_attention(device: DeviceProperties) -> Iterator[Item]:
    """Attention, forward and backward."""
    wide: list[Any] = [(((2, 70, 128),) * 3, None, {"causal": True, "scale": 0.1})]
    for case, dtype in itertools.product(ATTENTIONS + wide, (float32, bfloat16, float16)):
        y, back = node_of(case, dtype)
        results, given = picks(back), dict[str, Array]()
        named = names_of(y, given)
        forward = attention_cuda.forward(y, named, device)
        backward = attention_cuda.backward(back, named, device, dict(enumerate(results)))
        for work, made in ((forward, [y]), (backward, results)):
            assert work is not None
            empty = {f"n{x.serial}": x.size * x.dtype.itemsize for x in made}
            yield Item(f"attention {case} {dtype}", work, given, empty)


def of_recurrences(device: DeviceProperties) -> Iterator[Item]:
    """Layers forwards and backwards: one product a step, and two that follow each other."""
    precisions = ((float32, False), (float32, True), (bfloat16, False), (float16, False), (float64, False))
    for kind, options in (("GRU", {}), ("LSTM", {"proj_size": 24})):
        for dtype, tf32 in precisions:
            for scan in trained(kind, 3, 20, 48, dtype=dtype, **options):
                work, arrays = work_for(scan, replace(device, tf32=tf32))
                given = {name: array for name, array in arrays.items() if name.startswith("source")}
                empty = {name: array.nbytes for name, array in arrays.items() if name not in given}
                yield Item(f"{kind} {dtype}{' as tf32' if tf32 else ''}", work, given, empty)


def of_prebuilt(device: DeviceProperties) -> Iterator[Item]:
    """Kernels that take sizes as arguments."""
    for node in (node for family in FAMILIES for node in family()):
        work = prebuilt.work(node, device)
        assert work is not None
        given = {f"x{k}": value(source) for k, source in enumerate(node.sources)}
        given |= {ERROR_FLAG: np.zeros(1, np.int32)}
        yield Item(node.op.name, work, given, {"y": node.size * node.dtype.itemsize})
