"""The convention: gradients as PyTorch has them, holomorphic derivatives, and every transform of complex leaves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.complex.cases import complex_
from wengert.core.errors import DTypeError, GradientError

Z = complex_(3)
C = np.array([[1 + 2j, 3 - 1j], [0.5j, 2 + 1j]])
ROW = np.ones((1, 2))


def close(found: Any, expected: Any) -> None:
    """Raise unless a tensor has a value."""
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


# --- the reproductions of the defects -------------------------------------------------------------------------------


def test_gradients_through_complex_values() -> None:
    c, x = wg.tensor(C), wg.tensor(ROW)
    close(wg.grad(lambda x: wg.imag(wg.fft.fft(x))[1])(wg.tensor(np.arange(1.0, 5))), [0, -1, 0, 1])
    close(wg.grad(lambda x: wg.imag(x * 1j).sum())(wg.tensor([0.5, 1.5])), [1, 1])
    close(wg.grad(lambda x: wg.real((x @ c) @ c).sum())(x), [[9.5, 2]])
    close(wg.grad(lambda x: (wg.real(x @ c) ** 2 + wg.imag(x @ c) ** 2).sum())(x), [[42, 22.5]])
    close(wg.grad(lambda x: wg.real(wg.conj(x @ c) @ c).sum())(x), [[10.5, 6]])
    signs = wg.grad(lambda x: wg.real(wg.sign(x @ c)).sum())(x)
    np.testing.assert_allclose(signs.numpy(), [[0.064, -0.064]], atol=1e-3)


def test_a_compiled_gradient_reads_complex_matrices_as_such() -> None:
    function = lambda x: wg.real(x @ wg.tensor(C)).sum()
    close(wg.compile(wg.grad(function))(wg.tensor(np.array([1.0, 2.0]))), [4, 2])


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "all", "any", "var", "std", "trace", "logsumexp"])
def test_reductions_of_complex_values_compile(name: str) -> None:
    z = wg.tensor(C)
    close(wg.compile(getattr(wg, name))(z), getattr(wg, name)(z).numpy())


def test_variances_of_complex_values_are_real() -> None:
    z = np.array([1 + 2j, 3 - 1j, 2.0])
    for name in ("var", "std"):
        found = getattr(wg, name)(wg.tensor(z))
        assert found.dtype is wg.float64
        close(found, getattr(np, name)(z))
        close(getattr(wg, name)(wg.tensor(C), axis=0, keepdims=True), getattr(np, name)(C, axis=0, keepdims=True))


def test_logsumexp_of_complex_values_is_the_principal_logarithm() -> None:
    z = np.array([1 + 3j, 0.5 + 3j, -1 + 2.9j])
    close(wg.logsumexp(wg.tensor(z)), np.log(np.exp(z).sum()))
    close(wg.logsumexp(wg.tensor(z + 1000)), np.log(np.exp(z).sum()) + 1000)


def test_forward_mode_of_a_cast_to_complex() -> None:
    function = lambda x: wg.real(wg.astype(x, wg.complex128)) * 2
    close(wg.jvp(function, (wg.tensor(ROW),), (wg.tensor(ROW),))[1], [[2, 2]])


# --- the gradient of a real number ----------------------------------------------------------------------------------


def test_the_gradient_is_that_by_the_real_part_plus_i_times_that_by_the_imaginary_part() -> None:
    function = lambda z: (wg.real(z) ** 3 + wg.real(z) * wg.imag(z)).sum()
    close(wg.grad(function)(wg.tensor(Z)), 3 * Z.real**2 + Z.imag + 1j * Z.real)


def test_a_step_along_minus_the_gradient_goes_down() -> None:
    loss = lambda z: (wg.abs(z * (1 + 2j) - (3 - 1j)) ** 2).sum()
    z = wg.tensor(Z)
    for _ in range(60):
        z = z - 0.05 * wg.grad(loss)(z)
    close(loss(z), 0)


def test_the_convention_is_that_of_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch, whose convention this is, is not installed")
    other = torch.tensor(Z, requires_grad=True)
    (other.exp() * other.conj() * (1 + 2j)).real.sum().backward()
    mine = wg.tensor(Z, requires_grad=True)
    wg.real(wg.exp(mine) * wg.conj(mine) * (1 + 2j)).sum().backward()
    close(mine.grad, other.grad.numpy())
    seed = complex_(3)
    other = torch.tensor(Z, requires_grad=True)
    other.sin().backward(torch.tensor(seed))
    close(wg.vjp(wg.sin, wg.tensor(Z))[1](wg.tensor(seed))[0], other.grad.numpy())


def test_a_real_leaf_gets_a_real_gradient_of_its_own_dtype() -> None:
    for dtype in (wg.float32, wg.float64):
        x = wg.tensor([1.0, 2.0], dtype)
        gradient = wg.grad(lambda x: wg.abs(x * wg.tensor(C[0]) + 1j).sum())(x)
        assert gradient.dtype is dtype


@pytest.mark.parametrize("dtype", [wg.complex64, wg.complex128])
def test_a_complex_leaf_gets_a_complex_gradient_of_its_own_dtype(dtype: Any) -> None:
    z = wg.tensor(Z, dtype)
    for function in (lambda z: wg.real(z).sum(), lambda z: wg.abs(z).sum(), lambda z: wg.imag(wg.sum(z * z))):
        assert wg.grad(function)(z).dtype is dtype
    assert wg.grad(lambda z: wg.tensor(1.0))(z).dtype is dtype


# --- holomorphic functions ------------------------------------------------------------------------------------------


def test_the_derivative_of_a_holomorphic_function() -> None:
    close(wg.grad(lambda z: z**3, holomorphic=True)(wg.tensor(2 + 1j, wg.complex128)), 3 * (2 + 1j) ** 2)
    value, slope = wg.value_and_grad(lambda z: wg.exp(2j * z), holomorphic=True)(wg.tensor(0.3 + 1j, wg.complex128))
    close(slope, 2j * value.numpy())
    twice = wg.grad(wg.grad(wg.sin, holomorphic=True), holomorphic=True)
    close(twice(wg.tensor(1 + 1j, wg.complex128)), -np.sin(1 + 1j))


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_the_jacobian_of_a_holomorphic_function(mode: str) -> None:
    product = lambda z: wg.tensor(C) @ (z * z)
    found = wg.jacobian(product, mode=mode, holomorphic=True)(wg.tensor(Z[:2]))
    close(found, C * (2 * Z[:2]))


def test_the_hessian_of_a_holomorphic_function() -> None:
    found = wg.hessian(lambda z: (z**3).sum(), holomorphic=True)(wg.tensor(Z))
    close(found, np.diag(6 * Z))


def test_a_holomorphic_function_takes_and_gives_complex_values() -> None:
    for function, at in ((lambda z: wg.abs(z), 1j), (lambda x: x * 1j, 1.0)):
        with pytest.raises(DTypeError, match="holomorphic=True every argument and result must be complex"):
            wg.grad(function, holomorphic=True)(wg.tensor(at))


# --- jacobians ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_jacobians_between_real_and_complex_values(mode: str) -> None:
    x = np.array([0.5, 2.0])
    to_complex = lambda x: wg.tensor(C) @ wg.exp(1j * x)
    close(wg.jacobian(to_complex, mode=mode)(wg.tensor(x)), C * (1j * np.exp(1j * x)))
    to_real = lambda z: wg.real(wg.tensor(C) @ z)
    close(wg.jacobian(to_real, mode=mode)(wg.tensor(Z[:2])), np.conj(C))
    with pytest.raises(DTypeError, match="pass holomorphic=True"):
        wg.jacobian(lambda z: z * z, mode=mode)(wg.tensor(Z))


def test_products_with_the_hessian_of_a_real_function_of_complex_values() -> None:
    """By real coordinates: the Hessian of f(a, b) times (s, t) is the real and the imaginary part of hvp at a + ib."""
    of_parts = lambda a, b: (a**3 * b + wg.sin(a * b)).sum()
    function = lambda z: of_parts(wg.real(z), wg.imag(z))
    tangent = complex_(3)
    found = wg.hvp(function, (wg.tensor(Z),), (wg.tensor(tangent),))
    parts = [wg.tensor(part) for part in (Z.real, Z.imag)]
    by_real, by_imaginary = wg.hvp(of_parts, parts, [wg.tensor(tangent.real), wg.tensor(tangent.imag)])
    close(found, by_real.numpy() + 1j * by_imaginary.numpy())
    with pytest.raises(DTypeError, match="holomorphic"):
        wg.hessian(function)(wg.tensor(Z))


def test_vjp_is_the_adjoint_of_jvp() -> None:
    function = lambda z: wg.exp(z) * wg.conj(z) + wg.abs(z)
    tangent, cotangent = complex_(3), complex_(3)
    moved = wg.jvp(function, (wg.tensor(Z),), (wg.tensor(tangent),))[1].numpy()
    pulled = wg.vjp(function, wg.tensor(Z))[1](wg.tensor(cotangent))[0].numpy()
    np.testing.assert_allclose(np.vdot(pulled, tangent).real, np.vdot(cotangent, moved).real, rtol=1e-12)


def test_tangents_and_cotangents_of_real_values_are_real() -> None:
    x, complex_one = wg.tensor([1.0]), wg.tensor([1j])
    with pytest.raises(DTypeError, match="the tangents: dtype complex64, but the value is float32"):
        wg.jvp(lambda x: x * 1j, (x,), (complex_one,))
    with pytest.raises(DTypeError, match="the cotangent: dtype complex64, but the value is float32"):
        wg.vjp(wg.abs, complex_one)[1](complex_one)


# --- leaves and backward --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 12])
def test_backward_fills_the_gradients_of_complex_leaves(steps: int) -> None:
    """Also where a structure comes back and is compiled."""
    z, w = wg.tensor(Z, requires_grad=True), wg.tensor(np.abs(Z), requires_grad=True)
    for _ in range(steps):
        z.grad = w.grad = None
        (wg.abs(z * w) ** 2).sum().backward()
        close(z.grad, 2 * Z * np.abs(Z) ** 2)
        close(w.grad, 2 * np.abs(Z) ** 3)
        assert w.grad is not None and w.grad.dtype is wg.float64


def test_backward_starts_from_a_real_number() -> None:
    z = wg.tensor(2 + 1j, wg.complex128, requires_grad=True)
    with pytest.raises(GradientError, match="a gradient starts from one real number"):
        (z * z).backward()
    (z * z).backward(wg.tensor(1.0))
    close(z.grad, np.conj(2 * (2 + 1j)))


def test_complex_parameters() -> None:
    weight = wg.nn.Parameter(wg.tensor(Z))
    wg.imag(weight * weight).sum().backward()
    close(weight.grad, np.conj(2 * Z) * 1j)


def test_a_custom_rule_of_a_function_from_real_to_complex() -> None:
    @wg.custom_vjp
    def turned(x: wg.Tensor) -> wg.Tensor:
        return x * (1 + 2j)

    turned.defvjp(lambda x: (turned(x), None), lambda _, g: g * (1 - 2j))
    close(wg.grad(lambda x: wg.imag(turned(x)).sum())(wg.tensor([1.0, 3.0])), [2, 2])


# --- points where there is no derivative ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["abs", "sign", "angle"])
def test_at_zero_the_derivative_is_zero(name: str) -> None:
    loss = lambda z: wg.real(getattr(wg, name)(z)).sum()
    z = wg.tensor(np.array([0j, 1 + 1j]))
    gradient = wg.grad(loss)(z).numpy()
    assert gradient[0] == 0 and np.isfinite(gradient).all()
    second = wg.hvp(loss, (z,), (wg.tensor(np.ones(2, complex)),)).numpy()
    assert second[0] == 0 and np.isfinite(second).all()


@pytest.mark.parametrize("name, at", [("asin", 2), ("acos", -2), ("acosh", 0.5), ("asinh", 2j), ("atan", 0.3j)])
@pytest.mark.parametrize("side", [0.0, -0.0])
def test_on_a_branch_cut_the_derivative_is_that_of_the_side_taken(name: str, at: complex, side: float) -> None:
    on_axis = complex(side, at.imag) if isinstance(at, complex) else complex(at, side)
    along = 1j if isinstance(at, complex) else 1.0
    function = getattr(wg, name)
    found = wg.jvp(function, (wg.tensor(np.array(on_axis)),), (wg.tensor(np.array(along + 0j)),))[1].item()
    step = 1e-6
    moves = [sign * step * along for sign in (1, -1)]
    ends = [  # a sum of complex numbers would lose the sign of a zero
        complex(side, at.imag + move.imag) if isinstance(at, complex) else complex(at + move, side) for move in moves
    ]
    above, below = (function(wg.tensor(np.array(end))).item() for end in ends)
    np.testing.assert_allclose(found, (above - below) / (2 * step), rtol=1e-6, atol=1e-9)
