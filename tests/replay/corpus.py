"""What is compiled: every sample of every op, the models and layers in small, and the rows of the benchmarks.

A case has a name and makes the graph that is compiled. Names are stable across commits: two snapshots are compared by
them. The largest cases come first, so that two processes end at about the same time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import wengert as wg
from tests.ops.suite import Call, collect, identifier
from tests.replay.adapt import DEVICE, Recorded, on_gpu, record
from wengert.core import tree
from wengert.core.graph import Graph, now
from wengert.ops.core import placeholder

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
DEVICES = {"cpu": "cpu", "cuda": DEVICE}
RANDOM = 60  # graphs of each kind


class Case(NamedTuple):
    """A named graph to compile; `libraries`: as if cuBLASLt and cuDNN were there."""

    name: str
    make: Callable[[], Recorded]
    libraries: bool = False


def corpus() -> list[Case]:
    """All cases, in a fixed order. A name that comes twice gets a number."""
    found: dict[str, Case] = {}
    for case in (*_rows(), *_trainings(), *_random_graphs(), *ops()):
        name, count = case.name, 1
        while name in found:
            count += 1
            name = f"{case.name} #{count}"
        found[name] = case._replace(name=name)
    return list(found.values())


# --- benchmarks -----------------------------------------------------------------------------------------------------


def _rows() -> Iterator[Case]:
    """The rows of both tables, at their full sizes."""
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    import gpu_rows
    import rows

    for row in sorted(gpu_rows.ROWS, key=lambda row: "gpt2" not in row):
        for libraries in (False, True):
            name = f"row/{'libraries' if libraries else 'cuda'}/{row}"
            yield Case(name, partial(_row, lambda row=row: gpu_rows.wengert_step(row, DEVICE)[0]), libraries)
    for row in rows.ROWS:
        yield Case(f"row/cpu/{row}", partial(_row, lambda row=row: rows.wengert_step(row, compiled=True)[0]))


def _row(make: Callable[[], Callable[[], Any]]) -> Recorded:
    """A row's step on zeros: numbers of these sizes take seconds to draw, and no text depends on them."""
    import gpu_rows
    import inference
    import rows

    def zeros(*shape: int, seed: int = 0) -> np.ndarray:
        return np.zeros(shape, np.float32)

    def labels(count: int, *shape: int) -> np.ndarray:
        return np.zeros(shape, np.int64)

    drawn = {"numbers": zeros, "classes": labels}
    with patch.multiple(rows, **drawn), patch.multiple(gpu_rows, **drawn), patch.object(inference, "numbers", zeros):
        return record(make())


# --- models, layers, optimizers -------------------------------------------------------------------------------------


def _trainings() -> Iterator[Case]:
    """Training steps of the small models, of all layers in groups and of all optimizers, as the compiler's tests have
    them: loss, gradients, update.
    """
    from tests.compiler import test_layers_compiled as layers
    from tests.compiler import test_models_compiled as models
    from tests.compiler import test_optimizers_compiled as optimizers

    for kind, device in DEVICES.items():
        yield Case(f"optimizers/{kind}", partial(_training, partial(optimizers.training, "float32", device)))
        for name in models.MODELS:
            yield Case(f"model/{kind}/{name}", partial(_training, partial(models.training, name, "float32", device)))
        for name, group in layers.GROUPS.items():
            yield Case(f"layers/{kind}/{name}", partial(_training, partial(layers.training, group, "float32", device)))


def _training(make: Callable[[], Any]) -> Recorded:
    return record(wg.compile(make().step))


# --- random graphs --------------------------------------------------------------------------------------------------


def _random_graphs() -> Iterator[Case]:
    """Graphs of the fuzzer: ops of all families, mixed, and reductions of long rows.

    They are named by seeds, so a change of the fuzzer shows here as a change of kernels.
    """
    from tests.compiler.long_rows import long_rows
    from tests.compiler.wide_graphs import wide_graph

    for make in (wide_graph, long_rows):
        for kind in DEVICES:
            for seed in range(RANDOM):
                yield Case(f"random/{kind}/{make.__name__} {seed}", partial(_random_graph, make, seed, kind))


def _random_graph(make: Callable[[int], Any], seed: int, kind: str) -> Recorded:
    recorded = Recorded(make(seed).graph)
    return on_gpu(recorded) if kind == "cuda" else recorded


# --- ops ------------------------------------------------------------------------------------------------------------


def ops() -> Iterator[Case]:
    """Every sample of the registry's suite: the result, and where it is differentiable the gradient.

    In float32, and on the GPU in bfloat16 too, for which tensor cores have kernels of their own.
    """
    for case in collect():
        has_floating = bool(Call(case).floating)
        for kind, dtype in (("cpu", "float32"), ("cuda", "float32"), ("cuda", "bfloat16")):
            if dtype == "bfloat16" and not (case.half and has_floating):
                continue
            name = f"{kind}/{identifier(case)}{'' if dtype == 'float32' else f' {dtype}'}"
            yield Case(f"op/{name}", partial(_op, case, kind, dtype, _forward))
            if case.differentiable and has_floating:
                yield Case(f"gradient/{name}", partial(_op, case, kind, dtype, _gradient))


def _op(case: Any, kind: str, dtype: str, outputs: Callable[[Call, list[wg.Tensor]], Any]) -> Recorded:
    wg.synchronize()  # a generator's counter is read as a constant: it must have a value
    call, since = Call(case), now()
    inputs = [placeholder(call.leaves[i].shape, getattr(wg, dtype)) for i in call.floating]
    results = tree.flatten(outputs(call, [wg.Tensor(node) for node in inputs]))[0]
    nodes = [leaf.node for leaf in results if isinstance(leaf, wg.Tensor)]
    recorded = Recorded(Graph(inputs, nodes, since))
    return on_gpu(recorded) if kind == "cuda" else recorded


def _forward(call: Call, tensors: list[wg.Tensor]) -> Any:
    return call(*tensors)


def _gradient(call: Call, tensors: list[wg.Tensor]) -> Any:
    dtype = tensors[0].dtype

    def loss(*values: wg.Tensor) -> wg.Tensor:
        parts = [leaf for leaf in tree.flatten(call.invariant(*values))[0] if isinstance(leaf, wg.Tensor)]
        floating = [part for part in parts if part.dtype == dtype]
        return sum((wg.sin(part * 0.7).sum() for part in floating), wg.tensor(0.0, dtype=dtype))

    return wg.grad(loss, tuple(range(len(tensors))))(*tensors)
