"""`torch.autograd` through Wengert, compared with PyTorch where it is installed."""

import numpy as np
import pytest

import wengert.torch as torch

theirs = pytest.importorskip("torch")


def both(program):
    """The numbers of a program, run with either library."""
    return [np.asarray(x.detach().numpy() if hasattr(x, "detach") else x) for t in (torch, theirs) for x in program(t)]


def agree(program, **options):
    found = both(program)
    half = len(found) // 2
    for ours, expected in zip(found[:half], found[half:]):
        np.testing.assert_allclose(ours, expected, **({"rtol": 1e-6} | options))


def test_grad_of_one_and_several():
    def program(t):
        x, y = t.tensor([1.0, 2.0], requires_grad=True), t.tensor([3.0, 4.0], requires_grad=True)
        z = (x * x * y).sum()
        gx, gy = t.autograd.grad(z, (x, y), create_graph=True)
        (gxx,) = t.autograd.grad(gx.sum(), x)
        assert x.grad is None
        return gx, gy, gxx

    agree(program)


def test_unused_and_untracked():
    x, y = torch.tensor([1.0], requires_grad=True), torch.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad((x * 2).sum(), (x, y))
    assert torch.autograd.grad((x * 2).sum(), (x, y), allow_unused=True)[1] is None
    assert torch.autograd.grad((x * 2).sum(), (x, y), materialize_grads=True)[1].item() == 0
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(torch.tensor([1.0]).sum(), x)


def test_a_graph_is_gone_after_grad():
    x = torch.tensor([1.0], requires_grad=True)
    z = (x * x).sum()
    torch.autograd.grad(z, x)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(z, x)


def test_backward_into_some_inputs():
    def program(t):
        x, y = t.tensor([1.0, 2.0], requires_grad=True), t.tensor([3.0, 4.0], requires_grad=True)
        h = x * y
        (h * h).sum().backward(inputs=[x])
        assert y.grad is None
        return (x.grad,)

    agree(program)


class _Clip:
    def forward(ctx, x, low):
        ctx.save_for_backward(x)
        ctx.low = low
        return x.clamp(min=low)

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x > ctx.low) * x, None


def test_a_function_with_rules_and_its_second_derivative():
    def program(t):
        kind = type("Clip", (t.autograd.Function,), {k: staticmethod(v) for k, v in vars(_Clip).items() if "ward" in k})
        x = t.tensor([0.5, 2.0], requires_grad=True)
        (g,) = t.autograd.grad(kind.apply(x, 1.0).sum(), x, create_graph=True)
        (gg,) = t.autograd.grad(g.sum(), x)
        return g, gg

    agree(program)


def test_grad_modes():
    x = torch.tensor([1.0], requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad and not torch.is_grad_enabled()
        with torch.enable_grad():
            assert (x * 2).requires_grad
    with torch.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad

    @torch.no_grad
    def plain():
        return x * 2

    @torch.inference_mode()
    def other():
        return x * 2

    assert not plain().requires_grad and not other().requires_grad
    torch.set_grad_enabled(False)
    assert not (x * 2).requires_grad
    torch.set_grad_enabled(True)
    assert (x * 2).requires_grad


def test_functional():
    def program(t):
        x = t.tensor([1.0, 2.0, 3.0], dtype=t.float64)
        v = t.tensor([0.5, -1.0, 2.0], dtype=t.float64)
        f, loss = (lambda x: x * x * x.sum()), (lambda x: (x * x * x).sum())
        a = t.autograd.functional
        return (
            a.jacobian(f, x),
            a.hessian(loss, x),
            *a.vjp(f, x, v),
            *a.jvp(f, x, v),
            *a.hvp(loss, x, v),
            *a.vhp(loss, x, v),
        )

    agree(program)


def test_gradcheck_passes_and_fails():
    x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: x.sin() * x, x)
    assert torch.autograd.gradgradcheck(lambda x: x.sin() * x, x)

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 3

    assert not torch.autograd.gradcheck(Wrong.apply, x, raise_exception=False)
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        torch.autograd.gradcheck(Wrong.apply, x)


def test_hooks_and_grad_fn():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    seen = []
    handle = y.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
    y.sum().backward()
    assert seen == [[1.0, 1.0]] and x.grad.tolist() == [20.0, 20.0]
    handle.remove()
    assert x.grad_fn is None and "Mul" in repr(y.grad_fn)


def test_a_gradient_is_there_after_its_graph_is_gone():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (found,) = torch.autograd.grad((x * 2).exp().sum(), x)
    np.testing.assert_allclose(found.numpy(), 2 * np.exp([2.0, 4.0]), rtol=1e-6)
