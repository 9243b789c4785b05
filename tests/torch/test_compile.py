"""`torch.compile` by PyTorch's options: functions, methods, modules, and what cannot be recorded as a whole."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

import wengert.torch as torch
from wengert.core.errors import WengertError

nn = torch.nn


class Net(nn.Module):
    """Two layers, and a count of the calls of Python's."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 2)
        self.calls = 0

    def forward(self, x: Any, scale: float = 1.0) -> Any:
        return self.second(torch.relu(self.first(x))) * scale


def test_a_function_without_gradients_is_compiled() -> None:
    compiled = torch.compile(lambda x: torch.sin(x) * 2)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for i in range(6):
            x = torch.full((3,), float(i))
            assert torch.allclose(compiled(x), torch.sin(x) * 2)


def test_decorators_with_and_without_options() -> None:
    @torch.compile
    def plain(x: Any) -> Any:
        """Twice."""
        return x * 2

    @torch.compile(fullgraph=True, dynamic=False, mode="reduce-overhead", options={"a": 1})
    def chosen(x: Any, *, by: float = 3.0) -> Any:
        return x * by

    assert plain(torch.ones(2)).tolist() == [2.0, 2.0]
    assert plain.__name__ == "plain" and plain.__doc__ == "Twice."
    assert chosen(torch.ones(2)).tolist() == [3.0, 3.0] and chosen(torch.ones(2), by=4.0).tolist() == [4.0, 4.0]
    assert torch.compile(plain, disable=True) is plain


@pytest.mark.parametrize("backend", ["inductor", "eager", "aot_eager"])
def test_backends_of_pytorch_are_accepted(backend: str) -> None:
    assert torch.compile(lambda x: x + 1, backend=backend)(torch.ones(1)).item() == 2.0


def test_methods() -> None:
    class Model:
        def __init__(self, by: float) -> None:
            self.by = torch.tensor(by)

        @torch.compile
        def scaled(self, x: Any) -> Any:
            return x * self.by

    one, other = Model(2.0), Model(5.0)
    for _ in range(3):
        assert one.scaled(torch.ones(1)).item() == 2.0
        assert other.scaled(torch.ones(1)).item() == 5.0


def test_a_module_trains_as_it_does_without() -> None:
    nets = [Net(), Net()]
    models = [nets[0], torch.compile(nets[1])]
    x, y = torch.randn(8, 3), torch.randn(8, 2)
    losses = []
    for model in models:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses.append([])
        for _ in range(5):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_a_compiled_module_is_a_module_around_the_other() -> None:
    net = Net()
    model = torch.compile(net)
    assert isinstance(model, nn.Module) and model._orig_mod is net
    assert list(model.state_dict()) == [f"_orig_mod.{name}" for name in net.state_dict()]
    assert [name for name, _ in model.named_parameters()] == [f"_orig_mod.{name}" for name, _ in net.named_parameters()]
    assert next(model.parameters()) is net.first.weight and model.first is net.first
    state = {name.removeprefix("_orig_mod."): value for name, value in model.state_dict().items()}
    other = Net()
    other.load_state_dict(state)
    model.load_state_dict(model.state_dict())
    model.eval()
    assert not net.training and not net.first.training and not model.training
    model.train()
    assert net.training and model.training
    assert model.to(torch.float64).first.weight.dtype is torch.float64
    model.calls = 3
    assert "first" in repr(model)


def test_evaluation_follows_the_mode_and_the_weights() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    model = torch.compile(net)
    x = torch.ones(1, 2)
    with torch.no_grad():
        model.eval()
        for _ in range(3):
            assert torch.allclose(model(x), net[0](x))
        net[0].weight.fill_(1.0)
        net[0].bias.fill_(0.0)
        assert model(x).tolist() == [[2.0, 2.0]]
        model.train()
        drawn = {tuple(model(x).reshape(-1).tolist()) for _ in range(40)}
    assert len(drawn) > 1 and drawn <= {(a, b) for a in (0.0, 4.0) for b in (0.0, 4.0)}


def test_module_compile_in_place() -> None:
    net = Net()
    net.compile()
    assert net(torch.ones(1, 3)).shape == (1, 2)
    assert "first.weight" in net.state_dict()


def looking(x: Any) -> Any:
    """A function whose way depends on a value."""
    return x + 1 if x.sum().item() > 0 else x - 1


def test_what_cannot_be_recorded_runs_as_it_is_and_says_so_once() -> None:
    compiled = torch.compile(looking)
    with torch.no_grad():
        with pytest.warns(UserWarning, match=r"torch.compile: looking runs uncompiled"):
            assert compiled(torch.ones(1)).item() == 2.0
            compiled(torch.ones(1))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert compiled(-torch.ones(1)).item() == -2.0
            assert compiled(torch.ones(1)).item() == 2.0


def test_fullgraph_raises_instead() -> None:
    with pytest.raises(WengertError), torch.no_grad():
        torch.compile(looking, fullgraph=True)(torch.ones(1))


def test_an_error_of_the_functions_own_is_raised() -> None:
    @torch.compile
    def wrong(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        wrong(torch.ones(1))
    with pytest.raises(RuntimeError):
        torch.compile(lambda a, b: a @ b)(torch.ones(2, 3), torch.ones(2, 3))


def test_a_whole_step_with_its_backward_pass() -> None:
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)

    @torch.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    x, y = torch.randn(8, 3), torch.randn(8, 2)
    losses = [step(x, y).item() for _ in range(6)]
    assert losses == sorted(losses, reverse=True)


def test_copies_of_compiled_modules() -> None:
    model = torch.compile(Net())
    twin = copy.deepcopy(model)
    x = torch.ones(1, 3)
    with torch.no_grad():
        assert torch.equal(twin(x), model(x))
        twin.first.weight.fill_(0.0)
        assert not torch.equal(twin(x), model(x))


def test_switches_of_the_compiler() -> None:
    assert torch.compiler.is_compiling() is False

    @torch.compiler.disable
    def plain(x: Any) -> Any:
        return x + 1

    @torch.compiler.disable(recursive=False)
    def other(x: Any) -> Any:
        return x + 2

    assert plain(torch.ones(1)).item() == 2.0 and other(torch.ones(1)).item() == 3.0
    torch._dynamo.config.suppress_errors = True
    torch._dynamo.reset()
    torch.compiler.reset()
    torch.compiler.cudagraph_mark_step_begin()


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "logsumexp", "var", "nansum", "norm", "count_nonzero"])
def test_axes_in_any_order(name: str) -> None:
    """An op keeps its axes in order, in whatever order a program names them."""
    x = torch.arange(24.0).view(2, 3, 4)
    plain = getattr(x, name)(dim=(-1, -2))
    assert torch.equal(torch.compile(lambda t: getattr(t, name)(dim=(-1, -2)))(x), plain)
