"""Tensor: making one, looking at it, its operators, the slot, gradients and hooks."""

from __future__ import annotations

import copy
import operator
import pickle

import ml_dtypes
import numpy as np
import pytest

import wengert as wg


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.0, wg.float32),
        (1, wg.int64),
        (True, wg.bool),
        (1j, wg.complex64),
        ([1.0, 2], wg.float32),
        ([[1, 2], [3, 4]], wg.int64),
        (np.ones(2), wg.float64),
        (np.float64(1), wg.float64),
        (np.ones(2, np.float16), wg.float16),
        (np.ones(2, ml_dtypes.bfloat16), wg.bfloat16),
        (np.ones(2, ">f4"), wg.float32),
        (np.arange(3, dtype=np.uint8), wg.uint8),
        ([], wg.float32),
    ],
)
def test_dtypes_of_new_tensors(value, dtype):
    t = wg.tensor(value)
    assert t.dtype is dtype
    assert t.shape == np.shape(value)


def test_tensors_of_tensors_and_of_text():
    assert wg.tensor([wg.tensor(1.0), wg.tensor(2.0)]).tolist() == [1.0, 2.0]
    assert wg.tensor(wg.tensor([1.0]), dtype=wg.float64).dtype is wg.float64
    with pytest.raises(wg.errors.WengertError):
        wg.tensor("text")
    with pytest.raises(wg.errors.ShapeError):
        wg.tensor([[1.0], [1.0, 2.0]])
    with pytest.raises(wg.errors.DTypeError, match=r"wg\.tensor"):
        wg.Tensor([1.0])


def test_importing_copies_unless_told_not_to():
    a = np.zeros(2)
    copied, shared = wg.tensor(a), wg.tensor(a, copy=False)
    a[0] = 5.0
    assert copied.tolist() == [0.0, 0.0] and shared.tolist() == [5.0, 0.0]


def test_numpy_is_read_only():
    array = wg.tensor([1.0]).numpy()
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 2.0


@pytest.mark.parametrize("name", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"])
@pytest.mark.parametrize("other", [2, 2.5, np.float64(1.5), np.array([1.0, 2.0, 3.0])])
def test_arithmetic_both_ways_round(name, other):
    op, a = getattr(operator, name), np.array([1.0, 2.5, 4.0])
    t = wg.tensor(a)
    np.testing.assert_allclose(op(t, other).numpy(), op(a, other))
    np.testing.assert_allclose(op(other, t).numpy(), op(other, a))
    assert isinstance(op(other, t), wg.Tensor)


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "rshift"])
def test_bit_operators(name):
    op, a = getattr(operator, name), np.array([1, 2, 12])
    t = wg.tensor(a)
    np.testing.assert_array_equal(op(t, 3).numpy(), op(a, 3))
    np.testing.assert_array_equal(op(3, t).numpy(), op(3, a))


@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_comparisons(name):
    op, a = getattr(operator, name), np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(op(wg.tensor(a), 2.0).numpy(), op(a, 2.0))
    np.testing.assert_array_equal(op(2.0, wg.tensor(a)).numpy(), op(2.0, a))


def test_unary_operators_and_divmod():
    a = np.array([1.0, -2.0])
    t = wg.tensor(a)
    assert (-t).tolist() == [-1.0, 2.0] and (+t).tolist() == a.tolist() and abs(t).tolist() == [1.0, 2.0]
    assert (~wg.tensor([True, False])).tolist() == [False, True]
    assert [part.tolist() for part in divmod(t, 2.0)] == [part.tolist() for part in divmod(a, 2.0)]
    assert (t @ t).item() == 5.0 and (a @ t).item() == 5.0


def test_operators_with_strangers():
    class Stranger:
        def __radd__(self, other):
            return "mine"

    assert wg.tensor(1.0) + Stranger() == "mine"
    with pytest.raises(TypeError):
        wg.tensor(1.0) + "text"
    with pytest.raises(wg.errors.DTypeError, match=r"wg\.tensor"):
        wg.tensor([1.0, 2.0]) + [1.0, 2.0]


def test_in_place_operators_change_the_slot():
    x = wg.tensor([1.0, 2.0])
    alias = x
    x += 1.0
    x *= 2
    assert alias is x and alias.tolist() == [4.0, 6.0]
    n = wg.tensor([1, 2])
    with pytest.raises(wg.errors.DTypeError, match="cannot be stored in"):
        n += 0.5
    assert n.tolist() == [1, 2]
    with pytest.raises(wg.errors.ShapeError):
        x += wg.ones((3, 2))


