"""Totals of an attention's cotangents, left by the kernels that make them: the gradient of the bias before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver, IdleDriver, install
from tests.kernels.cores import emulated
from tests.kernels.emulator import compiler
from wengert.kernels.launch import RTX_2080, LaunchList

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")


class WithTensorCores(EmulatedDriver):
    """A GPU of sm_80."""

    def __init__(self) -> None:
        super().__init__()
        self.properties = replace(RTX_2080, arch="80", shared_per_sm=1 << 17, shared_per_block=1 << 17)

    def prepared(self, work: LaunchList) -> LaunchList:
        """Tensor cores are replaced."""
        source = work.launches[0].source
        return emulated(work) if "attention" in source or "gemm_mma" in source else super().prepared(work)


def trained(length: int, device: str) -> tuple[list[np.ndarray], str]:
    """Two steps of attention after a layer with a bias, in bfloat16: its weight and bias, and what is told of them."""
    rng = np.random.default_rng(0)
    draw = lambda *sizes: wg.tensor((rng.normal(size=sizes) * 0.2).astype(np.float32), device=device)
    x, cotangent, weight, bias = draw(2, length, 32), draw(2, length, 128), draw(32, 384), draw(384)

    def forward(weight: Any, bias: Any) -> Any:
        with wg.autocast():
            product = x @ weight
            parts = wg.chunk(product + bias.to(product.dtype), 3, axis=-1)
            heads = (part.reshape((2, length, 2, 64)).permute_dims((0, 2, 1, 3)) for part in parts)
            y = wg.scaled_dot_product_attention(*heads, is_causal=True)
            return y.permute_dims((0, 2, 1, 3)).reshape((2, length, 128))

    @wg.compile
    def train() -> None:
        for slot, gradient in zip((weight, bias), wg.vjp(forward, weight, bias)[1](cotangent.to(wg.bfloat16))):
            slot.assign(slot - 0.1 * gradient)

    train()
    train()
    return [weight.detach().numpy(), bias.detach().numpy()], train.explain()


def use(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this GPU, and the tiers that users have."""
    install(monkeypatch, gpu)
    monkeypatch.setattr(wg.config, "tier", "auto")


@pytest.mark.filterwarnings("ignore:.*cannot be captured:RuntimeWarning")  # by a GPU that does nothing
@pytest.mark.parametrize(("length", "passes"), [(128, 0), (100, 1)])  # of 100 rows some tiles are not whole
def test_the_gradient_of_a_bias_before_an_attention_reads_nothing_again(
    monkeypatch: pytest.MonkeyPatch, length: int, passes: int
) -> None:
    gpu = IdleDriver()
    gpu.properties = replace(RTX_2080, arch="80", shared_per_sm=1 << 17, shared_per_block=1 << 17)
    use(gpu, monkeypatch)
    _, told = trained(length, "cuda")
    assert "attention_by_query" in told and told.count("columns of") == passes


@pytest.mark.slow
@pytest.mark.parametrize("length", [128, 100])
def test_that_gradient_is_the_same_as_on_the_cpu(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    use(WithTensorCores(), monkeypatch)
    for one, other in zip(trained(length, "cuda")[0], trained(length, "cpu")[0]):
        np.testing.assert_allclose(one, other, rtol=0.02, atol=0.02)
