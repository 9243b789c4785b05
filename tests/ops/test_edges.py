"""Edges that test suites of other libraries look at: empty axes, booleans, repeated axes, steps, masks of size 0."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, GradientError, OutOfRangeError
from wengert.learn.mytorch.nn.functional import matmul_backward


@pytest.mark.parametrize("dtype", [wg.bool, wg.uint8, wg.int32, wg.float16, wg.bfloat16, wg.float64, wg.complex64])
@pytest.mark.parametrize("k", [-1, 0, 2])
def test_triangles_keep_the_dtype(dtype: Any, k: int) -> None:
    full = np.ones((3, 4))
    for name in ("tril", "triu"):
        triangle = getattr(wg, name)(wg.ones((3, 4), dtype=dtype), k)
        assert triangle.dtype is dtype
        np.testing.assert_array_equal(triangle.astype(wg.complex64).numpy(), getattr(np, name)(full, k))


def test_a_causal_mask_is_a_mask() -> None:
    mask = wg.tril(wg.ones((4, 4), dtype=wg.bool))
    assert (~mask).astype(wg.int64).sum().item() == 6
    assert wg.arange(16).reshape(4, 4)[mask].shape == (10,)
    assert wg.where(~mask, -wg.inf, wg.zeros((4, 4))).numpy()[0].tolist() == [0.0, -np.inf, -np.inf, -np.inf]


@pytest.mark.parametrize(
    ("a", "b", "axis"), [((1, 2), (1, 1), 1), ((1, 2, 3), (2, 1, 3), -2), ((4, 1), (1, 3), 1), ((2, 3), (2, 3), 1)]
)
def test_cosine_similarity_of_what_broadcasts(a: Any, b: Any, axis: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=a), rng.normal(size=b)
    wide = np.broadcast_arrays(x, y)
    wanted = (wide[0] * wide[1]).sum(axis) / np.prod([np.linalg.norm(v, axis=axis) for v in wide], axis=0)
    found = wg.cosine_similarity(wg.tensor(x), wg.tensor(y), axis=axis)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-12)
    wg.check_grads(lambda x, y: wg.cosine_similarity(x, y, axis=axis), (x, y), order=1)


@pytest.mark.parametrize(
    ("source", "destination"), [((0, 1), (2, 2)), ((0, 1), (2, -1)), ((0, 0), (1, 2)), ((0, -3), (1, 2))]
)
def test_moveaxis_takes_no_axis_twice(source: Any, destination: Any) -> None:
    with pytest.raises(ArgumentError, match="named twice"):
        wg.moveaxis(wg.zeros((2, 3, 4)), source, destination)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3, 0), (0, 4)),
        ((2, 3, 0), (0,)),
        ((4, 2, 3, 0), (0, 4)),
        ((0, 3, 2), (2, 4)),
        ((0, 0), (0, 0)),
        ((3, 0), (0, 2)),
    ],
)
def test_gradients_of_products_over_nothing(a: Any, b: Any) -> None:
    for run in (lambda f: f, wg.compile):
        x, y = wg.ones(a, requires_grad=True), wg.ones(b, requires_grad=True)

        def step(x: Any = x, y: Any = y) -> Any:
            product = x @ y
            product.sum().backward()
            return product.detach()

        assert (run(step)().numpy() == 0).all()
        assert x.grad.shape == a and y.grad.shape == b
    layer = wg.nn.Linear(0, 4)
    layer(wg.ones((2, 3, 0))).sum().backward()
    assert layer.weight.grad.shape == (4, 0) and layer.bias.grad.tolist() == [6.0] * 4


def test_no_difference_is_the_value() -> None:
    x = wg.tensor([1.0, 4.0])
    assert wg.diff(x, n=0, prepend=wg.tensor([9.0]), append=wg.tensor([9.0])).tolist() == [1.0, 4.0]
    assert wg.diff(x, n=1, prepend=wg.tensor([0.0])).tolist() == [1.0, 3.0]


# --- DLPack ---------------------------------------------------------------------------------------------------------


class _Old:
    """A consumer's view of a tensor that asks for no version."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


