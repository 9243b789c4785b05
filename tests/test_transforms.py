"""The transforms: what is promised of grad, vjp, jvp, jacobian, hessian, hvp, vmap and their nesting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
from wengert.autodiff import numeric, symbolic

X1, X2 = np.float64(2.0), np.float64(5.0)


def textbook(x1, x2):
    """ln(x1) + x1*x2 - sin(x2), the example every introduction draws."""
    return wg.log(x1) + x1 * x2 - wg.sin(x2)


EXPECTED = (1 / 2 + 5, 2 - np.cos(5.0))


def test_the_textbook_gradient_by_reverse_mode():
    slopes = wg.grad(textbook, (0, 1))(X1, X2)
    assert [float(s) for s in slopes] == pytest.approx(EXPECTED, rel=1e-15)


def test_the_textbook_gradient_by_forward_mode():
    slopes = [wg.jvp(textbook, (X1, X2), tangents)[1].item() for tangents in ((1.0, 0.0), (0.0, 1.0))]
    assert slopes == pytest.approx(EXPECTED, rel=1e-15)


@pytest.mark.parametrize("method", ["central", "complex", "richardson"])
def test_the_textbook_gradient_by_numeric_differences(method):
    slopes = numeric.grad(textbook, (0, 1), method=method)(X1, X2)
    assert [float(s) for s in slopes] == pytest.approx(EXPECTED, rel=1e-8)


def test_the_textbook_gradient_symbolically():
    pytest.importorskip("sympy", reason="symbolic differentiation goes through SymPy")
    slopes = symbolic.grad(textbook, (0, 1))(X1, X2)
    assert [float(s) for s in slopes] == pytest.approx(EXPECTED, rel=1e-12)


def test_the_textbook_hessian():
    hessian = wg.hessian(textbook, (0, 1))(X1, X2)
    found = [[float(h) for h in row] for row in hessian]
    np.testing.assert_allclose(found, [[-1 / 4, 1.0], [1.0, np.sin(5.0)]], rtol=1e-14)


def test_the_third_derivative_of_tanh():
    third = wg.grad(wg.grad(wg.grad(wg.tanh)))(np.float64(0.3))
    t = np.tanh(0.3)
    assert third.item() == pytest.approx((1 - t**2) * (6 * t**2 - 2), rel=1e-13)


@pytest.mark.slow
def test_a_chain_of_200_000_ops_is_differentiated_and_freed():
    x = wg.tensor(1.0, dtype=wg.float64, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = (y + 1e-6) * 1.00000001
    y.backward()
    assert x.grad.item() == pytest.approx(1.00000001**100_000, rel=1e-9)


def test_a_long_chain_of_nested_values_is_differentiated_forwards():
    def chain(x):
        for _ in range(20_000):
            x = x * 1.0001
        return x

    assert wg.jvp(chain, (np.float64(1.0),), (1.0,))[1].item() == pytest.approx(1.0001**20_000, rel=1e-9)


@dataclass
class Layer:
    weight: wg.Tensor
    bias: wg.Tensor


class Pair(NamedTuple):
    a: wg.Tensor
    b: wg.Tensor


def test_gradients_have_the_structure_of_the_argument():
    model = {
        "layers": [Layer(wg.tensor([[1.0, 2.0]]), wg.tensor([0.5])), Layer(wg.tensor([[3.0]]), wg.tensor([0.0]))],
        "pair": Pair(wg.tensor(1.0), wg.tensor(2.0)),
        "none": None,
    }

    def loss(m):
        h = m["layers"][0].weight @ wg.tensor([1.0, 1.0]) + m["layers"][0].bias
        y = m["layers"][1].weight @ h + m["layers"][1].bias
        return (y * m["pair"].a).sum() + m["pair"].b ** 2

    gradient = wg.grad(loss)(model)
    assert isinstance(gradient["layers"][0], Layer) and isinstance(gradient["pair"], Pair)
    assert gradient["none"] is None
    assert gradient["layers"][0].weight.tolist() == [[3.0, 3.0]]
    assert gradient["pair"].b.item() == 4.0


def test_has_aux_and_several_argnums():
    def f(x, y):
        return (x * y).sum(), {"product": x * y}

    (value, aux), (gx, gy) = wg.value_and_grad(f, (0, 1), has_aux=True)(wg.tensor([1.0, 2.0]), wg.tensor([3.0, 4.0]))
    assert value.item() == 11.0 and aux["product"].tolist() == [3.0, 8.0]
    assert gx.tolist() == [3.0, 4.0] and gy.tolist() == [1.0, 2.0]
    assert not aux["product"].requires_grad


def test_an_argument_nothing_depends_on_has_zero_gradient():
    assert wg.grad(lambda x, y: x * 2.0, 1)(wg.tensor(1.0), wg.ones(3)).tolist() == [0.0, 0.0, 0.0]


def test_branching_on_values_inside_grad():
    def f(x):
        return x * 3.0 if x > 0 else x * 5.0

    assert wg.grad(f)(1.0).item() == 3.0
    assert wg.grad(f)(-1.0).item() == 5.0


def test_perturbations_do_not_mix():
    def f(x):
        return x * wg.grad(lambda y: x + y)(1.0)

    assert wg.grad(f)(2.0).item() == 1.0
    assert wg.jvp(lambda x: x * wg.jvp(lambda y: x + y, (1.0,), (1.0,))[1], (2.0,), (1.0,))[1].item() == 1.0


def test_modes_agree_in_every_nesting():
    def f(x):
        return (wg.sin(x) * wg.exp(x * 0.5)).sum()

    x = wg.tensor(np.array([0.3, -1.2, 2.0]))
    reference = wg.hessian(f)(x).numpy()
    for outer in ("reverse", "forward"):
        found = wg.jacobian(wg.grad(f), mode=outer)(x).numpy()
        np.testing.assert_allclose(found, reference, atol=1e-13)
        found = wg.jacobian(lambda x: wg.jacobian(f, mode="forward")(x), mode=outer)(x).numpy()
        np.testing.assert_allclose(found, reference, atol=1e-13)
    v = wg.tensor(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(wg.hvp(f, (x,), (v,)).numpy(), reference @ v.numpy(), atol=1e-13)
    vmapped = wg.vmap(lambda t: wg.hvp(f, (x,), (t,)))(wg.tensor(np.eye(3)))
    np.testing.assert_allclose(vmapped.numpy(), reference, atol=1e-13)


def test_jacobian_of_containers():
    def f(p):
        return {"sum": p["a"] + p["b"], "product": p["a"] * p["b"]}

    jacobian = wg.jacobian(f)({"a": wg.tensor([1.0, 2.0]), "b": wg.tensor([3.0, 4.0])})
    assert jacobian["product"]["a"].tolist() == [[3.0, 0.0], [0.0, 4.0]]
    assert jacobian["sum"]["b"].tolist() == [[1.0, 0.0], [0.0, 1.0]]


def test_vjp_can_be_pulled_back_twice():
    out, pullback = wg.vjp(lambda x, y: (x * y, x + y), wg.tensor([1.0, 2.0]), wg.tensor([3.0, 4.0]))
    assert [t.tolist() for t in out] == [[3.0, 8.0], [4.0, 6.0]]
    ones, zeros = wg.ones(2), wg.zeros(2)
    assert [t.tolist() for t in pullback((ones, zeros))] == [[3.0, 4.0], [1.0, 2.0]]
    assert [t.tolist() for t in pullback((zeros, ones))] == [[1.0, 1.0], [1.0, 1.0]]


def test_a_kept_loss_does_not_keep_its_graph():
    value, _ = wg.value_and_grad(lambda x: wg.exp(x).sum())(wg.ones(3))
    value.numpy()
    assert not value.requires_grad and value.node.sources == ()


def test_no_grad_inside_and_outside_a_transform():
    def f(x):
        with wg.no_grad():
            constant = x * 2.0
        return x * constant

    assert wg.grad(f)(3.0).item() == 6.0
    with wg.no_grad():
        assert wg.grad(lambda x: x * x)(3.0).item() == 6.0


def test_stop_gradient():
    assert wg.grad(lambda x: x * wg.stop_gradient(x))(3.0).item() == 3.0


# --- vmap -----------------------------------------------------------------------------------------------------------


def test_vmap_over_axes_and_containers():
    x, y = wg.tensor(np.arange(6.0).reshape(2, 3)), wg.tensor(np.arange(3.0))
    by_column = wg.vmap(lambda column, b: {"v": column * b}, in_axes=(1, 0), out_axes=1)(x, y)
    np.testing.assert_array_equal(by_column["v"].numpy(), x.numpy() * y.numpy())
    nested = wg.vmap(wg.vmap(lambda a, b: a - b, (None, 0)), (0, None))(y, y)
    np.testing.assert_array_equal(nested.numpy(), y.numpy()[:, None] - y.numpy()[None])


def test_vmap_of_grad_is_per_example_gradients():
    rng = np.random.default_rng(0)
    w, xs = wg.tensor(rng.standard_normal((3, 4))), wg.tensor(rng.standard_normal((5, 3)))

    def loss(w, x):
        return wg.tanh(x @ w).sum()

    per_example = wg.vmap(wg.grad(loss), in_axes=(None, 0))(w, xs).numpy()
    one_by_one = np.stack([wg.grad(loss)(w, x).numpy() for x in xs])
    np.testing.assert_allclose(per_example, one_by_one, atol=1e-14)
    np.testing.assert_allclose(wg.grad(lambda w: wg.vmap(loss, (None, 0))(w, xs).sum())(w).numpy(), per_example.sum(0))


def test_vmap_results_that_do_not_depend_on_the_lane():
    same, out = wg.vmap(lambda x: (wg.tensor(7.0), x), out_axes=(None, 0))(wg.ones(3))
    assert same.shape == () and out.shape == (3,)
    assert wg.vmap(lambda x: wg.tensor(7.0))(wg.ones(3)).tolist() == [7.0, 7.0, 7.0]


def test_assigning_under_vmap():
    counter, total = wg.tensor(0.0), wg.tensor(0.0)

    def counting(x):
        counter.assign(counter + 1.0)
        return x

    wg.vmap(counting)(wg.ones(3))
    assert counter.item() == 1.0

    def adding(x):
        total.assign(total + x)
        return x

    with pytest.raises(wg.errors.AssignmentError, match="differs between lanes"):
        wg.vmap(adding)(wg.ones(3))
    assert total.item() == 0.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wg.vmap(lambda a, b: a)(wg.ones(3), wg.ones(4)), wg.errors.ShapeError, "different sizes"),
        (lambda: wg.vmap(lambda a: a)(1.0), wg.errors.ShapeError, "0-d"),
        (lambda: wg.vmap(lambda a: a, in_axes=None)(wg.ones(3)), wg.errors.ArgumentError, "no argument is mapped"),
        (
            lambda: wg.vmap(lambda a: a if a > 0 else -a)(wg.ones(3)),
            wg.errors.AbstractValueError,
            "wg.where or wg.cond",
        ),
        (lambda: wg.vmap(lambda a: a, out_axes=None)(wg.ones(3)), wg.errors.ArgumentError, "out_axes is None"),
        (lambda: wg.vmap(lambda a: a, in_axes=(0, 0))(wg.ones(3)), wg.errors.ArgumentError, "2 items, but there are 1"),
    ],
)
def test_vmap_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_abstract_value_that_escapes_says_so():
    kept = []
    wg.vmap(lambda x: kept.append(x * 2.0) or x)(wg.ones(3))
    with pytest.raises(wg.errors.AbstractValueError, match="escaped"):
        kept[0].numpy()
    assert wg.ones(2).tolist() == [1.0, 1.0]


# --- checkpoint, custom rules ---------------------------------------------------------------------------------------


def test_checkpoint_gives_the_same_derivatives():
    def f(x, y):
        h = wg.sin(x * y)
        return (h * h + x).sum()

    x, y = (wg.tensor(np.random.default_rng(i).standard_normal(4)) for i in (0, 1))
    c = wg.checkpoint(f)
    np.testing.assert_array_equal(wg.grad(c, (0, 1))(x, y)[0].numpy(), wg.grad(f, (0, 1))(x, y)[0].numpy())
    np.testing.assert_allclose(wg.hessian(c)(x, y).numpy(), wg.hessian(f)(x, y).numpy(), atol=1e-14)
    np.testing.assert_allclose(wg.jvp(c, (x, y), (y, x))[1].numpy(), wg.jvp(f, (x, y), (y, x))[1].numpy(), atol=1e-14)
    two = wg.tensor(np.stack([x.numpy(), y.numpy()]))
    np.testing.assert_allclose(wg.vmap(c, (0, None))(two, y).numpy(), wg.vmap(f, (0, None))(two, y).numpy())


def test_checkpoint_keeps_nothing_of_the_inside():
    x = wg.tensor(np.ones((4, 4)), requires_grad=True)
    y = wg.checkpoint(lambda x: wg.exp(x @ x) @ x)(x)
    y.detach().numpy()
    held = [node for node in wg.graph.ancestors([y.node]) if node.buffer is not None]
    assert {node.op.name for node in held} <= {"data", "pick", "variable", "checkpoint"}
    y.sum().backward()
    assert x.grad is not None


def test_custom_vjp():
    @wg.custom_vjp
    def scaled(x):
        return x * 1.0

    scaled.defvjp(lambda x: (x * 1.0, x), lambda x, g: (g * x * 10.0,))
    assert wg.grad(lambda x: scaled(x) * 3.0)(2.0).item() == 60.0
    assert wg.grad(wg.grad(lambda x: scaled(x) * 3.0))(2.0).item() == 30.0
    assert wg.vmap(wg.grad(lambda x: scaled(x) * 3.0))(wg.tensor([1.0, 2.0])).tolist() == [30.0, 60.0]
    assert wg.grad(lambda x: wg.vmap(scaled)(x).sum())(wg.tensor([1.0, 2.0])).tolist() == [10.0, 20.0]
    assert wg.jvp(scaled, (2.0,), (1.0,))[1].item() == 1.0


def test_the_forward_of_custom_vjp_may_call_the_function_itself():
    @wg.custom_vjp
    def total(x):
        return wg.logsumexp(x)

    total.defvjp(lambda x: (total(x), wg.softmax(x)), lambda needed, g: (2.0 * g * needed,))
    x = wg.tensor([0.0, 1.0, 2.0])
    twice = 2.0 * wg.softmax(x).numpy()
    np.testing.assert_allclose(wg.grad(total)(x).numpy(), twice, rtol=1e-6)
    np.testing.assert_allclose(wg.vmap(wg.grad(total))(x[None]).numpy(), twice[None], rtol=1e-6)
    np.testing.assert_allclose(wg.grad(lambda x: total(x) + total(2.0 * x))(0.0 * x).numpy(), [2, 2, 2], rtol=1e-6)
    second = wg.hessian(wg.logsumexp)(x).numpy()
    np.testing.assert_allclose(wg.hessian(total)(x).numpy(), 2.0 * second, atol=1e-6)
    np.testing.assert_allclose(wg.jvp(total, (x,), (x,))[1].numpy(), (twice / 2 * x.numpy()).sum(), rtol=1e-6)


def test_a_forward_of_custom_vjp_that_fails_leaves_the_rule_in_force():
    fails = [True]

    @wg.custom_vjp
    def same(x):
        return x

    def forward(x):
        if fails.pop():
            raise ZeroDivisionError
        return same(x), None

    same.defvjp(forward, lambda needed, g: (7.0 * g,))
    with pytest.raises(ZeroDivisionError):
        wg.grad(same)(1.0)
    fails.append(False)
    assert wg.grad(same)(1.0).item() == 7.0


def test_custom_vjp_of_several_arguments_and_results():
    @wg.custom_vjp
    def both(p, x):
        return p["w"] * x, x + 0.0

    both.defvjp(
        lambda p, x: ((p["w"] * x, x + 0.0), (p, x)),
        lambda kept, g: ({"w": g[0] * kept[1] * 2.0}, None),
    )
    gp, gx = wg.grad(lambda p, x: both(p, x)[0] + both(p, x)[1], (0, 1))({"w": wg.tensor(3.0)}, wg.tensor(4.0))
    assert gp["w"].item() == 8.0 and gx.item() == 0.0


def test_custom_jvp():
    @wg.custom_jvp
    def softplus(x):
        return wg.log(1 + wg.exp(x))

    softplus.defjvp(lambda primals, tangents: (softplus(*primals), tangents[0] * wg.sigmoid(primals[0])))
    s = 1 / (1 + np.exp(-0.3))
    x = np.float64(0.3)
    assert wg.grad(softplus)(x).item() == pytest.approx(s)
    assert wg.jvp(softplus, (x,), (1.0,))[1].item() == pytest.approx(s)
    assert wg.grad(wg.grad(softplus))(x).item() == pytest.approx(s * (1 - s))
    assert wg.vmap(wg.grad(softplus))(wg.tensor([x, x])).tolist() == pytest.approx([s, s])
    assert wg.grad(lambda x: wg.vmap(softplus)(x).sum())(wg.tensor([x, x])).tolist() == pytest.approx([s, s])


def test_custom_rules_must_be_given():
    with pytest.raises(wg.errors.ArgumentError, match="defvjp"):
        wg.custom_vjp(lambda x: x)(1.0)
    with pytest.raises(wg.errors.ArgumentError, match="defjvp"):
        wg.custom_jvp(lambda x: x)(1.0)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wg.grad(lambda x: x * 2.0)(wg.ones(3)), wg.errors.ShapeError, "one number"),
        (lambda: wg.grad(lambda x: x * 2)(3), wg.errors.DTypeError, "Pass 2.0 instead of 2"),
        (lambda: wg.grad(lambda x: 1.0)(3.0), wg.errors.GradientError, "not a tensor"),
        (lambda: wg.grad(lambda x: x, argnums=2)(3.0), wg.errors.ArgumentError, "argnums 2"),
        (lambda: wg.grad(lambda x: x > 0)(3.0), wg.errors.DTypeError, "floating-point result"),
        (lambda: wg.jvp(lambda x: x, (1.0,), (wg.ones(2),)), wg.errors.ShapeError, "tangents"),
        (lambda: wg.vjp(lambda x: x), wg.errors.ArgumentError, r"as in wg.vjp\(f, x\)"),
        (lambda: wg.jvp(lambda x: x, wg.ones(3), (1.0,)), wg.errors.ArgumentError, r"such as \(x,\), not a Tensor"),
        (lambda: wg.jvp(lambda x: x, (1.0,), (1.0, 2.0)), wg.errors.ArgumentError, "1 primals but 2 tangents"),
        (lambda: wg.vjp(lambda x: x, 1.0)[1](wg.ones(2)), wg.errors.ShapeError, "cotangent"),
        (lambda: wg.jacobian(lambda x: x, mode="sideways"), wg.errors.ArgumentError, "sideways"),
    ],
)
def test_transform_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("transform", [wg.grad, wg.value_and_grad, wg.jacobian, wg.hessian])
def test_a_value_in_the_place_of_a_function_raises_at_once(transform: Any) -> None:
    w = wg.tensor([1.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"takes a function, not a Tensor\. .*loss\.backward\(\)"):
        transform((w * w).sum(), [w])
    with pytest.raises(TypeError, match="takes a function, not a list"):
        transform([w])
