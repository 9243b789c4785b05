"""`wengert torch script.py`: what `import torch` finds, what a script sees of itself, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import wengert.torch as torch
from wengert.torch import checking, running

ROOT = Path(__file__).parents[2]


def ran(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`wengert torch` with these arguments, in a folder."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "src"), OMP_NUM_THREADS="1")
    command = [sys.executable, "-m", "wengert.cli", "torch", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)


def script(folder: Path, text: str, name: str = "script.py") -> str:
    (folder / name).write_text(text)
    return name


IMPORTS = """
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim.lr_scheduler
import torchvision
from torch.utils.data import DataLoader
from torch import optim
from torchvision.transforms import ToTensor
import beside
assert torch is sys.modules["wengert.torch"] and nn is torch.nn and F is torch.nn.functional
assert sys.modules["torch.nn"] is nn and torchvision.__name__ == "wengert.torch.vision"
assert optim.lr_scheduler is torch.optim.lr_scheduler
try:
    import torch.nothing
except ModuleNotFoundError as error:
    print(error)
try:
    torch.nothing
except AttributeError as error:
    print(error)
print(__name__, __file__, sys.argv, beside.answer)
sys.exit(7)
"""


def test_what_a_script_finds_and_sees_of_itself(tmp_path: Path) -> None:
    script(tmp_path, "answer = 42", "beside.py")
    found = ran(tmp_path, script(tmp_path, IMPORTS), "--epochs", "3", "-m")
    assert found.returncode == 7, found.stderr
    missing, attribute, seen = found.stdout.splitlines()
    assert missing == attribute == "torch.nothing is not in wengert.torch"
    assert seen == "__main__ script.py ['script.py', '--epochs', '3', '-m'] 42"


def test_a_module(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    script(tmp_path / "package", "", "__init__.py")
    script(tmp_path / "package", "import sys, torch\nprint(__name__, __package__, sys.argv[1:])", "main.py")
    found = ran(tmp_path, "-m", "package.main", "a", "--b")
    assert found.returncode == 0, found.stderr
    assert found.stdout.split("\n")[0] == "__main__ package ['a', '--b']"


def test_an_error_is_shown_as_the_scripts_own(tmp_path: Path) -> None:
    text = "import torch\ndef f(x):\n    return x.view(5)\nf(torch.ones(2, 3))\n"
    found = ran(tmp_path, script(tmp_path, text))
    assert found.returncode == 1
    assert "line 4, in <module>" in found.stderr and "line 3, in f" in found.stderr
    assert "return x.view(5)" in found.stderr and "RuntimeError" in found.stderr
    assert "runpy" not in found.stderr and "wengert/torch" not in found.stderr
    assert "there is no such script" in ran(tmp_path, "nowhere.py").stderr


TRAINING = """
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
x, y = torch.randn(64, 5), torch.randint(0, 3, (64,))
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
for layer in (model[0], model[4]):  # a tall matrix and a wide one
    nn.init.orthogonal_(layer.weight, nn.init.calculate_gain("relu"))
optimizer = optim.AdamW(model.parameters(), lr=1e-2)
for epoch in range(5):
    for a, b in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(a), b)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(loss.item())
"""


def test_the_losses_are_those_of_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    name = script(tmp_path, TRAINING)
    theirs = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    ours = ran(tmp_path, "--torch-random", name)
    assert theirs.returncode == ours.returncode == 0, theirs.stderr + ours.stderr
    wanted = [float(line) for line in theirs.stdout.split()]
    found = [float(line) for line in ours.stdout.split()]
    assert len(found) == 20 and found[0] == pytest.approx(wanted[0], rel=1e-6)
    assert found == pytest.approx(wanted, rel=1e-4)


CHECKED = """import torch
import torch.nn as nn
from torch.nn import functional as F
from torch.nowhere import thing
import numpy as np
try:
    from torch.old import name
except ImportError:
    name = None

def f(x):
    y = torch.relu(x) + F.softmax(x, -1) + torch.newaxis
    y = torch.no_such_function(x)
    return nn.NoSuchLayer(3), torch.no_such_function(y), np.no_such_thing, torch.float32.no_such_part
"""


def test_check_lists_what_is_missing_and_where(tmp_path: Path) -> None:
    path = str(tmp_path / script(tmp_path, CHECKED))
    assert checking.missing([path]) == [
        ("torch.nowhere.thing", path, 4),
        ("torch.no_such_function", path, 13),
        ("torch.nn.NoSuchLayer", path, 14),
    ]
    found = ran(tmp_path, "--check", "script.py")
    assert found.returncode == 1 and found.stdout.splitlines()[1].split() == ["torch.no_such_function", "script.py:13"]
    clean = str(tmp_path / script(tmp_path, TRAINING, "clean.py"))
    assert checking.text([clean]) == "all of the PyTorch names that are used exist in wengert.torch"


def test_nothing_is_installed_by_importing() -> None:
    assert not any(isinstance(finder, running._Finder) for finder in sys.meta_path)


def test_iterating_over_a_slice_of_what_is_there() -> None:
    x = torch.arange(10)
    assert [element.item() for element in x[2:5]] == [2, 3, 4]


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, self.weight.shape, self.weight)


def test_a_compiled_module_may_ask_for_the_shape_of_a_parameter() -> None:
    compiled = torch.compile(Normed(), fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            assert compiled(torch.arange(16.0).view(2, 8)).shape == (2, 8)


def test_the_classes_of_early_days() -> None:
    import numpy as np

    x = torch.FloatTensor(np.array([[1, 2]], np.int32))
    assert x.dtype is torch.float32 and x.tolist() == [[1.0, 2.0]] and torch.FloatTensor(2, 3).shape == (2, 3)
    assert x.type(torch.LongTensor).dtype is torch.int64 and x.type(torch.FloatTensor) is x
    assert torch.cuda.FloatTensor is not torch.FloatTensor and isinstance(x, torch.FloatTensor)
