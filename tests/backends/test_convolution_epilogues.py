"""What follows a convolution in cuDNN's terms: what fits, what it computes, and the graph that cuDNN is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from wengert.backends.cuda import dnn
from wengert.core import cache
from wengert.core.dtypes import bfloat16, float32, float64
from wengert.core.graph import Graph, Node
from wengert.ops import elementwise as e
from wengert.ops.activation import relu
from wengert.ops.channels_last import CONVOLVE_LAST
from wengert.ops.convolve import CONVOLVE
from wengert.ops.core import cast, placeholder
from wengert.ops.movement import reshape
from wengert.ops.reduce import sum as total
from wengert.plan.epilogues import PointwiseOps, convolution_epilogues
from wengert.plan.lowering import inlines
from wengert.plan.plan import LibraryEpilogue

COMMON = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
OPS: dict[str, Callable[..., Any]] = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "tanh": np.tanh},
    **{"relu": lambda x: np.maximum(x, 0), "sigmoid": lambda x: 1 / (1 + np.exp(-x))},
}


def finishes(graph: Graph) -> dict[Node, LibraryEpilogue]:
    """All that cuDNN could take in."""
    return convolution_epilogues(graph, inlines, lambda node: node.sources, lambda node, steps: True)


class Made:
    """A convolution and inputs that were asked for after it."""

    def __init__(self, dtype: Any = float32, ins: int = 3, outs: int = 6) -> None:
        self.dtype, self.ins, self.outs = dtype, ins, outs
        self.shape = (2, 5, 4, outs)
        self.inputs: list[Node] = []
        self.y = self.convolution()

    def given(self, *shape: int) -> Node:
        self.inputs.append(placeholder(shape, self.dtype))
        return self.inputs[-1]

    def convolution(self) -> Node:
        return CONVOLVE_LAST(self.given(2, 5, 4, self.ins), self.given(self.outs, 3, 3, self.ins), **COMMON)

    def channel(self) -> Node:
        """One number a channel, as a layer holds it."""
        return reshape(reshape(self.given(self.outs), (self.outs, 1, 1)), (1, 1, 1, self.outs))

    def normalized(self, x: Node) -> Node:
        """As batch norm of a trained model leaves it: in float32, with a root that is computed of the channels."""
        mean, variance, weight, bias = (self.channel() for _ in range(4))
        scale = e.reciprocal(e.sqrt(e.add(e.multiply(variance, variance), 1e-5)))
        wide = [cast(each, float32) for each in (x, mean, scale, weight, bias)]
        centred = e.multiply(e.subtract(wide[0], wide[1]), wide[2])
        return cast(e.add(e.multiply(centred, wide[3]), wide[4]), self.dtype)

    def finishes(self, *outputs: Node) -> dict[Node, LibraryEpilogue]:
        return finishes(Graph(self.inputs, outputs))


def evaluated(steps: PointwiseOps, numbers: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """What steps make of the sums and what lies in memory."""
    values = list(numbers)
    for op, operands in steps.steps:
        values.append(OPS[op](*(values[number] for number in operands)))
    return values[-1]


def computed(node: Node, finish: LibraryEpilogue, values: dict[Node, Any]) -> np.ndarray[Any, Any]:
    """What the steps after a convolution make of arrays, in float64."""
    numbers = [values[node].astype(float)]
    for place, (is_channel, dtype) in zip(finish.operands, finish.how.given, strict=True):  # type: ignore[attr-defined]
        assert place.dtype is dtype
        numbers.append(values[place].astype(float).reshape(-1 if is_channel else finish.result.shape))
    return evaluated(finish.how, numbers)


def bias(m: Made) -> Node:
    return e.add(m.channel(), m.y)


def silu(m: Made) -> Node:
    return e.multiply(m.y, e.sigmoid(m.y))


FITTING: dict[str, tuple[Callable[[Made], Node], list[str]]] = {
    "batch norm and relu": (lambda m: relu(m.normalized(m.y)), ["sub", "mul", "mul", "add", "relu"]),
    "a residual": (
        lambda m: relu(e.add(m.normalized(m.y), m.given(*m.shape))),
        ["sub", "mul", "mul", "add", "add", "relu"],
    ),
    "a bias": (bias, ["add"]),
    "a residual that is the first": (lambda m: e.subtract(m.given(*m.shape), m.y), ["sub"]),
    "a residual of rows": (lambda m: e.add(m.y, reshape(m.given(40, m.outs), m.shape)), ["add"]),
    "two convolutions": (
        lambda m: relu(e.add(m.normalized(m.convolution()), bias(m))),
        ["sub", "mul", "mul", "add", "add", "add", "relu"],
    ),
}


@pytest.mark.parametrize("dtype", [float32, bfloat16])
@pytest.mark.parametrize("name", FITTING)
def test_what_follows_becomes_steps_that_compute_the_same(name: str, dtype: Any) -> None:
    build, ops = FITTING[name]
    made = Made(dtype)
    result = build(made)
    ((node, finish),) = made.finishes(result).items()
    assert finish.result is result
    assert [step.op for step in finish.how.steps] == ops
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=node.shape).astype(dtype) for node in made.inputs]
    wanted = [result, node, *finish.operands]
    got = Graph(made.inputs, wanted)(*arrays)
    want = np.asarray(got[0], float)
    np.testing.assert_allclose(
        computed(node, finish, dict(zip(wanted, got))),
        want,
        rtol=0,
        atol=np.abs(want).max() * (1e-6 if dtype is float32 else 3e-2),
    )


def test_of_two_convolutions_the_later_takes_in_what_follows_from_both() -> None:
    made = Made()
    later = made.convolution()
    ((node, finish),) = made.finishes(relu(e.add(later, made.y))).items()
    assert node is later and finish.operands == (made.y,)


def test_a_value_is_read_as_narrow_as_it_lies() -> None:
    made = Made(bfloat16)
    (finish,) = made.finishes(relu(made.normalized(made.y))).values()
    assert all(operand.dtype is bfloat16 and operand.size == 6 for operand in finish.operands)
    assert [operand.op.name for operand in finish.operands].count("reciprocal") == 1


@pytest.mark.parametrize("dtype, fits", [(bfloat16, True), (float32, False)])
def test_what_cudnn_computes_roughly_is_for_half_precision(dtype: Any, fits: bool) -> None:
    made = Made(dtype)
    found = made.finishes(silu(made))
    assert bool(found) == fits
    assert not fits or [step.op for step in found[made.y].how.steps] == ["sigmoid", "mul"]


def test_what_another_reads_ends_there() -> None:
    made = Made()
    middle = bias(made)
    (finish,) = made.finishes(relu(middle), middle).values()
    assert finish.result is middle
    assert not made.finishes(relu(made.y), made.y)


NOT_FITTING: dict[str, Callable[[Made], Node]] = {
    "a reduction": lambda m: total(relu(m.y), (1, 2)),
    "statistics": lambda m: e.subtract(m.y, total(m.y, (0, 1, 2))),
    "a number a position": lambda m: e.add(m.y, m.given(1, 5, 4, 1)),
    "a number": lambda m: e.multiply(m.y, 2.0),
    "an op that is not cuDNN's": lambda m: e.exp(m.y),
    "what is wider": lambda m: e.add(cast(m.y, float64), cast(m.channel(), float64)),
    "what is rounded on the way to float32": lambda m: relu(cast(cast(bias(m), bfloat16), float32)),
    "nothing": lambda m: m.y,
    "a cast": lambda m: cast(m.y, bfloat16),
    "what is computed for each number": lambda m: e.add(m.y, e.exp(m.given(*m.shape))),
}


@pytest.mark.parametrize("name", NOT_FITTING)
def test_what_does_not_fit(name: str) -> None:
    made = Made()
    assert not made.finishes(NOT_FITTING[name](made))


def test_a_long_chain_is_left_alone() -> None:
    made = Made()
    value, one = made.y, made.channel()
    for _ in range(3000):
        value = e.add(value, one)
    assert not made.finishes(value)


def test_channels_first_are_left_alone() -> None:
    x, weight = placeholder((2, 3, 5, 4), float32), placeholder((6, 3, 3, 3), float32)
    assert not finishes(Graph([x, weight], [relu(CONVOLVE(x, weight, **COMMON))]))


# --- cuDNN's graph ----------------------------------------------------------------------------------------------------


class Drawn:
    """A graph of cuDNN's that notes what it is asked for."""

    def __init__(self, **settings: Any) -> None:
        self.said: list[str] = []
        self.tensors: dict[int, tuple[list[int], list[int], str]] = {}
        self.settings = settings

    def tensor(self, dim: list[int], stride: list[int], data_type: str, uid: int) -> str:
        self.tensors[uid] = dim, stride, data_type
        return f"t{uid}"

    def __getattr__(self, op: str) -> Any:
        return lambda *operands, **_: Value(self, op, operands)

    def get_execution_plan_count(self) -> int:
        return 2

    def build_plan_at_index(self, index: int) -> None:
        self.said.append(f"built {index}")

    def serialize(self) -> list[int]:
        return list(self.said[-1].encode())

    def deserialize(self, handle: Any, content: list[int]) -> None:
        self.said.append(f"loaded {bytes(content).decode()}")

    def get_workspace_size(self) -> int:
        return 70

    def execute(self, pack: dict[int, int], workspace: int, handle: Any) -> None:
        self.said.append(f"{pack} {workspace}")