def test_numbers_from_tensors():
    assert float(wg.tensor(1.5)) == 1.5 and int(wg.tensor([3])) == 3 and complex(wg.tensor(1j)) == 1j
    assert [10, 20, 30][wg.tensor(1)] == 20
    assert bool(wg.tensor(0.0)) is False
    assert f"{wg.tensor(1.23456):.2f}" == "1.23"
    with pytest.raises(wg.errors.ShapeError, match="any\\(\\) or all\\(\\)"):
        bool(wg.ones(2))
    with pytest.raises(wg.errors.ShapeError, match="tolist"):
        wg.ones(2).item()
    with pytest.raises(wg.errors.DTypeError):
        [1, 2][wg.tensor(1.0)]
    with pytest.raises(TypeError):
        len(wg.tensor(1.0))


def test_iteration_and_length():
    x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2 and [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    _, b = x
    assert b.tolist() == [3.0, 4.0]


def test_repr_says_what_it_is():
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    assert repr(x) == "Tensor([1., 2.], shape=(2,), dtype=float32, device=cpu, requires_grad=True)"
    assert "abstract" in repr_inside_vmap()
    assert len(repr(wg.zeros((1000, 1000)))) < 1000
    assert "bfloat16" in repr(wg.ones(2, dtype=wg.bfloat16))


def repr_inside_vmap() -> str:
    seen = []
    wg.vmap(lambda x: seen.append(repr(x)) or x)(wg.ones(2))
    return seen[0]


def test_html():
    page = wg.ones((20, 30))._repr_html_()
    assert page.count("<tr>") == 11 and "float32[20, 30]" in page
    assert "&lt;" not in page and "<table>" in page
    assert "1, 2, 0" in wg.ones((1, 2, 0))._repr_html_()


def test_casting_and_moving():
    x = wg.tensor([1.5, -2.5])
    assert x.to(wg.int32).tolist() == [1, -2] and x.astype("float64").dtype is wg.float64
    assert x.to("cpu") is x and x.to(wg.float32) is x
    with pytest.raises(wg.errors.DeviceError, match="cuda"):
        x.to("cuda")
    with pytest.raises(wg.errors.DTypeError, match="neither a dtype"):
        x.to("float31")
    with pytest.raises(wg.errors.DTypeError, match="imaginary"):
        wg.tensor(1j).astype(wg.float32)


# --- the slot -------------------------------------------------------------------------------------------------------


def test_assign_changes_what_the_slot_names_and_nothing_computed_before():
    x = wg.tensor([1.0, 2.0])
    before = x * 10.0
    x.assign(np.array([5.0, 6.0]))
    assert before.tolist() == [10.0, 20.0] and x.tolist() == [5.0, 6.0] and x.dtype is wg.float32
    with pytest.raises(wg.errors.ShapeError, match="tensor of shape"):
        x.assign(wg.ones(3))


def test_assigning_a_tracked_value_to_a_leaf():
    w = wg.tensor([1.0], requires_grad=True)
    with pytest.raises(wg.errors.AssignmentError, match="no_grad"):
        w -= 0.1 * w
    with wg.no_grad():
        w -= 0.1 * w
    assert w.requires_grad and w.is_leaf and w.tolist() == pytest.approx([0.9])
    w.assign(np.array([3.0]))
    (w * w).sum().backward()
    assert w.grad.tolist() == [6.0]


def test_parts_are_values_not_views():
    x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(wg.errors.AssignmentError, match=r"x\[0, 1\] = 5"):
        x[0][1] = 5.0
    with pytest.raises(wg.errors.AssignmentError):
        x[0].assign(wg.ones(2))
    part = x[0].copy()
    part[1] = 9.0
    x[1] += 10.0
    assert part.tolist() == [1.0, 9.0] and x.tolist() == [[1.0, 2.0], [13.0, 14.0]]


def test_item_assignment_is_differentiable():
    def f(x, v):
        y = x * 2.0
        y[1] = v * 3.0
        return (y * y).sum()

    gx, gv = wg.grad(f, (0, 1))(wg.tensor([1.0, 2.0, 3.0]), 4.0)
    assert gx.tolist() == [8.0, 0.0, 24.0] and gv.item() == 72.0


# --- gradients ------------------------------------------------------------------------------------------------------


def test_requires_grad():
    x = wg.tensor([1.0], requires_grad=True)
    y = x * 2.0
    assert x.is_leaf and not y.is_leaf and y.requires_grad and not y.detach().requires_grad
    with pytest.raises(wg.errors.GradientError, match="detach"):
        y.requires_grad = False
    x.requires_grad = False
    assert not (x * 2.0).requires_grad
    with pytest.raises(wg.errors.DTypeError, match="int64"):
        wg.tensor([1], requires_grad=True)
    assert not (wg.tensor([1.0], requires_grad=True) > 0).requires_grad


def test_backward_needs_a_number_or_a_gradient_of_the_shape():
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(wg.errors.ShapeError, match="sum\\(\\) or mean\\(\\)"):
        (x * 2.0).backward()
    with pytest.raises(wg.errors.ShapeError, match="gradient has shape"):
        (x * 2.0).backward(wg.ones(3))
    (x * 2.0).backward(wg.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 20.0]
    with pytest.raises(wg.errors.GradientError, match="requires_grad=True"):
        wg.ones(1).sum().backward()


def test_retain_grad_also_after_the_value_was_used():
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    h = x * 3.0
    loss = (h * h).sum()
    h.retain_grad()
    loss.backward()
    assert h.grad.tolist() == [6.0, 12.0] and x.grad.tolist() == [18.0, 36.0]


def test_hooks_see_and_replace_gradients():
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    seen = []
    h = x * 3.0
    remove = h.register_hook(lambda g: seen.append(g.tolist()) or g * 0.5)
    h.sum().backward(retain_graph=True)
    assert seen == [[1.0, 1.0]] and x.grad.tolist() == [1.5, 1.5]
    remove()
    x.grad = None
    h.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    leaf = wg.tensor(2.0, requires_grad=True)
    leaf.register_hook(lambda g: g * 100.0)
    (leaf * leaf).backward()
    assert leaf.grad.item() == 400.0


def test_copies_and_pickles_are_slots_of_their_own():
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    for twin in (copy.copy(x), copy.deepcopy({"x": x})["x"], pickle.loads(pickle.dumps(x))):
        assert twin.tolist() == [1.0, 2.0] and twin.is_leaf
        twin.assign(np.zeros(2))
        (twin * 2.0).sum().backward()
        assert x.tolist() == [1.0, 2.0] and x.grad is None and twin.grad.tolist() == [2.0, 2.0]
    with pytest.raises(wg.errors.GradientError, match="detach"):
        copy.deepcopy(x * 2.0)
    assert pickle.loads(pickle.dumps(wg.ones(2, dtype=wg.bfloat16))).dtype is wg.bfloat16


def test_torch_habits_work_or_name_the_spelling():
    x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert x.sum(dim=0, keepdim=True).shape == (1, 2)
    assert wg.softmax(x, dim=1).shape == (2, 2)
    assert wg.where(x > 2, x, other=0.0).tolist() == [[0.0, 0.0], [3.0, 4.0]]
    for name, spelling in {
        "view": "reshape",
        "permute": "permute_dims",
        "unsqueeze": "expand_dims",
        "numel": "size",
    }.items():
        with pytest.raises(AttributeError, match=spelling):
            getattr(x, name)
    with pytest.raises(AttributeError, match="concat"):
        wg.cat([x, x])
    with pytest.raises(AttributeError, match="'softmax'"):
        wg.sofmax(x)
    for module, name, spelling in [
        (wg, "jit", "wg.compile"),
        (wg, "dot", "x @ y"),
        (x, "trace", "write wg.trace instead, a function"),
        (x, "is_cuda", "x.device"),
        (wg.nn, "functional", "wg.relu"),
        (wg.nn, "Lineer", "'Linear'"),
        (wg.optim, "Adan", "'Adam'"),
        (wg.random, "randn", "wg.random.normal"),
        (wg.random, "unifrom", "'uniform'"),
        (wg.linalg, "norm", "wg.linalg.vector_norm"),
        (wg.linalg, "choleski", "'cholesky'"),
    ]:
        with pytest.raises(AttributeError, match=spelling):
            getattr(module, name)


def test_a_gradient_that_is_set_or_replaced_fits_its_tensor():
    x = wg.ones(2, requires_grad=True)
    for wrong, error in ((wg.ones(5), wg.errors.ShapeError), (np.ones(2), wg.errors.DTypeError)):
        with pytest.raises(error, match=r"grad: (a|the) gradient"):
            x.grad = wrong
        remove = x.register_hook(lambda g, wrong=wrong: wrong)
        with pytest.raises(error, match=r"register_hook: (a|the) gradient"):
            (x * 2).sum().backward()
        remove()
    x.register_hook(lambda g: g.to(wg.float64) * 2)
    (x * 2).sum().backward()
    assert x.grad.dtype is wg.float32 and x.grad.tolist() == [4.0, 4.0]


def test_a_target_that_is_neither_dtype_nor_device_says_what_there_is():
    for moved in (wg.ones(2), wg.nn.Linear(2, 2)):
        with pytest.raises(wg.errors.DTypeError, match=r"'gpu' is neither a dtype.* nor a device: 'cpu', or 'cuda'"):
            moved.to("gpu")


def test_completion_offers_what_is_public():
    assert {"Tensor", "nn", "optim", "errors", "linalg", "softmax"} <= set(dir(wg))
    assert not {"habits", "lift", "kernels"} & set(dir(wg))
    assert "normal" in dir(wg.random) and "np" not in dir(wg.random)
    assert "cholesky" in dir(wg.linalg) and "lift" not in dir(wg.linalg)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: x.reshape(-1, -1), r"reshape: only one size may be -1, but \(-1, -1\) has 2"),
        (lambda x: x.reshape(-2, -2), r"reshape: .*a size cannot be negative.*\(-2, -2\)"),
        (lambda x: list(x.sum()), "a 0-d tensor cannot be iterated over: it is one number"),
        (lambda x: f"{x:.2f}", r"'.2f' formats one number, but shape \(2, 2\) has 4"),
        (lambda x: len(x.sum()), "len\\(\\) of a 0-d tensor"),
        (lambda x: wg.concat(x, x), r"concat takes a list of tensors: write concat\(\[x, y\]\)"),
        (lambda x: wg.stack(x, x), r"stack takes a list of tensors: write stack\(\[x, y\]\)"),
        (lambda x: wg.grad(lambda x: None)(x), "the function must give one number; it gave none"),
        (lambda x: wg.where(x > 0), "wg.nonzero"),
        (lambda x: wg.hvp(wg.sum, x, x), "hvp: primals is a tuple"),
        (lambda x: wg.tensor("abc"), "a str: it holds strings, not numbers"),
        (lambda x: wg.tensor([None, 1.0]), "a list: it holds Python objects, not numbers"),
        (lambda x: wg.grad(lambda m: m(x).sum())(wg.nn.Linear(2, 2)), r"leaf of type Linear.*backward\(\)"),
        (lambda x: wg.jacobian(lambda p: p["w"])({"w": x, "name": "a"}), "argument 0 has a leaf of type str"),
    ],
)
def test_errors_say_what_would_work(call, message):
    with pytest.raises(wg.errors.WengertError, match=message):
        call(wg.ones((2, 2)))


