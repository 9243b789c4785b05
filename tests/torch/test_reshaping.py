"""Methods that give a tensor another shape in place; casts of complex values; joins of nothing; against PyTorch."""

import numpy as np
import pytest

import wengert.torch as torch

theirs = pytest.importorskip("torch")
from tests.torch.test_views import agree, refused  # noqa: E402  (which needs PyTorch)

METHODS = {
    "squeeze_": (0,),
    "unsqueeze_": (1,),
    "t_": (),
    "transpose_": (0, 1),
    "swapaxes_": (0, 1),
    "swapdims_": (-1, 0),
    "as_strided_": ((2, 2), (1, 2), 1),
}
SHAPES = {"squeeze_": (1, 6)}
every_method = pytest.mark.parametrize("name", METHODS)


def changed(x, name):
    y = getattr(x, name)(*METHODS[name])
    assert y is x
    return x


@every_method
def test_the_tensor_itself_has_another_shape(name):
    def program(t):
        x = t.arange(6.0).reshape(SHAPES.get(name, (2, 3))).clone()
        rows, whole, apart, version = x[0], x.view(-1), x.detach(), x._version
        part = rows[1:]
        changed(x, name).add_(1)
        later, steps = x[-1], x.stride()
        later.mul_(2)
        rows.sub_(0.5)
        part.mul_(3)
        return x, rows, whole, apart, part, later, steps, x._is_view(), later._is_view(), x._version - version

    agree(program)


@every_method
@pytest.mark.parametrize("take", [lambda b: b.view(b.shape), lambda b: b.detach(), lambda b: b.data])
def test_of_a_view(name, take):
    def program(t):
        b = t.arange(6.0).reshape(SHAPES.get(name, (2, 3))).clone()
        x = take(b)
        child = x[0]
        changed(x, name).mul_(2)
        child.add_(1)
        x.zero_()
        return x, b, child, x.stride(), x._is_view(), x.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()

    agree(program)


@every_method
def test_gradients(name):
    def program(t):
        w = t.arange(6.0).reshape(SHAPES.get(name, (2, 3))).requires_grad_()
        whole = w * 2
        changed(whole, name)
        whole.mul_(whole.detach().clone())
        part = (w * 3).view(w.shape)
        changed(part, name).mul_(part.detach().clone() + 1)
        apart = t.zeros(w.shape)
        changed(apart, name).copy_(part)
        (whole.sum() + 2 * part.sum() + 3 * apart.sum()).backward()
        return w.grad, whole.detach(), part.detach(), apart.detach()

    agree(program)


@every_method
def test_leaves_are_refused(name):
    def leaf(t):
        changed(t.ones(SHAPES.get(name, (2, 3)), requires_grad=True), name)

    def of_a_leaf(t):
        changed(t.ones(SHAPES.get(name, (2, 3)), requires_grad=True).view(SHAPES.get(name, (2, 3))), name)

    assert "leaf" in refused(leaf)
    assert "leaf" in refused(of_a_leaf)
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"x\.data = "):
        leaf(torch)


def test_memory_shared_with_numpy_stays_shared():
    def program(t):
        array = np.arange(6.0).reshape(2, 3)
        x = t.from_numpy(array)
        x.t_()[0] = 7.0
        array[1, 1] = -1.0
        return array, x

    agree(program)


def test_compiled_functions_say_what_to_write_instead():
    import wengert as wg

    with pytest.raises(RuntimeError, match=r"x = x\.t\(\.\.\.\)"):
        wg.compile(lambda x: (x * 2).t_())(torch.ones(2, 3))


@pytest.mark.parametrize("name", ["hsplit", "vsplit", "dsplit"])
@pytest.mark.parametrize("rank", [0, 3])
def test_parts_that_cannot_be(name, rank):
    def program(t):
        getattr(t, name)(t.zeros((2,) * rank), 0)

    refused(program)


@pytest.mark.parametrize("name", ["cat", "concat", "stack", "hstack", "vstack", "dstack", "column_stack"])
def test_joining_nothing(name):
    assert "non-empty" in refused(lambda t: getattr(t, name)([]))


@pytest.mark.filterwarnings("ignore:Casting complex")
def test_complex_values_lose_their_imaginary_part():
    def program(t):
        z = t.tensor([1.5 + 2j, -3j])
        x, y = t.zeros(2), t.zeros(2)
        x[0] = z[0]
        y.copy_(z)
        w = t.tensor([1 + 2j], requires_grad=True)
        (w.to(t.float32) * 3).sum().backward()
        return x, y, z.float(), z.double(), z.int(), z.half(), z.bool(), z.to(t.int64), z.sum(dtype=t.float32), w.grad

    agree(program)
    with pytest.warns(UserWarning, match="Casting complex values to real discards the imaginary part"):
        torch.tensor([1j]).float()
