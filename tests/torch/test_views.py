"""Views that alias: random programs against PyTorch, identity, errors, memory shared with NumPy, what writes cost."""

import copy
import pickle

import numpy as np
import pytest

import wengert as wg
import wengert.torch as torch

theirs = pytest.importorskip("torch")
from tests.torch import views  # noqa: E402  (which needs PyTorch)


@pytest.mark.parametrize("seed", range(0, 60, 2))
def test_random_programs_as_in_pytorch(seed):
    views.check(seed)


@pytest.mark.parametrize("seed", [1, 3, 5, 7, 9, 497])
def test_random_programs_compiled(seed, monkeypatch):
    monkeypatch.setattr(wg.config, "tier", "interpret")
    views.check(seed, compiles=True)


@pytest.mark.slow
def test_many_random_programs():
    for seed in range(10_000, 10_500):
        views.check(seed)


def both(program):
    """What a program gives with either library, as nested lists."""
    return [[x.tolist() if hasattr(x, "tolist") else x for x in program(t)] for t in (torch, theirs)]


def agree(program):
    ours, expected = both(program)
    assert ours == expected


def refused(program):
    """The types of errors that either library raises."""
    found = []
    for t in (torch, theirs):
        with pytest.raises(Exception) as raised:
            program(t)
        found.append(raised.value)
    assert isinstance(found[0], type(found[1])), found
    return str(found[0])


def test_writes_through_what_pytorch_programs_use():
    def program(t):
        x = t.arange(12.0).view(3, 4).clone()
        y = x[0]
        y += 1
        x.view(-1)[3] = 0
        x.T[0] = 5
        for row in x:
            row[-1].zero_()
        a, b = x.chunk(2, 1)
        a.mul_(2)
        x[1:, ::2] = t.tensor([[7.0, 8.0]])
        x[x > 9] = -1
        x[0, t.tensor([1, 2])] += 3
        x[..., None][2, 3, 0] = 4
        b.data.fill_(2.5)
        return x, y, a, b

    agree(program)


def test_parameters_are_written_through_data_detach_and_state_dict():
    layer = torch.nn.Linear(2, 2, bias=False)
    layer.weight.data.fill_(2.0)
    layer.weight.detach()[0] = 3.0
    layer.state_dict()["weight"][1, 1] = 4.0
    assert layer.weight.tolist() == [[3.0, 3.0], [2.0, 4.0]]
    assert layer.weight.is_leaf and layer.weight.requires_grad
    layer.weight.data = torch.zeros(2, 2)
    assert layer.weight.tolist() == [[0.0, 0.0], [0.0, 0.0]] and type(layer.weight).__name__ == "Parameter"


def test_data_that_is_given_is_shared():
    def program(t):
        w, v = t.zeros(2, requires_grad=True), t.ones(2)
        w.data = v
        v.add_(1)
        (w * 3).sum().backward()
        u = t.zeros(4)
        w.data = u[1:3]
        w.data.add_(5)
        return w, v, u, w.grad

    agree(program)


def test_methods_in_place_and_results_given_by_out_reach_the_whole():
    def program(t):
        x = t.zeros(4, 4, dtype=t.float64)
        x.diagonal().fill_(3)
        x[1].clamp_(min=1)
        x[:, 2].copy_(t.arange(4.0))
        x.masked_fill_(x > 2.5, 9)
        x.t()[3].sub_(1, alpha=2)
        x.unsqueeze(0)[0, 1].pow_(2)
        t.nn.functional.relu(x[3], inplace=True)
        y = t.zeros(3, 4)
        t.add(t.ones(4), t.ones(4), out=y[1])
        t.cat([t.ones(2), t.ones(2)], out=y[2])
        return x, y

    agree(program)


def test_keys_as_in_pytorch_not_as_in_numpy():
    def program(t):
        x = t.arange(24.0).view(2, 3, 4)
        y = x.clone()
        y[0, :, [1, 2]] = -1
        y[:, t.tensor([0, 2]), 1:3] = 7.0
        y[1, ..., t.tensor([True, False, False, True])] = t.tensor([5.0, 6.0])
        y[None, 0, t.tensor(1), None] = t.arange(4.0)
        picked = [x[0, :, [1, 2]], x[..., t.tensor([[0, 1], [2, 3]])], x[t.tensor([0, 1]), :, t.tensor([1, 2])]]
        return y, *picked, x[x > 4], x[:, None, True], x[1, t.tensor(2)], x[[0, 1], [1, 2]], x[:, [True, False, True]]

    agree(program)