# --- values that are taken of a tensor ------------------------------------------------------------------------------


def test_a_write_to_a_detached_value_raises_while_the_tensor_is_there() -> None:
    """In PyTorch it would change the tensor. Here it would be lost, so it says what to write."""
    layer = wg.nn.Linear(1, 1, bias=False)
    buffer = wg.tensor([1.0, 2.0])
    taken = [layer.weight.detach(), layer.state_dict()["weight"], buffer.detach(), layer.weight.detach().to("cpu")]
    for value in taken:
        with pytest.raises(wg.errors.AssignmentError, match=r"write x\.assign\(value\) inside"):
            value.assign(wg.zeros_like(value))
        with pytest.raises(wg.errors.AssignmentError, match=r"x\.detach\(\)\.clone\(\)"):
            value += 1
        with pytest.raises(wg.errors.AssignmentError):
            value[0] = 5.0
    assert buffer.tolist() == [1.0, 2.0]


def test_a_value_of_ones_own_can_be_written() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    mine = x.detach().clone()
    mine += 1
    state = copy.deepcopy({"x": x.detach()})
    state["x"] *= 3
    leaf = x.detach().requires_grad_()
    with wg.no_grad():
        leaf -= 1
    assert (mine.tolist(), state["x"].tolist(), leaf.tolist()) == ([2.0, 3.0], [3.0, 6.0], [0.0, 1.0])
    assert x.tolist() == [1.0, 2.0]
    h = wg.tensor([1.0]) * 2
    h = h.detach()  # nobody can see the tensor that it was taken of
    h += 1
    assert h.tolist() == [3.0]


def test_data_of_a_parameter_says_how_to_read_and_how_to_write() -> None:
    p = wg.nn.Parameter(wg.ones(2))
    with pytest.raises(AttributeError, match=r"x\.detach\(\) to read it; to write it x\.assign\(value\)"):
        p.data
    with pytest.raises(AttributeError, match=r"x\.assign\(value\)"):
        p.data = wg.zeros(2)
    assert not hasattr(p, "data")