def test_values_without_memory_of_their_own_go_out_by_dlpack() -> None:
    made = [wg.zeros(3), wg.ones((2, 2)), wg.full((3,), 2.5), wg.broadcast_to(wg.tensor([1.0]), (3,)), wg.arange(3)]
    for value in made:
        for consumer in (_Old(value), value):
            np.testing.assert_array_equal(np.from_dlpack(consumer), value.numpy())
    zeros = wg.zeros(3)
    zeros.__dlpack__(copy=False)  # from now on it has memory of its own, which may be written to
    assert zeros.numpy().tolist() == wg.zeros(3).numpy().tolist() == [0.0] * 3


def test_dlpack_has_the_signature_of_the_standard() -> None:
    parameters = inspect.signature(wg.Tensor.__dlpack__).parameters
    assert list(parameters) == ["self", "stream", "max_version", "dl_device", "copy"]
    assert all(p.kind is p.KEYWORD_ONLY and p.default is None for p in list(parameters.values())[1:])


# --- masks, variances, steps ----------------------------------------------------------------------------------------


def test_a_mask_of_size_0_takes_nothing() -> None:
    assert wg.zeros(1)[wg.zeros(0, dtype=wg.bool)].shape == (0,)
    assert wg.zeros((3, 2))[np.zeros((0, 2), bool)].shape == (0,)
    assert wg.zeros((3, 2))[np.zeros(0, bool)].shape == (0, 2)
    with pytest.raises(OutOfRangeError, match="does not match"):
        wg.zeros(3)[np.zeros(2, bool)]
    with pytest.raises(OutOfRangeError):
        wg.zeros(3)[np.zeros((3, 0), bool)]


@pytest.mark.parametrize("correction", [0, 1, 2.5, 3, 4, 10])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_variance_with_a_large_correction(correction: float) -> None:
    for x in (np.array([1.0, 2.0, 4.0]), np.array([2.0, 2.0, 2.0]), np.array([5.0])):
        with np.errstate(all="ignore"):
            distances, freedom = ((x - x.mean()) ** 2).sum(), max(len(x) - correction, 0)
            wanted = np.float64(distances) / np.float64(freedom)
        np.testing.assert_equal(wg.var(wg.tensor(x), correction=correction).item(), wanted)
        compiled = wg.compile(lambda x: wg.var(x, correction=correction))
        np.testing.assert_equal(compiled(x).item(), wanted)
        np.testing.assert_equal(wg.std(wg.tensor(x), correction=correction).item(), np.sqrt(wanted))


STEPS = {
    "floor": wg.floor,
    "ceil": wg.ceil,
    "trunc": wg.trunc,
    "round": wg.round,
    "floor_divide": lambda x: x // 2.0,
    "by": lambda x: 5.0 // x,
    "beside others": lambda x: wg.floor(x) * 2 + 1,
}


@pytest.mark.parametrize("name", STEPS)
def test_backward_of_a_step_gives_zeros(name: str) -> None:
    for run in (lambda f: f, wg.compile):
        x = wg.tensor([0.3, 1.6, -2.2], requires_grad=True)
        run(lambda x=x: STEPS[name](x).sum().backward())()
        assert x.grad.tolist() == [0.0] * 3
    assert wg.grad(lambda x: STEPS[name](x).sum())(wg.tensor([0.3, 1.6])).tolist() == [0.0] * 2
    assert wg.jvp(STEPS[name], (wg.tensor([0.3]),), (wg.ones(1),))[1].tolist() == [0.0]


def test_what_is_no_float_still_has_no_gradient() -> None:
    x = wg.tensor([0.3, 1.6], requires_grad=True)
    for value in (x > 1, x.argmax(), x.detach() * 2):
        with pytest.raises(GradientError, match="not computed from any tensor that requires grad"):
            value.sum().backward()


