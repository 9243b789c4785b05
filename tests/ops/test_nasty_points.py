"""Points at which derivatives go wrong unless somebody thought of them: zeros, ties, tails, branches not taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg

INF, NAN = np.inf, np.nan
Function = Callable[..., wg.Tensor]


def t(value: Any) -> wg.Tensor:
    return wg.tensor(np.asarray(value, np.float64))


def gradient(f: Function, x: Any) -> np.ndarray:
    """The gradient of the sum of `f`, by reverse mode; forward mode must agree, NaNs and infinities included."""
    x = t(x)
    total = lambda x: wg.sum(f(x))
    by_reverse = wg.grad(total)(x).numpy()
    basis = np.eye(x.size).reshape(x.size, *x.shape)
    by_forward = np.array([wg.jvp(total, (x,), (t(e),))[1].item() for e in basis]).reshape(x.shape)
    np.testing.assert_allclose(by_forward, by_reverse, rtol=1e-12)
    return by_reverse


def second(f: Function, x: float) -> float:
    return wg.grad(wg.grad(f))(t(x)).item()


def torch_gradient(f: Callable[[Any], Any], x: Any) -> np.ndarray:
    torch = pytest.importorskip("torch", reason="torch, the other implementation to compare with, is not installed")
    leaf = torch.tensor(np.asarray(x, np.float64), requires_grad=True)
    f(leaf).sum().backward()
    return leaf.grad.numpy()


# --- roots and powers -----------------------------------------------------------------------------------------------


def test_sqrt_at_zero_has_an_infinite_slope_and_norm_has_none() -> None:
    assert gradient(wg.sqrt, 0.0) == INF
    np.testing.assert_array_equal(gradient(wg.norm, [0.0, 0.0]), [0, 0])
    np.testing.assert_allclose(gradient(wg.norm, [3.0, 4.0]), [0.6, 0.8])
    np.testing.assert_array_equal(gradient(lambda x: wg.hypot(x, x), [0.0]), [0])
    np.testing.assert_array_equal(gradient(lambda x: wg.atan2(x, x), [0.0]), [0])
    for order in (1, 3, INF, 0.5):
        assert np.isfinite(gradient(lambda x, order=order: wg.norm(x, order), [0.0, 1.0])).all()


def test_a_cotangent_of_zero_takes_no_infinite_slope() -> None:
    weighted = wg.grad(lambda x: wg.sum(wg.sqrt(x) * t([0.0, 1.0])))
    np.testing.assert_array_equal(weighted(t([0.0, 4.0])).numpy(), [0, 0.25])


@pytest.mark.parametrize(
    ("exponent", "slopes"), [(0, [0, 0]), (1, [1, 1]), (2, [0, 4]), (3, [0, 12]), (0.5, [INF, 0.25 * 2**0.5])]
)
def test_powers_of_zero(exponent: float, slopes: list[float]) -> None:
    x = [0.0, 2.0]
    np.testing.assert_allclose(gradient(lambda x: x**exponent, x), slopes)
    as_tensor = t(exponent)
    np.testing.assert_allclose(gradient(lambda x: x**as_tensor, x), slopes)


def test_second_derivatives_of_powers_at_zero() -> None:
    for exponent, curvature in ((0, 0), (1, 0), (2, 2), (3, 0), (2.0, 2)):
        assert second(lambda x, n=exponent: x**n, 0.0) == curvature
        assert second(lambda x, n=exponent: x ** t(n), 0.0) == curvature


def test_zero_to_a_variable_power() -> None:
    np.testing.assert_array_equal(gradient(lambda x: t(0.0) ** x, [0.0, 1.0, 2.5]), [0, 0, 0])
    np.testing.assert_array_equal(gradient(lambda x: 0 ** (x * x + 1), [0.5]), [0])
    np.testing.assert_array_equal((0.0 ** t([0.0, 1.0, -1.0])).numpy(), [1, 0, INF])


def test_a_negative_base_with_an_integer_power() -> None:
    np.testing.assert_allclose(gradient(lambda x: x**3, [-2.0]), [12])
    np.testing.assert_allclose(gradient(lambda x: x ** t(3.0), [-2.0]), [12])
    assert np.isnan(gradient(lambda n: t(-2.0) ** n, [3.0])).all()  # (-2)^n has no slope in n


# --- exponentials far out -------------------------------------------------------------------------------------------


def test_softplus_and_sigmoid_far_out() -> None:
    x = [-1e3, -30.0, 0.0, 30.0, 1e3]
    np.testing.assert_allclose(wg.softplus(t(x)).numpy(), [0, np.exp(-30), np.log(2), 30, 1e3], rtol=1e-12)
    np.testing.assert_allclose(gradient(wg.softplus, x), [0, np.exp(-30), 0.5, 1, 1], rtol=1e-12)
    np.testing.assert_allclose(wg.logsigmoid(t(x)).numpy(), [-1e3, -30, -np.log(2), -np.exp(-30), 0], rtol=1e-12)
    np.testing.assert_allclose(gradient(wg.logsigmoid, x), [1, 1, 0.5, np.exp(-30), 0], rtol=1e-12)
    np.testing.assert_array_equal(wg.sigmoid(t([-1e3, 1e3])).numpy(), [0, 1])
    np.testing.assert_array_equal(gradient(wg.sigmoid, [-1e3, 1e3]), [0, 0])
    np.testing.assert_allclose(wg.sigmoid(t(-700.0)).item(), np.exp(-700))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_keeps_its_digits_in_the_negative_tail(approximate: str) -> None:
    from scipy.special import expit, log_ndtr

    x = np.array([-12.0, -8.0, -3.0])
    inner = np.sqrt(8 / np.pi) * (x + 0.044715 * x**3)
    expected = x * (np.exp(log_ndtr(x)) if approximate == "none" else expit(inner))
    np.testing.assert_allclose(wg.gelu(t(x), approximate=approximate).numpy(), expected, rtol=1e-12)
    tails = gradient(lambda x: wg.gelu(x, approximate=approximate), [-1e3, -40.0, 40.0, 1e3])
    np.testing.assert_allclose(tails, [0, 0, 1, 1], atol=1e-300)


@pytest.mark.parametrize("name", ["elu", "celu", "selu", "mish", "silu", "softsign", "tanhshrink", "hardswish"])
def test_activations_are_finite_far_out(name: str) -> None:
    f = getattr(wg, name)
    assert np.isfinite(f(t([-1e3, 1e3])).numpy()).all()
    assert np.isfinite(gradient(f, [-1e3, 1e3])).all()


def test_kinks_take_the_flat_side() -> None:
    assert gradient(wg.relu, 0.0) == 0
    assert gradient(wg.abs, 0.0) == 0
    np.testing.assert_array_equal(gradient(wg.relu6, [0.0, 6.0]), [0, 0])
    np.testing.assert_array_equal(gradient(wg.hardtanh, [-1.0, 1.0]), [0, 0])
    np.testing.assert_array_equal(gradient(lambda x: wg.clip(x, -1, 1), [-1.0, 1.0, 1.5]), [1, 1, 0])


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_in_half_precision_is_that_in_float32_rounded(approximate: str) -> None:
    x = wg.tensor(np.linspace(-4, 4, 201), dtype=wg.bfloat16)
    exact = wg.gelu(x.to(wg.float32), approximate=approximate)
    assert wg.gelu(x, approximate=approximate).tolist() == exact.to(wg.bfloat16).tolist()


@pytest.mark.parametrize("name", ["relu", "relu6", "hardtanh", "leaky_relu", "elu", "gelu", "softplus", "hardswish"])
def test_nan_goes_through_activations(name: str) -> None:
    assert np.isnan(getattr(wg, name)(t([NAN])).numpy()).all()


# --- softmax, logsumexp ---------------------------------------------------------------------------------------------


def test_log_softmax_of_huge_values() -> None:
    np.testing.assert_array_equal(wg.log_softmax(t([1e10, 0.0])).numpy(), [0, -1e10])
    np.testing.assert_allclose(wg.log_softmax(t([1e10, 1e10])).numpy(), [-np.log(2)] * 2)
    np.testing.assert_array_equal(gradient(lambda x: wg.log_softmax(x)[0], [1e10, 0.0]), [0, 0])
    np.testing.assert_array_equal(gradient(lambda x: wg.log_softmax(x)[1], [1e10, 0.0]), [-1, 1])
    np.testing.assert_array_equal(wg.softmax(t([1e10, 0.0, -INF])).numpy(), [1, 0, 0])


def test_a_masked_entry_of_softmax() -> None:
    x, weights = [0.5, -INF, 1.0], t([1.0, 2.0, 3.0])
    found = gradient(lambda x: wg.softmax(x) * weights, x)
    expected = torch_gradient(lambda x: x.softmax(-1) * x.new_tensor([1.0, 2.0, 3.0]), x)
    np.testing.assert_allclose(found, expected, atol=1e-15)


def test_logsumexp_of_infinities() -> None:
    assert wg.logsumexp(t([-INF, -INF])).item() == -INF
    assert wg.logsumexp(t([1.0, INF])).item() == INF
    assert wg.logsumexp(t([-INF, 2.0])).item() == 2
    np.testing.assert_array_equal(gradient(wg.logsumexp, [-INF, 2.0]), [0, 1])
    np.testing.assert_allclose(gradient(wg.logsumexp, [1e4, 1e4]), [0.5, 0.5])
    assert wg.logsumexp(t(np.zeros(0))).item() == -INF
    assert wg.logaddexp(t(-INF), t(-INF)).item() == -INF


# --- the branch not taken -------------------------------------------------------------------------------------------

BRANCHES: dict[str, tuple[Function, list[float], list[float]]] = {
    "log": (lambda x: wg.where(x > 0, wg.log(x), 0.0), [0.0, -1.0, 2.0], [0, 0, 0.5]),
    "sqrt": (lambda x: wg.where(x > 0, wg.sqrt(x), x), [0.0, -1.0, 4.0], [1, 1, 0.25]),
    "division": (lambda x: wg.where(x == 0, 1.0, wg.sin(x) / x), [0.0, np.pi], [0, -1 / np.pi]),
    "reciprocal": (lambda x: wg.where(x != 0, wg.reciprocal(x), x), [0.0, 2.0], [1, -0.25]),
    "power": (lambda x: wg.where(x > 0, x**-1.5, x), [0.0, -1.0, 1.0], [1, 1, -1.5]),
    "tensor power": (lambda x: wg.where(x > 0, x**x, 1.0), [0.0, -1.0, 1.0], [0, 0, 1]),
    "acos": (lambda x: wg.where(wg.abs(x) < 1, wg.acos(x), 0.0), [1.0, 2.0, 0.0], [0, 0, -1]),
    "overflow": (lambda x: wg.where(x < 700, wg.exp(x), 0.0), [1e4, 0.0], [0, 1]),
    "nested": (
        lambda x: wg.where(x > 0, wg.where(x > 1, wg.sqrt(x - 1), wg.log(x)), wg.sqrt(-x)),
        [0.5, 2.0, -4.0],
        [2, 0.5, -0.25],
    ),
    "log of a sqrt": (lambda x: wg.where(x > 0, wg.log(wg.sqrt(x)), x), [-1.0, 0.0, 1.0], [1, 1, 0.5]),
    "lgamma": (lambda x: wg.where(x > 0, wg.lgamma(x), 0.0), [0.0, -1.0, 2.0], [0, 0, 0.42278433509846713]),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_where_with_nan_in_the_branch_not_taken(name: str) -> None:
    f, x, expected = BRANCHES[name]
    np.testing.assert_allclose(gradient(f, x), expected, rtol=1e-12, atol=1e-15)
    total = lambda x: wg.sum(f(x))
    forward_over_reverse = np.diagonal(wg.hessian(total)(t(x)).numpy())
    reverse_over_reverse = wg.grad(lambda x: wg.sum(wg.grad(total)(x)))(t(x)).numpy()
    assert np.isfinite(forward_over_reverse).all()
    np.testing.assert_allclose(reverse_over_reverse, forward_over_reverse, rtol=1e-12, atol=1e-15)


# --- products, extremes, statistics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [[2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [2.0, 5.0, 3.0]])
def test_prod_with_zeros(x: list[float]) -> None:
    others = [np.prod([v for j, v in enumerate(x) if j != i]) for i in range(3)]
    np.testing.assert_array_equal(gradient(wg.prod, x), others)
    rest = np.array([[0 if i == j else x[3 - i - j] for i in range(3)] for j in range(3)])
    np.testing.assert_array_equal(wg.hessian(wg.prod)(t(x)).numpy(), rest)


def test_ties_share_equally() -> None:
    np.testing.assert_array_equal(gradient(wg.max, [1.0, 3.0, 3.0]), [0, 0.5, 0.5])
    np.testing.assert_allclose(gradient(wg.min, [2.0, 2.0, 2.0]), [1 / 3] * 3)
    np.testing.assert_array_equal(gradient(lambda x: wg.maximum(x, 1.0), [1.0, 2.0]), [0.5, 1])
    np.testing.assert_array_equal(gradient(lambda x: wg.minimum(x, x), [1.0]), [1])


def test_extremes_and_clip_carry_nan() -> None:
    assert np.isnan(wg.maximum(t([NAN, 1.0]), t([1.0, NAN])).numpy()).all()
    assert np.isnan(wg.minimum(t([NAN, 1.0]), t([1.0, NAN])).numpy()).all()
    assert np.isnan(wg.clip(t([NAN, 1.0]), t([0.0, NAN]), 2.0).numpy()).all()


def test_std_of_a_constant() -> None:
    np.testing.assert_array_equal(gradient(wg.std, [2.0, 2.0, 2.0]), [0, 0, 0])
    assert wg.std(t([2.0, 2.0])).item() == 0


def test_reductions_of_nothing() -> None:
    nothing = t(np.zeros((0, 3)))
    assert wg.sum(nothing).item() == 0 and wg.prod(nothing).item() == 1
    assert wg.all(nothing).item() and not wg.any(nothing).item()
    assert wg.sum(nothing, axis=0).tolist() == [0, 0, 0] and wg.sum(nothing, axis=1).shape == (0,)
    assert np.isnan(wg.mean(nothing).item()) and np.isnan(wg.var(nothing).item())
    assert gradient(wg.sum, np.zeros((0, 3))).shape == (0, 3)
    assert gradient(wg.prod, np.zeros((0, 3))).shape == (0, 3)
    for extreme in (wg.max, wg.min, wg.argmax):
        with pytest.raises(ValueError, match="no elements"):
            extreme(nothing)
    assert wg.max(nothing, axis=1).shape == (0,)


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("asin", [1.0]), ("acosh", [1.0, 1e200]), ("atanh", [1 - 1e-15]), ("log1p", [-1.0]), ("expm1", [-50.0]),
        ("tanh", [400.0]), ("log", [0.0]), ("erfinv", [1.0]),
    ],
)  # fmt: skip
def test_slopes_at_the_edge_of_a_domain(name: str, points: list[float]) -> None:
    exact = {
        "asin": [INF], "acosh": [INF, 1e-200], "atanh": [1 / ((2 - 1e-15) * (1 - (1 - 1e-15)))], "log1p": [INF],
        "expm1": [np.exp(-50.0)], "tanh": [0.0], "log": [INF], "erfinv": [INF],
    }[name]  # fmt: skip
    np.testing.assert_allclose(gradient(getattr(wg, name), points), exact, rtol=1e-12)


@pytest.mark.parametrize("statistic", [wg.mean, wg.std, wg.norm, wg.logsumexp])
def test_statistics_in_half_precision_do_not_overflow_inside(statistic):
    x = np.full(2000, 200.0)
    x[::2] = -200.0
    expected = statistic(wg.tensor(x)).item()
    assert statistic(wg.tensor(x, dtype=wg.float16)).item() == pytest.approx(expected, rel=2e-3)


# --- formulas made of other ops -------------------------------------------------------------------------------------


def test_sinc_has_every_derivative_at_zero() -> None:
    assert gradient(wg.sinc, 0.0) == 0
    np.testing.assert_allclose(second(wg.sinc, 0.0), -(np.pi**2) / 3, rtol=1e-12)
    below, above = second(wg.sinc, 0.0999 / np.pi), second(wg.sinc, 0.1001 / np.pi)
    np.testing.assert_allclose(below, above, rtol=1e-4)  # the series meets the quotient


def test_xlogy_of_zero_is_zero_and_keeps_nan() -> None:
    found = wg.xlogy(t([0.0, 0.0, 0.0, 1.0]), t([0.0, INF, NAN, 0.0])).numpy()
    np.testing.assert_array_equal(found, [0, 0, NAN, -INF])
    np.testing.assert_array_equal(gradient(lambda x: wg.xlogy(x, t([0.0, 2.0])), [0.0, 1.0]), [0, np.log(2)])
    by_logarithms = gradient(lambda x: wg.xlogy(x, t([2.0, 0.0, INF])), [0.0, 0.0, 0.0])
    np.testing.assert_allclose(by_logarithms, [np.log(2), 0, 0], rtol=1e-6)  # the derivative is log(x2), at 0 too


def test_fmod_has_the_sign_of_the_dividend_and_slope_one_at_zero() -> None:
    x, y = [-3.5, 3.5, -3.5, 3.5, 0.0, 2.0], [2.0, -2.0, -2.0, 2.0, 3.0, INF]
    np.testing.assert_array_equal(wg.fmod(t(x), t(y)).numpy(), np.fmod(x, y))
    np.testing.assert_array_equal(gradient(lambda x: wg.fmod(x, t(y)), x), np.ones(6))


def test_what_replaces_nan_has_no_derivative() -> None:
    x = [1.0, NAN, INF, -INF]
    np.testing.assert_array_equal(gradient(lambda x: wg.nan_to_num(x) * 2, x), [2, 0, 0, 0])
    np.testing.assert_array_equal(gradient(wg.nansum, x[:2]), [1, 0])
    np.testing.assert_array_equal(gradient(wg.nanmean, [1.0, NAN, 3.0]), [0.5, 0, 0.5])
    assert np.isnan(wg.nanmean(t([NAN, NAN])).item())
    np.testing.assert_array_equal(gradient(lambda x: wg.fmax(x, t([2.0, 0.0])), [NAN, 1.0]), [0, 1])


def test_cdist_of_equal_points_has_no_slope() -> None:
    points = np.array([[1.0, 2.0], [4.0, 6.0]])
    found = gradient(lambda x: wg.cdist(x, t(points[:1])), points)
    np.testing.assert_allclose(found, [[0, 0], [0.6, 0.8]])


def test_diag_keeps_nan_and_infinity_on_the_diagonal_only() -> None:
    np.testing.assert_array_equal(wg.diag(t([NAN, INF])).numpy(), [[NAN, 0], [0, INF]])
    assert wg.diag(wg.tensor([True, False])).dtype is wg.bool


def test_isin_of_many_values_is_as_of_few() -> None:
    x, values = np.array([0.5, NAN, 3.0, INF, -1.0]), np.array([*range(12), INF, NAN])
    np.testing.assert_array_equal(wg.isin(t(x), t(values)).numpy(), np.isin(x, values))
    np.testing.assert_array_equal(wg.isin(t(x), t(values[:3])).numpy(), np.isin(x, values[:3]))
    truth = wg.isin(wg.tensor([True, False]), wg.tensor([True] * 9))
    assert truth.tolist() == [True, False]
