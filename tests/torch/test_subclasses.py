"""Classes derived from Tensor: `__torch_function__` is asked, and what is computed from one is one."""

import pytest

import wengert.torch as torch
from wengert.torch import nn
from wengert.torch.nn import functional as F


class Plain(torch.Tensor):
    pass


class Logged(torch.Tensor):
    calls: list = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append((func.__name__, types))
        return super().__torch_function__(func, types, args, kwargs or {})


class Tagged(torch.Tensor):
    @staticmethod
    def __new__(cls, x, tag):
        return torch.Tensor._make_subclass(cls, x)

    def __init__(self, x, tag):
        self.tag = tag

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return cls(result, "computed") if func is torch.Tensor.mul else result


def test_results_are_of_the_class():
    x = torch.ones(2).as_subclass(Plain)
    results = (x + 1, 2 * x, torch.ones(2) * x, torch.sin(x), x.sum(), x[0], F.relu(x), x.clone(), *x.chunk(2))
    assert [type(y).__name__ for y in results] == ["Plain"] * len(results)
    assert all(isinstance(y, Plain) for y in results)
    assert [type(y).__name__ for y in (torch.ones(2) + 1, torch.sin(torch.ones(2)))] == ["Tensor"] * 2
    assert repr(x) == "Plain([1., 1.])" and isinstance(Plain([1.0, 2.0]) + 1, Plain)


def test_torch_function_sees_functions_methods_and_operators_once():
    Logged.calls.clear()
    x = torch.ones(2).as_subclass(Logged)
    y = torch.stack([x, x * 2])
    assert isinstance(y, Logged) and [name for name, _ in Logged.calls] == ["mul", "stack"]
    assert Logged.calls[0][1] == (Logged,)
    x[0]
    assert Logged.calls[-1][0] == "__getitem__"


def test_attributes_of_the_class_are_kept():
    x = Tagged(torch.ones(2), "given")
    assert x.tag == "given" and x.mul(2).tag == "computed" and type(x + 1) is torch.Tensor


def test_a_subclass_shares_memory_and_history():
    x = torch.arange(3.0)
    x.as_subclass(Plain)[0] = 9
    assert x.tolist() == [9.0, 1.0, 2.0]
    w = torch.ones(2, requires_grad=True)
    (w.as_subclass(Plain) * 3).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]
    with pytest.raises(ValueError, match="must be a type that inherits from Tensor"):
        x.as_subclass(int)


def test_a_class_that_is_no_tensor_answers():
    class Diagonal:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "mean" if func is torch.mean else NotImplemented

    assert torch.mean(Diagonal()) == "mean"
    with pytest.raises(TypeError, match=r"'torch.sin'; all __torch_function__ handlers returned NotImplemented"):
        torch.sin(Diagonal())


def test_a_class_may_leave_torch_function_off():
    class Silent(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    assert type(torch.ones(2).as_subclass(Silent) + 1) is torch.Tensor
    assert type(nn.Parameter(torch.ones(2)) * 2) is torch.Tensor


def test_overrides_knows_who_answers():
    x = torch.ones(1)
    assert not torch.overrides.has_torch_function((x,))
    assert torch.overrides.has_torch_function((x, x.as_subclass(Plain)))


def test_grad_fn_has_the_name_of_a_function():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    y = Square.apply(torch.ones(2, requires_grad=True))
    assert (y.grad_fn.name(), type(y.grad_fn).__name__) == ("SquareBackward", "SquareBackward")
    assert repr(y) == "tensor([1., 1.], grad_fn=<SquareBackward>)"
    assert type(y.exp().grad_fn.next_functions[0][0]).__name__ == "SquareBackward"


def test_lists_and_dicts_of_parameters_are_shown_as_in_pytorch():
    both = nn.ParameterList([torch.zeros(2, 3), torch.zeros(4)])
    line = "    ({}): Parameter containing: [torch.{} of size {}]"
    lines = [line.format(0, "float32", "2x3"), line.format(1, "float32", "4")]
    assert repr(both) == "\n".join(["ParameterList(", *lines, ")"])
    named = nn.ParameterDict({"a": torch.zeros(2, 3), "b": torch.zeros(4)})
    lines = [line.format("a", "FloatTensor", "2x3"), line.format("b", "FloatTensor", "4")]
    assert repr(named) == "\n".join(["ParameterDict(", *lines, ")"])


def test_an_optimizers_state_has_its_steps():
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([p])
    p.grad = torch.ones(2)
    optimizer.step()
    state = optimizer.state[p]
    assert "step" in state and "nothing" not in state and state.get("step").item() == 1 and state.get("nothing") is None


def test_resizing_what_was_reshaped_in_place():
    x = torch.arange(6.0).view(2, 3).clone().t_()
    assert x.resize_(2, 2).tolist() == [[0.0, 1.0], [2.0, 3.0]]
    whole = torch.arange(6.0)
    part = whole[2:].resize_(2)
    part += 1
    assert whole.tolist() == [0.0, 1.0, 3.0, 4.0, 4.0, 5.0]
    with pytest.raises(RuntimeError, match="shares memory"):
        whole[2:].resize_(9)
