"""`copy.deepcopy` and `pickle` of tensors, parameters, modules and optimizers, and checkpoints inside modules."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert.torch as ours
from tests.torch.compare import same, theirs


def pickled(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def saved(value: Any) -> Any:
    file = io.BytesIO()
    ours.save(value, file)
    file.seek(0)
    return ours.load(file, weights_only=False)


ways = pytest.mark.parametrize("way", [copy.deepcopy, pickled, saved], ids=["deepcopy", "pickle", "save"])
Way = Callable[[Any], Any]


class Net(ours.nn.Module):
    """Layers with shared weights, a buffer, a constant and a list."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = ours.nn.Embedding(5, 4)
        self.norm = ours.nn.BatchNorm1d(4)
        self.head = ours.nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        self.scale = ours.nn.Parameter(ours.tensor(2.0))
        self.register_buffer("mask", ours.ones(4))
        self.sizes = [4, 5]

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.embed(x)) * self.mask) * self.scale


@ways
def test_tensors(way: Way) -> None:
    for made in (
        ours.arange(6).reshape(2, 3),
        ours.tensor(1.5, dtype=ours.bfloat16),
        ours.zeros(0, 3),
        ours.tensor([True, False]),
        ours.tensor([1 + 2j]),
    ):
        other = way(made)
        assert isinstance(other, ours.Tensor) and other is not made
        assert other.dtype is made.dtype and other.shape == made.shape and other.tolist() == made.tolist()


@ways
def test_leaves_and_parameters_stay_such(way: Way) -> None:
    leaf = ours.tensor([1.0, 2.0], requires_grad=True)
    other = way(leaf)
    assert other.requires_grad and other.is_leaf
    other.mul(2).sum().backward()
    assert other.grad.tolist() == [2.0, 2.0] and leaf.grad is None
    parameter = way(ours.nn.Parameter(ours.ones(2), requires_grad=False))
    assert type(parameter) is ours.nn.Parameter and not parameter.requires_grad


def test_a_copy_has_memory_of_its_own() -> None:
    base = ours.zeros(4)
    part = base[:2]
    both = copy.deepcopy([base, part])
    both[1].fill_(1.0)
    assert both[0].tolist() == [1.0, 1.0, 0.0, 0.0] and base.tolist() == [0.0] * 4
    shallow = copy.copy(base)
    assert isinstance(shallow, ours.Tensor) and shallow.tolist() == [0.0] * 4
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(ours.ones(2, requires_grad=True) * 2)


@ways
def test_modules(way: Way) -> None:
    ours.manual_seed(0)
    net = Net()
    x = ours.tensor([0, 3, 1])
    net(x).sum().backward()
    net.eval()
    other = way(net)
    assert type(other) is Net and not other.training and other.sizes == [4, 5] and other.sizes is not net.sizes
    assert other.head.weight is other.embed.weight
    assert list(other.state_dict()) == list(net.state_dict())
    assert [type(p) for p in other.parameters()] == [ours.nn.Parameter] * 4
    np.testing.assert_array_equal(other(x).detach().numpy(), net(x).detach().numpy())
    with ours.no_grad():
        other.scale.fill_(0.0)
        other.mask.fill_(0.0)
    assert net.scale.item() == 2.0 and net.mask.tolist() == [1.0] * 4


def test_a_deep_copy_of_a_module_keeps_hooks_and_no_gradients() -> None:
    """As in PyTorch: a tensor's copy has its gradient, a parameter's has none."""
    layer = ours.nn.Linear(2, 1)
    called = []
    layer.register_forward_hook(lambda module, args, output: called.append(module))
    layer(ours.ones(1, 2)).sum().backward()
    twin = copy.deepcopy(layer)
    assert twin.weight.grad is None and layer.weight.grad is not None
    twin(ours.ones(1, 2))
    assert called == [layer, twin]


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop"])
def test_optimizers_go_on_from_a_copy(kind: str) -> None:
    """Net and optimizer together, as one object: the copy's next step is the model's."""
    net = ours.nn.Linear(3, 1)
    options = {"momentum": 0.9} if kind == "SGD" else {}
    optimizer = getattr(ours.optim, kind)(net.parameters(), lr=0.1, **options)

    def step(net: Any, optimizer: Any) -> list[float]:
        optimizer.zero_grad()
        (net(ours.tensor([[1.0, -2.0, 3.0]])) ** 2).sum().backward()
        optimizer.step()
        found: list[float] = net.weight.detach().reshape(-1).tolist()
        return found

    step(net, optimizer)
    for way in (copy.deepcopy, pickled):
        twin, its = way((net, optimizer))
        assert its.param_groups[0]["params"][0] is twin.weight
        assert its.param_groups[0]["lr"] == pytest.approx(0.1)
        again = way((net, optimizer))
        assert step(twin, its) == step(*again)
    before = copy.deepcopy((net, optimizer))
    assert step(*before) == step(net, optimizer)


def test_a_checkpoint_in_a_module_gives_the_same_gradients() -> None:
    def expression(torch: Any) -> list[Any]:
        from importlib import import_module

        checkpointing = import_module(f"{torch.__name__}.utils.checkpoint")

        class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self, size: int, use: bool) -> None:
                super().__init__()
                self.inner = torch.nn.Linear(size, size).to(torch.float64)
                self.use = use
                with torch.no_grad():
                    self.inner.weight.copy_(torch.arange(size * size).reshape(size, size) / 10)
                    self.inner.bias.fill_(0.1)

            def body(self, x: Any, scale: float = 1.0) -> Any:
                return torch.tanh(self.inner(x)) * scale

            def forward(self, x: Any) -> Any:
                if self.use:
                    return checkpointing.checkpoint(self.body, x, use_reentrant=False, scale=2.0)
                return self.body(x, scale=2.0)

        found = []
        for use in (True, False):
            block = Block(3, use)
            x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
            block(x).sum().backward()
            found += [x.grad, block.inner.weight.grad, block.inner.bias.grad]
        stack = torch.nn.Sequential(*[Block(3, False) for _ in range(4)])
        x = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
        checkpointing.checkpoint_sequential(stack, 2, x, use_reentrant=False).sum().backward()
        return [*found, x.grad, stack[0].inner.weight.grad]

    same(expression, 1e-9)


def test_dropout_in_a_checkpoint_is_drawn_once() -> None:
    from wengert.torch.utils.checkpoint import checkpoint

    ours.manual_seed(3)
    x = ours.ones(200, requires_grad=True)
    y = checkpoint(ours.nn.functional.dropout, x, use_reentrant=False)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist() and 0.0 in y.tolist()


def test_what_pytorch_pickled_by_hand_is_not_mixed_up() -> None:
    """A deep copy of PyTorch's own stays PyTorch's: the two packages share no table of how to copy."""
    assert type(copy.deepcopy(theirs.ones(2))) is theirs.Tensor
    assert type(pickled(theirs.ones(2))) is theirs.Tensor
