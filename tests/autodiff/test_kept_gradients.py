"""What `backward` leaves in `grad`: kept gradients stay, hooks on leaves are called, zeros where PyTorch has zeros."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import wengert as wg
from wengert.autodiff import reverse


def leaf(*values: float) -> wg.Tensor:
    return wg.tensor(values, requires_grad=True)


def twice(t: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
    """A first derivative that is kept by name while second ones are added to the same leaf."""
    t.grad = None
    (t**3).sum().backward(create_graph=True)
    kept = t.grad
    assert kept is not None
    kept.sum().backward(create_graph=True)
    assert t.grad is not None
    return kept * 1, t.grad * 1


@pytest.mark.parametrize("run", [twice, wg.compile(twice)])
def test_a_kept_gradient_stays_as_it_is_when_more_is_added_with_a_graph(run: Any) -> None:
    for _ in range(3):
        kept, total = run(leaf(1.0, 2.0))
        assert kept.tolist() == [3.0, 12.0] and total.tolist() == [9.0, 24.0]


def test_without_a_graph_gradients_are_added_in_place_as_in_torch() -> None:
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    kept = x.grad
    (x * x).sum().backward()
    assert x.grad is kept and kept is not None and kept.tolist() == [4.0, 8.0]


def test_a_hook_on_a_leaf_comes_when_its_gradient_is_there() -> None:
    x, y = leaf(1.0, 2.0), leaf(3.0)
    seen: list[Any] = []
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append((p is x, p.grad.tolist())))
    for _ in range(2):
        (x * y).sum().backward()
    assert seen == [(True, [3.0, 3.0]), (True, [6.0, 6.0])]
    handle.remove()
    handle()
    (x * y).sum().backward()
    assert len(seen) == 2
    with pytest.raises(wg.errors.GradientError, match="not a leaf"):
        (x * 2).register_post_accumulate_grad_hook(lambda p: None)


def test_hooks_go_with_their_leaf() -> None:
    before = len(reverse.accumulated)
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda p: None)
    assert len(reverse.accumulated) == before + 1
    del x
    gc.collect()
    assert len(reverse.accumulated) == before


def test_an_optimizer_in_the_backward_pass_also_compiled() -> None:
    def trained(compiled: bool) -> list[Any]:
        x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
        for p in (x, y):
            optimizer = wg.optim.SGD([p], lr=0.125)

            def step(p: wg.Tensor, optimizer: Any = optimizer) -> None:
                optimizer.step()
                p.grad = None

            p.register_post_accumulate_grad_hook(step)

        def train() -> wg.Tensor:
            loss = (x * x * y).sum()
            loss.backward()
            return loss

        run = wg.compile(train) if compiled else train
        losses = [run().item() for _ in range(3)]
        assert x.grad is None and y.grad is None
        return [losses, x.tolist(), y.tolist()]

    assert trained(True) == trained(False)


def test_hooks_on_values_can_be_removed_as_in_torch() -> None:
    x, seen = leaf(1.0, 2.0), []
    y = x * 2
    handle = y.register_hook(lambda g: seen.append(g.tolist()))
    y.sum().backward(retain_graph=True)
    handle.remove()
    y.sum().backward()
    assert seen == [[1.0, 1.0]]


@pytest.mark.parametrize("activation", ["ReLU", "LeakyReLU", "Hardtanh", "Tanh", "SiLU"])
@pytest.mark.parametrize("library", ["wengert", "compiled", "torch"])
def test_a_gradient_penalty_gives_zeros_where_only_the_side_of_a_kink_matters(activation: str, library: str) -> None:
    """In WGAN-GP: the second derivative in the bias before a relu is zero, and in the last bias there is none."""
    lib = pytest.importorskip("torch", reason="the same is asked of torch") if library == "torch" else wg
    model = lib.nn.Sequential(lib.nn.Linear(3, 4), getattr(lib.nn, activation)(), lib.nn.Linear(4, 1))
    x = lib.tensor([[1.0, -2.0, 0.5], [0.25, 1.0, -1.0]])

    def penalty(x: Any) -> Any:
        x = x * 1
        x = x.detach()
        x.requires_grad_()
        model(x).sum().backward(create_graph=True)
        g = x.grad
        for p in model.parameters():
            p.grad = None
        loss = (g * g).sum()
        loss.backward()
        return loss

    (wg.compile(penalty) if library == "compiled" else penalty)(x)
    first, bias, second, last = [p.grad for p in model.parameters()]
    assert first is not None and second is not None and last is None and bias is not None
    if activation in ("ReLU", "LeakyReLU", "Hardtanh"):
        assert bias.tolist() == [0.0] * 4


def test_a_leaf_behind_a_detached_mask_gets_nothing() -> None:
    x, detached, attached = leaf(2.0), leaf(1.0), leaf(1.0)
    h = x * x * (detached.detach() > 0) * wg.relu(x * attached)
    h.sum().backward(create_graph=True)
    g, x.grad, attached.grad = x.grad, None, None
    assert g is not None
    g.sum().backward()
    assert detached.grad is None and attached.grad is not None and x.grad is not None
