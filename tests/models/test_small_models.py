"""MLP and ConvNet: their shapes, names and sizes, and that they learn."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import wengert as wg
from wengert.data import load_digits
from wengert.models import MLP, ConvNet


def test_mlp_is_linear_layers_with_the_activation_between():
    model = MLP(3, [5, 4, 2], activation=wg.tanh, dtype=wg.float64)
    x = np.random.default_rng(0).normal(size=(7, 3))
    state = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    assert list(state) == [f"layers.{i}.{part}" for i in range(3) for part in ("weight", "bias")]
    expected = x
    for i in range(3):
        expected = expected @ state[f"layers.{i}.weight"].T + state[f"layers.{i}.bias"]
        expected = np.tanh(expected) if i < 2 else expected
    np.testing.assert_allclose(model(wg.tensor(x)).detach().numpy(), expected, rtol=1e-12)


def test_convnet_has_the_sizes_of_its_layers():
    model = ConvNet()
    shapes = {name: value.shape for name, value in model.state_dict().items() if name.endswith("weight")}
    assert shapes == {
        "blocks.0.conv.weight": (32, 1, 3, 3),
        "blocks.1.conv.weight": (64, 32, 3, 3),
        "blocks.2.conv.weight": (128, 64, 3, 3),
        "hidden.weight": (128, 128 * 3 * 3),
        "output.weight": (10, 128),
    }


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
def test_convnet_gives_torch_s_gradients_and_steps(optimizer, record_property):
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    from tests.models.compare import optimizers, train_beside

    torch.manual_seed(0)
    F = torch.nn.functional

    class Block(torch.nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.conv = torch.nn.Conv2d(inputs, outputs, 3, padding=1)

        def forward(self, x):
            return F.max_pool2d(F.relu(self.conv(x)), 2)

    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.Sequential(Block(1, 32), Block(32, 64), Block(64, 128))
            self.hidden = torch.nn.Linear(1152, 128)
            self.output = torch.nn.Linear(128, 10)

        def forward(self, x):
            return self.output(F.relu(self.hidden(self.blocks(x).flatten(1))))

    reference, model = Reference().double(), ConvNet(dtype=wg.float64)
    images, labels = torch.randn(4, 1, 28, 28).double(), torch.tensor([0, 4, 9, 4])
    x, y = wg.tensor(images.detach().numpy()), wg.tensor(labels.detach().numpy())
    compared = train_beside(
        model,
        reference,
        optimizers(optimizer, model, reference, lr=0.01),
        (lambda: wg.cross_entropy(model(x), y), lambda: F.cross_entropy(reference(images), labels)),
    )
    record_property("compared", compared.counts)


def test_convnet_learns_digits():
    wg.manual_seed(0)
    images, labels, *_ = load_digits()
    model = ConvNet(channels=(8, 16), image_size=8, hidden=32)
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-2)
    x, y = wg.tensor(images[:256].reshape(-1, 1, 8, 8)), wg.tensor(labels[:256])
    for _ in range(60):
        optimizer.zero_grad()
        wg.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert (model(x).argmax(axis=1) == y).to(wg.float32).mean().item() > 0.9


def test_sizes_that_leave_nothing_raise():
    with pytest.raises(wg.errors.ArgumentError, match="nouts is empty"):
        MLP(3, [])
    with pytest.raises(wg.errors.ArgumentError, match="leave at least one of 4 pixels"):
        ConvNet(image_size=4)


def test_models_are_imported_when_they_are_first_asked_for():
    script = (
        "import sys, wengert as wg; before = 'wengert.models' in sys.modules; wg.models.MLP; "
        "print(before, 'wengert.models' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "True"]