def test_forward_mode_looks_at_nothing_behind_a_stop() -> None:
    def f(x: Any) -> Any:
        return x * wg.stop_gradient(wg.real(wg.fft.fft(x)))

    x = wg.tensor(np.array([1.0, 2.0, 3.0]))
    _, tangent = wg.jvp(f, (x,), (wg.ones_like(x),))
    np.testing.assert_allclose(tangent.numpy(), np.fft.fft(x.numpy()).real)


def test_mytorch_takes_matrices_that_are_no_product() -> None:
    a, b = matmul_backward(np.zeros((5, 5)), np.zeros((5, 5)), np.zeros((1, 5)))
    assert a.shape == (5, 1) and b.shape == (5, 5)
    rng = np.random.default_rng(0)
    for left, right in (((2, 3), (3, 4)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4))):
        x, y = rng.normal(size=left), rng.normal(size=right)
        found = matmul_backward(np.ones((x @ y).shape), x, y)
        wanted = wg.grad(lambda x, y: (x @ y).sum(), (0, 1))(wg.tensor(x), wg.tensor(y))
        for mine, theirs in zip(found, wanted):
            np.testing.assert_allclose(mine, theirs.numpy(), rtol=1e-12)


# --- options that PyTorch's samples use ------------------------------------------------------------------------------


@pytest.mark.parametrize("num", [0, 1, 2, 5, 50])
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace_between_tensors(num: int, endpoint: bool) -> None:
    start, stop = np.array([0.1, 2.0]), np.array([[1.3], [-4.0]])
    found = wg.linspace(wg.tensor(start), wg.tensor(stop), num, endpoint=endpoint)
    np.testing.assert_allclose(found.numpy(), np.linspace(start, stop, num, endpoint=endpoint), rtol=1e-14)
    one = wg.linspace(wg.tensor(np.float64(0.1)), 0.7, num, endpoint=endpoint)
    np.testing.assert_allclose(one.numpy(), np.linspace(0.1, 0.7, num, endpoint=endpoint), rtol=1e-14)
    if num > 1 and endpoint:
        assert (found.numpy()[0] == start).all() and (found.numpy()[-1] == stop).all()


def test_linspace_of_tensors_has_a_derivative() -> None:
    wg.check_grads(lambda a, b: wg.linspace(a, b, 5), (np.array(0.3), np.array(2.0)))
    assert wg.linspace(wg.tensor(1), wg.tensor(4), 4).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert wg.linspace(wg.tensor(0.0), 3.9, 4, dtype=wg.int64).tolist() == [0, 1, 2, 3]


def test_hardtanh_between_equal_bounds() -> None:
    assert wg.hardtanh(wg.tensor([-1.0, 0.5, 2.0]), 0.5, 0.5).tolist() == [0.5] * 3
    with pytest.raises(ArgumentError):
        wg.hardtanh(wg.tensor([1.0]), 1.0, 0.5)


def test_gaussian_nll_loss_broadcasts_targets() -> None:
    x, var = wg.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 5.0]]), wg.ones((2, 1))
    for target in (wg.tensor([1.0]), wg.tensor([[1.0], [2.0]]), wg.tensor(0.5)):
        full = wg.broadcast_to(target, (2, 3))
        assert wg.gaussian_nll_loss(x, target, var).item() == wg.gaussian_nll_loss(x, full, var).item()


def test_einsum_sums_over_an_ellipsis_that_the_result_lacks() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_allclose(wg.einsum("...j->j", wg.tensor(x)).numpy(), x.sum((0, 1)))
    np.testing.assert_allclose(wg.einsum("i...->", wg.tensor(x)).numpy(), x.sum())


def test_index_put_at_a_mask() -> None:
    x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert wg.index_put(x, (x > 2,), wg.tensor([8.0, 9.0])).tolist() == [[1.0, 2.0], [8.0, 9.0]]
    assert wg.index_put(x, (wg.tensor([False, True]),), wg.tensor(1.0), accumulate=True).tolist() == [[1, 2], [4, 5]]
    assert wg.index_put(x, (wg.tensor([True, False]), wg.tensor([1])), wg.tensor(0.0)).tolist() == [[1, 0], [3, 4]]
