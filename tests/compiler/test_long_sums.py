"""Long sums: as exact as short ones, and right where gcc 12 once made wrong code of them.

It adds floats to a double under a mask in AVX-512 loops and reads a register that was never written: the gradient of a
ResNet's batch norm became NaN. Sums in a loop are therefore of one width; they go on in double from block to block.
Where the user asks for float64 beside narrower numbers, and padding makes masks, loops are not vectorised.
"""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from tests.compiler import fuzz
from tests.compiler.long_rows import long_rows
from wengert.backends.cpu.program import build
from wengert.backends.cpu.toolchain import compiler
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph, now
from wengert.ops.core import placeholder

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def compiled(function, *arrays):
    since = now()
    inputs = [placeholder(array.shape, array.dtype) for array in arrays]
    outputs = [tensor.node for tensor in function(*map(wg.Tensor, inputs))]
    return build(optimize(Graph(inputs, outputs, since))[0])(arrays)


def test_the_gradient_of_batch_norm_after_relu_over_many_pixels():
    rng = np.random.default_rng(0)
    x, shift, weight, bias = (
        rng.standard_normal(s).astype(np.float32) for s in ((32, 64, 16, 16), (32, 64, 16, 16), 64, 64)
    )

    def gradients(x, shift, weight, bias):
        def loss(x, weight, bias):
            return wg.relu(wg.batch_norm(x, None, None, weight, bias, training=True) + shift).sum()

        return wg.grad(loss, (0, 1, 2))(x, weight, bias)

    found = compiled(gradients, x, shift, weight, bias)
    exact = gradients(*(wg.tensor(a.astype(np.float64)) for a in (x, shift, weight, bias)))
    for got, want in zip(found, exact):
        assert np.isfinite(got).all()
        np.testing.assert_allclose(got, want.numpy(), atol=2e-5 * np.abs(want.numpy()).max())


@pytest.mark.parametrize(
    ("shape", "axis"), [((3_000_000,), 0), ((2, 1_000_003), 1), ((200_000, 5), 0), ((3, 5000, 7), (1, 2))]
)
def test_a_long_sum_of_floats_is_as_exact_as_float32_can_say(shape, axis):
    x = np.random.default_rng(1).uniform(0.5, 1.5, shape).astype(np.float32)
    (found,) = compiled(lambda x: [x.sum(axis=axis)], x)
    np.testing.assert_allclose(found, x.astype(np.float64).sum(axis), rtol=3e-7)


@pytest.mark.parametrize("seed", [246, 613])
def test_float64_beside_narrower_numbers_under_guards(seed):
    """One sum was off by half, with AVX2 as with AVX-512: as one number of parts, and across lanes."""
    assert not fuzz.problem_of(long_rows(seed), ("cse", "dce"))


@pytest.mark.parametrize("block", range(2))
def test_reductions_of_mixed_widths(block):
    failures = list(fuzz.fuzz(range(fuzz.UNIT * block, fuzz.UNIT * (block + 1)), long_rows))
    assert not failures, "\n\n".join(str(fuzz.minimised(failure)) for failure in failures)


@pytest.mark.parametrize("shape", [(1000, 700), (33, 4099), (6000, 130), (257, 2049)])
def test_sums_down_the_columns_are_right_whatever_the_shape(shape):
    rng = np.random.default_rng(2)
    x, row = rng.normal(size=shape).astype(np.float32), rng.normal(size=shape[1]).astype(np.float32)

    def sums(x, row):
        y = wg.exp(x) * row
        return y.sum(axis=0), y.max(axis=0) + row, wg.square(y).sum(axis=0), y

    exact = np.exp(x.astype(np.float64)) * row
    found = compiled(sums, x, row)
    for got, want in zip(found, (exact.sum(0), exact.max(0) + row, np.square(exact).sum(0), exact)):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_a_column_with_nan_has_no_largest():
    x = np.zeros((2000, 600), np.float32)
    x[1234, 5] = np.nan
    (found,) = compiled(lambda x: [wg.max(wg.exp(x), axis=0)], x)
    assert np.isnan(found[5]) and np.isfinite(np.delete(found, 5)).all()