@pytest.mark.parametrize("transform", ["grad", "hessian", "jacfwd"])
def test_views_inside_of_transforms(transform):
    def function(t):
        def f(x):
            y = x.clone()
            y[0] = y[1] * 2
            y.view(2, 2).t()[1].mul_(3)
            y[2:] += x[-1]
            return (y * y).sum()

        return f

    x = np.arange(4.0) + 1
    ours = getattr(torch.func, transform)(function(torch))(torch.tensor(x))
    expected = getattr(theirs.func, transform)(function(theirs))(theirs.tensor(x))
    np.testing.assert_allclose(ours.numpy(), expected.numpy())
    many = torch.func.vmap(getattr(torch.func, transform)(function(torch)))(torch.tensor(np.stack([x, x])))
    np.testing.assert_allclose(many[1].numpy(), expected.numpy())


def test_gradients_go_through_views_and_writes():
    def program(t):
        w = t.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        h = (w * 2).view(-1)
        h.retain_grad()
        seen = []
        h.register_hook(lambda g: seen.append(g.tolist()))
        z = w * 3
        z[0] = h[2:]
        z.t()[1].mul_(5)
        with t.no_grad():
            z[1, 0] = 100.0
        (z.pow(2).sum() + h.sum()).backward()
        return w.grad, h.grad, seen, z

    agree(program)


def test_a_view_of_a_detached_tensor_has_its_own_history():
    def program(t):
        w = t.ones(3, requires_grad=True)
        hidden = (w * 2).detach()
        hidden += w
        leaf = w.detach().requires_grad_()
        (hidden.sum() + (leaf * 4).sum()).backward()
        return w.grad, leaf.grad, hidden

    agree(program)


@pytest.mark.parametrize(
    "copy",
    [
        lambda t, v: v.clone(),
        lambda t, v: v.squeeze(1).contiguous(),
        lambda t, v: v.to(t.float32, copy=True),
        lambda t, v: t.add(v, 0),
        lambda t, v: t.zeros(2, 1, 3).copy_(v),
        lambda t, v: t.fill(v, 2.0),
        lambda t, v: t.zeros(4, 1, 3)[1:3].copy_(v),
        lambda t, v: t.zeros(2, 3).view(2, 1, 3).copy_(v),
    ],
)
def test_copies_of_a_tracked_view_in_no_grad_have_no_history(copy):
    def program(t):
        w = t.ones(3, 2, requires_grad=True)
        v = w.t().unsqueeze(1)
        with t.no_grad():
            x = copy(t, v)
        return x, x.requires_grad, copy(t, v).requires_grad

    agree(program)


def test_the_same_tensor_where_nothing_changes():
    x = torch.ones(2, 3)
    same = [x.float(), x.to("cpu"), x.to(torch.float32), x.contiguous(), x.type(torch.float32), x.cpu(), x.to(x)]
    assert all(y is x for y in same)
    assert x.double() is not x and x.t().contiguous() is not x and x.data_ptr() == x.view(-1).data_ptr()
    assert x[1].data_ptr() == x.data_ptr() + 12 and x.clone().data_ptr() != x.data_ptr()
    assert x[1:][0]._base is x and x._base is None and x.detach()._base is None and not x.detach()._is_view()
    before = x._version
    x[0].zero_()
    assert x._version == x.t()._version == before + 1


def test_what_pytorch_refuses():
    def leaf(t):
        t.ones(2, requires_grad=True).add_(1)

    def view_of_leaf(t):
        t.ones(2, requires_grad=True)[0].zero_()

    def expanded(t):
        t.ones(2).expand(3, 2).add_(1)

    def not_contiguous(t):
        t.ones(2, 3).t().view(6)

    def one_of_several(t):
        (t.ones(2, requires_grad=True) * 2).unbind()[0].zero_()

    def backwards(t):
        t.ones(3)[::-1]

    def beyond(t):
        t.ones(3)[3]

    def too_many(t):
        t.ones(3)[0, 0]

    def shape(t):
        t.ones(3).view(2, 2)

    def made_in_no_grad(t):
        w = t.ones(3, requires_grad=True)
        with t.no_grad():
            v = (w * 2)[0]
            u = (w * 2).view(3)
        (v, u)[1].add_(w)

    def mask(t):
        t.ones(3)[t.tensor([True, False])] = 1

    def value(t):
        t.ones(2, 3)[0] = t.ones(2)

    def narrow(t):
        t.ones(3).narrow(0, 1, 5)

    for program in (leaf, view_of_leaf, expanded, not_contiguous, one_of_several, backwards, beyond, too_many, shape):
        refused(program)
    for program in (mask, value, narrow):
        refused(program)


def test_copies_and_files_keep_who_shares_memory():
    x = torch.arange(4.0)
    for twin in (copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))):
        whole, part = twin([x, x[1:3]])
        part.zero_()
        assert whole.tolist() == [0.0, 0.0, 0.0, 3.0] and x.tolist() == [0.0, 1.0, 2.0, 3.0]
    p = torch.nn.Parameter(torch.ones(2))
    twin = copy.deepcopy(p)
    assert isinstance(twin, torch.nn.Parameter) and twin.data_ptr() != p.data_ptr()


