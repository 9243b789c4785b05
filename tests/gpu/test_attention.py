"""Attention on a GPU, forward and backward, ours and cuDNN's, against the reference in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.test_cuda_attention_partials import trained
from tests.gpu.harness import run, this_device
from tests.kernels.test_attention_cuda import CASES, exact, names_of, node_of
from wengert.backends.cuda import dnn
from wengert.core.dtypes import bfloat16, float16, float32
from wengert.kernels.attention import cuda as attention_cuda
from wengert.kernels.attention.cuda import backward, forward
from wengert.ops.op import picks

LARGER: list[Any] = [
    (((3, 200, 64),) * 3, None, {"causal": True, "scale": 0.125}),
    (((2, 300, 128),) * 3, None, {"causal": True, "scale": 0.09}),
    (((2, 2, 100, 64), (2, 1, 333, 64), (1, 2, 333, 40)), "bool", {"causal": False, "scale": 0.1}),
    (((2, 77, 24), (2, 130, 24), (2, 130, 32)), "added", {"causal": True, "scale": 0.3}),
    (((2, 200, 20), (2, 90, 20), (2, 90, 21)), None, {"causal": True, "scale": 0.3}),
    (((2, 90, 80), (2, 70, 80), (2, 70, 96)), None, {"causal": False, "scale": 0.1}),
]
CLOSE = {float32: 2e-6, float16: 1e-3, bfloat16: 1e-2}


def error(got: Any, want: Any) -> float:
    return float(np.linalg.norm(np.asarray(got, float) - want) / np.linalg.norm(want))


@pytest.mark.parametrize("case", CASES + LARGER, ids=str)
@pytest.mark.parametrize("dtype", [float32, bfloat16, float16], ids=lambda dtype: dtype.name)
def test_our_kernels(dtype: Any, case: Any) -> None:
    y, back = node_of(case, dtype)
    results, arrays = picks(back), {}
    named = names_of(y, arrays)
    lists = forward(y, named, this_device()), backward(back, named, this_device(), dict(enumerate(results)))
    arrays |= {f"n{x.serial}": np.full(x.shape, 99, dtype) for x in (y, *results)}
    for work in lists:
        assert work is not None
        arrays = run(work, arrays)
    for node, want in zip((y, *results), (exact(y), *exact(back))):
        assert error(arrays[f"n{node.serial}"], want) < CLOSE[dtype], f"{case} {node}"
    again = run(lists[1], arrays)
    assert all(again[f"n{x.serial}"].tobytes() == arrays[f"n{x.serial}"].tobytes() for x in results)


@pytest.mark.parametrize("library", ["ours", "cuDNN"])
def test_programs_read_heads_out_of_one_product(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiled gradient, as a model has it: queries, keys and values are columns of one value."""
    if library == "cuDNN" and dnn.library() is None:
        pytest.skip("cuDNN's frontend is not installed")
    monkeypatch.setattr(attention_cuda, "outdoes_libraries", lambda *_: library == "ours")
    rng = np.random.default_rng(0)
    b, t, h, d = 2, 200, 3, 64
    x, seed = rng.standard_normal((b, t, 3 * h * d)), rng.standard_normal((b, h, t, d))

    def gradient(device: str, dtype: Any, compiled: bool) -> Any:
        def loss(x: wg.Tensor) -> wg.Tensor:
            q, k, v = (wg.swapaxes(part.reshape((b, t, h, d)), 1, 2) for part in wg.chunk(x, 3, axis=-1))
            y = wg.scaled_dot_product_attention(q, k, v, is_causal=True)
            weights = wg.tensor(seed, dtype=wg.float32, device=device)
            return (y.astype(wg.float32) ** 2 * weights).sum()  # forward is in the program too, and keeps

        function = wg.compile(wg.grad(loss)) if compiled else wg.grad(loss)
        given = wg.tensor(x, dtype=wg.float32, device=device).astype(dtype)
        return [function(given).astype(wg.float32).numpy() for _ in range(3 if compiled else 1)]

    (want,) = gradient("cpu", wg.float32, False)
    found = gradient("cuda", wg.bfloat16, True)
    assert error(found[0], want) < 2e-2
    assert all((other == found[0]).all() for other in found)


@pytest.mark.parametrize("length", [128, 100])
def test_the_bias_before_it_and_its_gradient(length: int) -> None:
    """cuBLASLt adds the one, and of whole tiles attention's backward leaves the other."""
    for one, other in zip(trained(length, "cuda")[0], trained(length, "cpu")[0]):
        np.testing.assert_allclose(one, other, rtol=0.02, atol=0.02)