class Value:
    """What an op of such a graph makes."""

    def __init__(self, graph: Drawn, op: str, operands: tuple[Any, ...]) -> None:
        self.graph, self.text = graph, f"{op}({', '.join(map(str, operands))})"

    def __str__(self) -> str:
        return self.text

    def __getattr__(self, name: str) -> Any:
        def note(value: Any) -> Value:
            self.graph.said.append(f"{self.text}.{name}({value})")
            return self

        return note


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Drawn]]:
    """A cuDNN that draws graphs, with a cache of the test's own; those it drew."""
    drawn: list[Drawn] = []

    def pygraph(**settings: Any) -> Drawn:
        drawn.append(Drawn(**settings))
        return drawn[-1]

    class Names:
        def __getattr__(self, name: str) -> str:
            return name

    names = Names()
    found = SimpleNamespace(
        pygraph=pygraph,
        **dict.fromkeys(("data_type", "heur_mode", "numerical_note"), names),
        cudnnGraphNotSupportedError=ValueError,
        backend_version=lambda: 9,
    )
    monkeypatch.setattr(dnn, "library", lambda: found)
    monkeypatch.setattr(dnn, "handle", lambda device: None)
    monkeypatch.setattr(dnn, "opened", lambda device: SimpleNamespace(name="a GPU"))
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    dnn.candidates.cache_clear()
    yield drawn
    dnn.candidates.cache_clear()