def test_complex_parts_and_bits():
    def program(t):
        z = t.zeros(3, dtype=t.complex64)
        z.real[0] = 2
        z.imag.add_(1)
        t.view_as_real(z)[2, 0] = 7
        x = t.ones(2)
        x.view(t.int32)[0] = 0
        return t.view_as_real(z), x

    agree(program)


# --- NumPy ----------------------------------------------------------------------------------------------------------


def test_an_array_and_its_tensor_share_memory_both_ways():
    x = torch.ones(4)
    a = x.numpy()
    x.add_(1)
    assert a.tolist() == [2, 2, 2, 2]
    y = x * 10
    np.add(a, 1, out=a)
    assert x.tolist() == [3, 3, 3, 3] and y.tolist() == [20, 20, 20, 20]
    x.view(2, 2).numpy()[1, 0] = 9
    assert a[2] == 9
    del a
    assert (x + 0).tolist() == [3, 3, 9, 3] and type(x) is torch.Tensor


def test_a_tensor_of_an_array_shares_its_memory():
    a = np.zeros(3)
    x = torch.from_numpy(a)
    x[1:] += 1
    a[0] = 5
    assert x.tolist() == [5, 1, 1] and a.tolist() == [5, 1, 1]
    assert torch.as_tensor(a).data_ptr() and torch.as_tensor(x) is x
    leaf = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        leaf.numpy()
    shown = leaf.detach().numpy()
    with torch.no_grad():
        leaf.add_(1)
    assert shown.tolist() == [2, 2] and leaf.is_leaf


def test_a_write_to_a_large_shared_array_raises_and_is_never_lost():
    a = np.zeros(100_000)
    x = torch.from_numpy(a)
    with pytest.raises(ValueError, match="read-only"):
        a[0] = 1
    x[0] = 2
    assert a[0] == 2
    del x
    a[0] = 3
    big = torch.zeros(100_000)
    shown = big.numpy()
    big.add_(1)
    assert shown[0] == 1 and not shown.flags.writeable


# --- compiled -------------------------------------------------------------------------------------------------------


def test_compiled_arguments_and_results_that_are_views():
    outside = torch.zeros(2, 2)

    @wg.compile
    def step(x, row, other):
        row += 1
        outside[0] = row[:2]
        doubled = x * 2
        return x.t(), doubled[0], doubled, row, other is row, outside[1]

    x = torch.zeros(2, 3)
    for i in range(1, 5):
        turned, first, doubled, row, is_same, part = step(x, x[1], x[1])
        assert x.tolist() == [[0, 0, 0], [i, i, i]] and row.tolist() == [i] * 3 and not is_same
        assert turned._base is x and first._base is doubled and part._base is outside
    first.zero_()
    part.fill_(7)
    assert doubled[0].tolist() == [0, 0, 0] and outside.tolist() == [[4, 4], [7, 7]]
    assert step.recordings <= 3
    step(x, x[0], x[0])
    assert "view" in step.why()[-1]


# --- what writes cost -----------------------------------------------------------------------------------------------


def place(x):
    return x.node.buffer.ctypes.data


def test_a_write_takes_the_memory_of_what_it_is_written_into():
    x = torch.zeros(100_000)
    x[0] = 1.0
    x[0].item()
    places = set()
    for i in range(40):
        x[i] = float(i)
        x[i : i + 3].add_(1)
        x[[5, 6]] = 2.0
        assert x[i].item() in (float(i + 1), 2.0)
        places.add(place(x))
    assert len(places) == 1
    twin = x.clone()
    x[3] = -1.0
    assert twin[3].item() != -1 and x[3].item() == -1


def test_parameters_stay_donated_while_a_state_dict_is_held(monkeypatch):
    monkeypatch.setattr(wg.config, "tier", "auto")  # the references donate nothing
    layer = torch.nn.Linear(200, 200, bias=False)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    x = torch.ones(4, 200)

    @wg.compile
    def step(x):
        loss = layer(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(20):
        step(x)
    before, held = place(layer.weight), layer.state_dict()
    for _ in range(5):
        step(x)
    assert place(layer.weight) == before
    assert held["weight"].tolist() == layer.weight.tolist()


def test_a_copy_of_a_tracked_view_without_gradients_has_none():
    def program(t):
        w, x = t.tensor([[1.0, 2.0]], requires_grad=True), t.zeros(1, 1, 2)
        part = w.contiguous().unsqueeze(1)
        with t.no_grad():
            x.copy_(part)
        return [x, t.tensor(x.requires_grad), t.tensor(x.is_leaf)]

    agree(program)
