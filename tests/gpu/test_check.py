"""`wg.config.check` on the GPU: nothing right is accused, and an illegal access is named with kernel, op and line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import wengert as wg

OUT_OF_BOUNDS = """
import wengert as wg
wg.config.check = {check}
source = 'extern "C" __global__ void far(const float *x, float *y) {{ y[1LL << 40] = x[threadIdx.x]; }}'
far = wg.cuda.kernel(source, "far", grid=1, block=32)
x = wg.ones((32,), device="cuda") + 1
y = far(x) * 2  # the line
y.numpy()
"""


@pytest.fixture
def checking() -> Iterator[None]:
    wg.config.check = True
    yield
    wg.config.check = False


@pytest.mark.parametrize("dtype", [wg.float32, wg.bfloat16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", ["ConvNet", "GPT"])
def test_a_right_step_is_not_accused(checking: None, name: str, dtype: wg.DType) -> None:
    wg.manual_seed(0)
    rng = np.random.default_rng(0)
    if name == "GPT":
        config = wg.models.GPTConfig(vocab_size=67, n_positions=24, n_embd=32, n_layer=2, n_head=2)
        model, tokens = wg.models.GPT(config).to("cuda"), wg.tensor(rng.integers(0, 67, (4, 24)), device="cuda")
        loss_of = lambda: model(tokens[:, :-1], tokens[:, 1:])[1]
    else:
        model = wg.models.ConvNet(5, channels=(8, 16), image_size=12, hidden=32).to("cuda")
        x = wg.tensor(rng.normal(size=(8, 1, 12, 12)).astype(np.float32), device="cuda")
        y = wg.tensor(rng.integers(0, 5, 8), device="cuda")
        loss_of = lambda: wg.cross_entropy(model(x), y)
    # AdamW's first step goes by the sign of a gradient, which half precision does not know of one near 0
    optimizer = (wg.optim.AdamW if dtype is wg.float32 else wg.optim.SGD)(model.parameters(), lr=1e-3)

    @wg.compile
    def step() -> wg.Tensor:
        optimizer.zero_grad()
        with wg.autocast(dtype, enabled=dtype is not wg.float32):
            loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step().item() for _ in range(4)]
    assert losses[-1] < losses[0]


def failing(check: bool) -> str:
    """What a process says whose kernel writes where there is no memory."""
    done = subprocess.run([sys.executable, "-c", OUT_OF_BOUNDS.format(check=check)], capture_output=True, text=True)
    assert done.returncode
    return done.stderr


def test_an_illegal_access_is_named() -> None:
    said = failing(check=True)
    assert "far, which computes cuda_kernel float32[32]: CUDA_ERROR_ILLEGAL_ADDRESS" in said and "<string>:7" in said


def test_without_the_check_an_illegal_access_says_how_to_find_it() -> None:
    assert "wg.config.check = True" in failing(check=False)