def test_the_steps_are_drawn_after_the_convolution(library: list[Drawn]) -> None:
    made = Made(bfloat16)
    (finish,) = made.finishes(relu(e.add(bias(made), made.given(*made.shape)))).values()
    shape = dnn.shape_of(made.y, tf32=False, then=finish.how)
    assert shape is not None
    plans = dnn.candidates(shape, "cuda:0")
    (graph,) = library
    assert graph.settings["intermediate_data_type"] == "FLOAT"
    assert graph.tensors[3] == ([1, 6, 1, 1], [6, 1, 6, 6], "BFLOAT16")
    assert graph.tensors[4] == ([2, 6, 5, 4], [120, 1, 24, 6], "BFLOAT16")
    result = "relu(add(add(t3, conv_fprop(t1, t2)), t4))"
    assert f"{result}.set_uid(5)" in graph.said and f"{result}.set_data_type(BFLOAT16)" in graph.said
    assert [plan.name for plan in plans] == ["cuDNN #0, fused", "cuDNN #1, fused"]


def test_a_plan_is_compiled_once_and_kept(library: list[Drawn]) -> None:
    made = Made(bfloat16)
    (finish,) = made.finishes(bias(made)).values()
    shape = dnn.shape_of(made.y, tf32=False, then=finish.how)
    assert shape is not None
    for _ in range(2):  # the second time as in another process
        first, second = dnn.candidates(shape, "cuda:0")
        assert second.works and second.workspace == 70
        second.enqueue(0, [10, 20, 30, 40], 60)
        assert library[-1].said == ["loaded built 1", "{1: 10, 2: 20, 3: 30, 4: 40} 60"]
        dnn.candidates.cache_clear()
    assert ["built 1" in graph.said for graph in library] == [True, False, False, False]
    assert isinstance(first, dnn.Fused) and first.entry != second.entry
    (cache.folder() / first.entry).write_bytes((cache.folder() / second.entry).read_bytes()[:-1])  # cut off
    assert first.works and "built 0" in first.graph.said


def test_a_plan_that_cannot_be_built_does_not_work(library: list[Drawn], monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(bfloat16)
    (finish,) = made.finishes(bias(made)).values()
    shape = dnn.shape_of(made.y, tf32=False, then=finish.how)
    assert shape is not None
    monkeypatch.setattr(Drawn, "build_plan_at_index", lambda self, index: 1 / 0)
    assert not any(plan.works for plan in dnn.candidates(shape, "cuda:0"))


def test_shapes_that_go_on_otherwise_are_others(library: list[Drawn]) -> None:
    made = Made()
    (first,) = made.finishes(bias(made)).values()
    (second,) = made.finishes(relu(made.y)).values()
    shapes = {dnn.shape_of(made.y, False), *(dnn.shape_of(made.y, False, each.how) for each in (first, second))}
    assert len(shapes) == 3
    for shape in shapes:
        assert shape is not None
        dnn.candidates(shape, "cuda:0")
    assert len(library) == 3
