"""scan, cond and while_loop: equal to the Python they stand for, in every mode."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg

RNG = np.random.default_rng(0)
W, XS, H = (wg.tensor(RNG.standard_normal(shape)) for shape in ((3, 3), (4, 3), (3,)))


def scanned(w, h, xs, reverse=False):
    def step(h, x):
        h = wg.tanh(h @ w + x)
        return h, h * 2.0

    h, ys = wg.scan(step, h, xs, reverse=reverse)
    return (h * h).sum() + (ys**3).sum()


def unrolled(w, h, xs, reverse=False):
    total = 0.0
    for i in reversed(range(4)) if reverse else range(4):
        h = wg.tanh(h @ w + xs[i])
        total = total + ((h * 2.0) ** 3).sum()
    return (h * h).sum() + total


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("argument", [0, 1, 2])
def test_scan_is_the_loop_it_stands_for(argument, reverse):
    def both(f):
        return lambda *args: f(*args, reverse=reverse)

    args = (W, H, XS)
    np.testing.assert_allclose(both(scanned)(*args).numpy(), both(unrolled)(*args).numpy(), rtol=1e-13)
    for transform in (
        lambda f: wg.grad(f, argument)(*args),
        lambda f: wg.hessian(f, argument)(*args),
        lambda f: wg.jacobian(wg.grad(f, argument), argument)(*args),
        lambda f: wg.jvp(f, args, args)[1],
    ):
        found, expected = transform(both(scanned)).numpy(), transform(both(unrolled)).numpy()
        np.testing.assert_allclose(found, expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("axes", [(None, 0, None), (None, None, 0), (0, None, None), (0, 0, 0)])
def test_scan_under_vmap(axes):
    lanes = [np.stack([a.numpy(), a.numpy() * 0.5]) if axis == 0 else a.numpy() for a, axis in zip((W, H, XS), axes)]
    mapped = wg.vmap(wg.grad(scanned), axes)(*map(wg.tensor, lanes)).numpy()
    for i in range(2):
        one = [wg.tensor(a[i] if axis == 0 else a) for a, axis in zip(lanes, axes)]
        np.testing.assert_allclose(mapped[i], wg.grad(unrolled)(*one).numpy(), rtol=1e-12)


def test_scan_over_containers_and_without_xs():
    def step(carry, x):
        return {"n": carry["n"] + 1, "sum": carry["sum"] + x["a"] * x["b"]}, None

    xs = {"a": wg.tensor([1.0, 2.0]), "b": wg.tensor([3.0, 4.0])}
    carry, ys = wg.scan(step, {"n": wg.tensor(0), "sum": wg.tensor(0.0)}, xs)
    assert (carry["n"].item(), carry["sum"].item(), ys) == (2, 11.0, None)
    doubled, powers = wg.scan(lambda c, _: (c * 2, c), wg.tensor(1), length=5)
    assert doubled.item() == 32 and powers.tolist() == [1, 2, 4, 8, 16]


def test_a_slot_assigned_inside_scan_is_carried():
    count = wg.tensor(0.0)

    def step(h, x):
        count.assign(count + 1.0)
        return h + x * count, count * 1.0

    total, counts = wg.scan(step, wg.tensor(0.0), wg.tensor([1.0, 2.0, 3.0]))
    assert (total.item(), counts.tolist(), count.item()) == (14.0, [1.0, 2.0, 3.0], 3.0)


def test_random_draws_inside_scan_differ_and_advance_the_generator():
    wg.manual_seed(0)
    _, draws = wg.scan(lambda c, _: (c, wg.random.uniform(())), wg.tensor(0.0), length=5)
    after = wg.random.uniform(())
    values = [*draws.tolist(), after.item()]
    assert len(set(values)) == 6


@pytest.mark.parametrize("taken", [True, False])
def test_cond_in_every_mode(taken):
    def f(x):
        return wg.cond(wg.tensor(taken), lambda x: wg.sin(x) * x, lambda x: x * x * x, x)

    def plain(x):
        return wg.sin(x) * x if taken else x * x * x

    x = np.float64(1.3)
    for transform in (lambda f: f(wg.tensor(x)), lambda f: wg.grad(f)(x), lambda f: wg.grad(wg.grad(f))(x)):
        assert transform(f).item() == pytest.approx(transform(plain).item(), rel=1e-14)
    assert wg.jvp(f, (x,), (1.0,))[1].item() == pytest.approx(wg.jvp(plain, (x,), (1.0,))[1].item(), rel=1e-14)
    lanes = wg.tensor([1.3, 2.0])
    np.testing.assert_allclose(wg.vmap(f)(lanes).numpy(), plain(lanes).numpy())


def test_cond_on_a_batched_predicate_selects():
    def f(p, x):
        return wg.cond(p, lambda x: x * 2.0, lambda x: x + 100.0, x)

    found = wg.vmap(f)(wg.tensor([True, False]), wg.tensor([[1.0, 2.0], [3.0, 4.0]]))
    assert found.tolist() == [[2.0, 4.0], [103.0, 104.0]]


def test_cond_computes_one_branch_only():
    bad = wg.tensor(-np.eye(2))
    result = wg.cond(wg.tensor(True), lambda a: a.sum(), lambda a: wg.linalg.cholesky(a).sum(), bad)
    assert result.item() == -2.0


def test_a_slot_assigned_in_one_branch_is_selected():
    x = wg.tensor(1.0)
    for taken, expected in ((False, 1.0), (True, 5.0)):
        wg.cond(wg.tensor(taken), lambda: x.assign(x + 4.0) * 0.0, lambda: x * 0.0)
        assert x.item() == expected


def test_while_loop_forward_mode_and_vmap():
    def power(a):
        return wg.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * a), (wg.tensor(0), a))[1]

    out, tangent = wg.jvp(power, (np.float64(2.0),), (1.0,))
    assert (out.item(), tangent.item()) == (16.0, 32.0)
    found = wg.vmap(lambda x: wg.while_loop(lambda x: x < 100, lambda x: x * 2, x))(wg.tensor([3, 50, 200]))
    assert found.tolist() == [192, 100, 200]
    assert wg.grad(power)(2.0).item() == 32.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wg.scan(lambda c, x: c, wg.tensor(0.0), XS), wg.errors.ArgumentError, "must return \\(carry, y\\)"),
        (lambda: wg.scan(lambda c, x: ((c, c), x), wg.tensor(0.0), XS), wg.errors.ArgumentError, "leaves it as"),
        (
            lambda: wg.scan(lambda c, x: (c + x, x), wg.tensor(0.0), XS),
            wg.errors.ShapeError,
            r"the carry enters a step as float32\[\] but leaves it as float64\[3\]\. Give it one shape",
        ),
        (
            lambda: wg.scan(lambda c, x: ((c[0], c[1] + x.sum()), x), (H, wg.tensor(0)), XS),
            wg.errors.DTypeError,
            r"carry 1 enters a step as int64\[\] but leaves it as float64\[\]\. Start with float64, or cast",
        ),
        (
            lambda: wg.while_loop(lambda h: h.sum() < 9, lambda h: wg.concat([h, h]), H),
            wg.errors.ShapeError,
            r"while_loop: the carry enters a step as float64\[3\] but leaves it as float64\[6\]",
        ),
        (
            lambda: wg.while_loop(lambda h: h[0][0] > 0, lambda h: (h[0], h[0]), (H,)),
            wg.errors.ArgumentError,
            "a step takes 1 values",
        ),
        (
            lambda: wg.while_loop(lambda x: x < 100, lambda x: x + 1, wg.tensor(0), max_steps=7).item(),
            wg.errors.ComputationError,
            r"still holds after 7 steps \(max_steps=7\)(?s:.)*at test_control\.py",
        ),
        (
            lambda: wg.while_loop(lambda x: x < 1, lambda x: x, H[0], max_steps=-1),
            wg.errors.ArgumentError,
            "max_steps must be",
        ),
        (lambda: wg.scan(lambda c, x: (c, x), wg.tensor(0.0), (XS, W)), wg.errors.ShapeError, "several: "),
        (lambda: wg.scan(lambda c, x: (c, x), wg.tensor(0.0)), wg.errors.ShapeError, "pass xs or length"),
        (lambda: wg.scan(lambda c, x: (c if x[0] > 0 else -c, x), H, XS), wg.errors.AbstractValueError, "scan"),
        (lambda: wg.cond(wg.tensor([True]), lambda: H, lambda: H), wg.errors.ShapeError, "one boolean"),
        (lambda: wg.cond(True, lambda: H, lambda: (H,)), wg.errors.ArgumentError, "branches"),
        (lambda: wg.cond(True, lambda: H, lambda: W), wg.errors.GradientError, "second branch"),
        (lambda: wg.while_loop(lambda h: h > 0, lambda h: h, H), wg.errors.ShapeError, "one boolean"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()
