"""What programs import beside tensors and layers: summaries of TensorBoard, `_pytree`, `overrides`, torchinfo."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import subprocess
import sys
from collections import OrderedDict, namedtuple
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert.torch as ours
from tests.torch.compare import theirs

Point = namedtuple("Point", "x y")
needs_tensorboard = pytest.mark.skipif(find_spec("tensorboard") is None, reason="tensorboard is not installed")


@pytest.mark.skipif(find_spec("tensorboard") is not None, reason="tensorboard is installed")
def test_without_tensorboard_the_import_says_what_to_install() -> None:
    with pytest.raises(ImportError, match="pip install tensorboard"):
        importlib.import_module("wengert.torch.utils.tensorboard")


def events(folder: Path) -> list[Any]:
    """What is in the event files of a folder."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    return [event for file in sorted(folder.glob("events*")) for event in LegacyEventFileLoader(str(file)).Load()]


@needs_tensorboard
def test_events_are_those_of_pytorch(tmp_path: Path) -> None:
    def written(torch: Any, folder: Path) -> dict[str, Any]:
        writer = importlib.import_module(f"{torch.__name__}.utils.tensorboard").SummaryWriter(folder)
        for step in range(3):
            writer.add_scalar("loss", torch.tensor(1.0 / (step + 1)), step)
        writer.add_scalar("number", 2, 7)
        writer.add_histogram("weights", torch.linspace(-1, 2, 50), 1)
        writer.add_image("image", torch.linspace(0, 1, 48).reshape(3, 4, 4))
        writer.add_images("images", torch.rand(3, 1, 4, 4))
        writer.add_text("note", "**bold**", 2)
        writer.add_scalars("both", {"a": 1.0, "b": 2.0}, 3)
        writer.flush()
        writer.close()
        assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["both_a", "both_b"]
        return {value.tag + str(event.step): value for event in events(folder) for value in event.summary.value}

    found = written(ours, tmp_path / "ours")
    assert [round(found[f"loss{k}"].simple_value, 4) for k in range(3)] == [1.0, 0.5, 0.3333]
    expected = written(theirs, tmp_path / "theirs")
    assert list(found) == list(expected)
    assert found["number7"].simple_value == 2.0
    mine, its = found["weights1"].histo, expected["weights1"].histo
    assert (mine.num, mine.min, mine.max) == (its.num, its.min, its.max)
    assert mine.sum == pytest.approx(its.sum) and mine.sum_squares == pytest.approx(its.sum_squares)
    assert list(mine.bucket) == list(its.bucket) and sum(mine.bucket) == 50
    np.testing.assert_allclose(mine.bucket_limit, its.bucket_limit, rtol=1e-9)
    from PIL import Image

    for name in ("image0", "images0"):
        sizes = [Image.open(io.BytesIO(values[name].image.encoded_image_string)).size for values in (found, expected)]
        assert sizes[0][0] >= 4 and (name == "images0" or sizes[0] == sizes[1])
    assert found["note/text_summary2"].tensor.string_val == expected["note/text_summary2"].tensor.string_val


