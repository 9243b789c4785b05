"""einops on this package's tensors: the same as on PyTorch's, with gradients; its layers under `wengert torch`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert.torch as ours
from tests.torch.compare import same, same_gradient

einops = pytest.importorskip("einops", reason="einops is not installed")


def image(torch: Any) -> Any:
    return torch.arange(2 * 3 * 4 * 6, dtype=torch.float32).reshape(2, 3, 4, 6)


EXPRESSIONS = {
    "patches": lambda t: einops.rearrange(image(t), "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3),
    "transposed": lambda t: einops.rearrange(image(t), "b c h w -> b h w c"),
    "of a list": lambda t: einops.rearrange([image(t), image(t)], "n b ... -> b n ..."),
    "mean": lambda t: einops.reduce(image(t), "b c (h 2) (w 2) -> b c h w", "mean"),
    "max": lambda t: einops.reduce(image(t), "b c h w -> b c", "max"),
    "min": lambda t: einops.reduce(image(t), "b c h w -> h w", "min"),
    "prod": lambda t: einops.reduce(image(t) / 50, "b c h w -> b", "prod"),
    "any": lambda t: einops.reduce(image(t) > 100, "b c h w -> b c", "any"),
    "sum to nothing": lambda t: einops.reduce(image(t), "... -> ", "sum"),
    "own function": lambda t: einops.reduce(image(t), "b c h w -> b c", lambda x, axes: x.var(dim=axes)),
    "repeat": lambda t: einops.repeat(image(t), "b c h w -> b (c n) h w", n=2),
    "new axis": lambda t: einops.repeat(image(t)[0, 0], "h w -> k h w", k=3),
    "einsum": lambda t: einops.einsum(image(t), image(t), "b c h w, b d h w -> b c d"),
    "pack": lambda t: einops.pack([image(t), image(t)[:, 0]], "b * h w"),
    "unpack": lambda t: einops.unpack(image(t), [(1,), (2,)], "b * h w"),
    "asnumpy": lambda t: einops.asnumpy(image(t)).tolist(),
    "shape": lambda t: sorted(einops.parse_shape(image(t), "b c _ w").items()),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_as_on_pytorchs_tensors(name: str) -> None:
    same(EXPRESSIONS[name])


def test_gradients() -> None:
    x = np.linspace(-1.0, 2.0, 24).reshape(2, 3, 4)
    same_gradient(lambda torch: lambda x: einops.reduce(x, "a b (c d) -> a d", "mean", d=2) ** 2, x)
    same_gradient(
        lambda torch: lambda x: einops.repeat(einops.rearrange(x, "a b c -> (a c) b"), "n b -> n b 2") ** 3, x
    )


def test_parameters_and_views_are_known() -> None:
    x = ours.nn.Parameter(image(ours))
    assert einops.rearrange(x, "b c h w -> (b c) (h w)").shape == (6, 24)
    assert einops.rearrange(x[0], "c h w -> h w c").shape == (4, 6, 3)


def test_plain_tensors_are_refused_as_before() -> None:
    with pytest.raises(RuntimeError, match="unknown to einops"):
        einops.rearrange(object(), "a -> a")


def _runs(program: str, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, *command, program], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("first", ["einops", "wengert.torch"])
def test_whichever_is_imported_first(first: str) -> None:
    lines = ["import einops", "import wengert.torch as torch"]
    lines = lines if first == "einops" else lines[::-1]
    program = "; ".join([*lines, "print(einops.rearrange(torch.zeros(2, 3), 'a b -> b a').shape)"])
    assert "[3, 2]" in _runs(program, "-c")


def test_layers_under_wengert_torch(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, einops\n"
        "from torch import nn\n"
        "from einops.layers.torch import EinMix, Rearrange, Reduce\n"
        "net = nn.Sequential(Rearrange('b c (h p) (w q) -> b (h w) (p q c)', p=2, q=2), nn.Linear(12, 8),\n"
        "    EinMix('b t c -> b t d', weight_shape='c d', bias_shape='d', c=8, d=5), Reduce('b t d -> b d', 'mean'))\n"
        "y = net(torch.ones(2, 3, 4, 6))\n"
        "y.sum().backward()\n"
        "print(tuple(y.shape), all(p.grad is not None for p in net.parameters()), len(list(net.parameters())))\n"
        "print(net[0], tuple(einops.rearrange(y, 'b d -> d b').shape), torch.__name__)\n"
    )
    shown = _runs(str(script), "-m", "wengert.cli", "torch")
    assert "(2, 5) True 4" in shown and "wengert.torch" in shown and "(5, 2)" in shown