@needs_tensorboard
def test_a_models_graph_and_hyperparameters(tmp_path: Path) -> None:
    from wengert.torch.utils.tensorboard import SummaryWriter

    class Net(ours.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = ours.nn.Sequential(ours.nn.Linear(3, 4), ours.nn.ReLU())
            self.head = ours.nn.Linear(4, 2)

        def forward(self, x: Any) -> Any:
            return self.head(self.body(x) * 2)

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_graph(Net(), ours.ones(1, 3))
        writer.add_hparams({"lr": 0.1, "name": "net"}, {"loss": 0.5}, run_name="trial")
        with pytest.raises(AttributeError, match=r"add_mesh is not in wengert.torch"):
            writer.add_mesh("m", ours.ones(1))
    from tensorboard.compat.proto import graph_pb2

    graph = next(graph_pb2.GraphDef.FromString(e.graph_def) for e in events(tmp_path) if e.graph_def)
    assert {node.name: list(node.input) for node in graph.node} == {
        "Net/input_0": [],
        "Net/body/0": ["Net/input_0"],
        "Net/body/1": ["Net/body/0"],
        "Net/head": ["Net/body/1"],
        "Net/output": ["Net/head"],
    }
    tags = [value.tag for event in events(tmp_path / "trial") for value in event.summary.value]
    assert tags == ["_hparams_/experiment", "_hparams_/session_start_info", "_hparams_/session_end_info", "loss"]


def test_trees_are_pytorchs() -> None:
    def expression(torch: Any) -> list[Any]:
        pytree = importlib.import_module(f"{torch.__name__}.utils._pytree")
        tree = {"b": [1, (2, None)], "a": Point(3, OrderedDict(z=4, y=5))}
        leaves, spec = pytree.tree_flatten(tree)
        return [
            leaves,
            spec.num_leaves,
            pytree.tree_unflatten([10 * (x or 0) for x in leaves], spec),
            pytree.tree_map(lambda x: x and x + 1, tree),
            pytree.tree_map(lambda x, y: (x, y), [1, 2], [3, 4]),
            pytree.tree_map_only(int, lambda x: -x, [1, "a", 2.0]),
            pytree.tree_leaves([[1], 2], is_leaf=lambda x: isinstance(x, list) and len(x) == 1),
            pytree.tree_any(lambda x: x == 3, tree),
            pytree.tree_all(lambda x: x == 3, tree),
        ]

    assert expression(ours) == expression(theirs)


def test_own_classes_in_trees() -> None:
    from wengert.torch.utils import _pytree

    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    _pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda parts, _: Pair(*parts))
    try:
        made = _pytree.tree_map(lambda x: x * 2, Pair(1, ours.ones(2)))
        assert made.a == 2 and made.b.tolist() == [2.0, 2.0]
    finally:
        del _pytree.SUPPORTED_NODES[Pair]
    with pytest.raises(ValueError, match="leaves"):
        _pytree.tree_unflatten([1], _pytree.tree_structure([1, 2]))


def test_arguments_that_answer_for_a_function() -> None:
    from wengert.torch import overrides

    class Answering:
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return function.__name__, types

    @overrides.wrap_torch_function(lambda a, b: (a, b))
    def added(a: Any, b: Any) -> Any:
        return a + b

    assert added(1, 2) == 3 and added(1, Answering()) == ("added", (Answering,))
    assert overrides.is_tensor_like(ours.ones(1)) and not overrides.is_tensor_like(1)
    assert overrides.is_tensor_like(Answering())


@pytest.mark.parametrize(
    "line",
    [
        "from torch.types import Number, Device, _size",
        "from torch.utils.hooks import RemovableHandle",
        "from torch.utils.dlpack import from_dlpack, to_dlpack",
        "from torch.jit import ScriptModule",
        "from torch.distributed.elastic.multiprocessing.errors import record",
        "import torch.compiler, torch._dynamo",
        "import torch.utils._pytree as pytree",
    ],
)
def test_lines_that_programs_begin_with(line: str) -> None:
    known: dict[str, Any] = {}
    exec(
        line.replace("torch", "wengert.torch").replace("import wengert.torch.compiler, wengert", "import wengert"),
        known,
    )
    assert len(known) > 1


SUMMARY = """
import contextlib, io, torch, torchinfo
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8 * 36, 10)
    def forward(self, x):
        return self.head(self.features(x).flatten(1))
print(torchinfo.summary(Net(), input_size=(2, 3, 8, 8), verbose=0))
"""


@pytest.mark.skipif(find_spec("torchinfo") is None, reason="torchinfo is not installed")
def test_torchinfo_prints_what_it_prints_of_pytorchs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SUMMARY)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "wengert.cli", "torch", str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    expected = io.StringIO()
    with contextlib.redirect_stdout(expected):
        exec(SUMMARY, {"__name__": "summary"})
    assert done.stdout == expected.getvalue(), done.stderr
