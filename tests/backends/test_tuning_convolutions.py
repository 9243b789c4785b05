"""Convolutions with what follows them, by a library of the test's own on an emulated GPU: who is timed, who runs."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EMULATED
from tests.backends.test_convolution_epilogues import evaluated
from tests.backends.test_tuning import clock, explained
from tests.kernels.emulator import compiler
from wengert.backends.cuda import dnn, libraries
from wengert.ops.convolve import CONVOLVE
from wengert.plan import cuda_codegen

__all__ = ["clock"]

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]


class Plan:
    """A library's candidate for a convolution, and for what follows it."""

    workspace, works = 0, True

    def __init__(self, shape: dnn.ConvolutionShape, index: int) -> None:
        self.shape = shape
        self.name = f"lib #{index}" + (", fused" if shape.then else "")

    def enqueue(self, stream: int, pointers: list[int], workspace: int) -> None:
        then = list(pointers)
        if EMULATED.captured is not None:
            EMULATED.captured.append(lambda: self.convolve(then))
        else:
            self.convolve(then)

    def convolve(self, pointers: list[int]) -> None:
        s = self.shape
        x, weight, y = (_at(p, sizes) for p, sizes in zip((*pointers[:2], pointers[-1]), (s.x, s.weight, s.y)))
        settings = {"stride": s.stride, "padding": s.padding, "dilation": s.dilation}
        sums = CONVOLVE.numpy(x, weight, groups=x.shape[1] // weight.shape[1], **settings)
        if s.then is not None:
            of_a_channel = (1, s.y[1], 1, 1)
            sizes = (of_a_channel if is_channel else s.y for is_channel, _ in s.then.given)
            sums = evaluated(s.then, [sums, *map(_at, pointers[2:], sizes)])
        y[...] = sums


def _at(pointer: int, sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The float32s at an address that have their channels last, channels first."""
    flat = np.ctypeslib.as_array((ctypes.c_float * int(np.prod(sizes))).from_address(pointer))
    return np.moveaxis(flat.reshape(sizes[0], *sizes[2:], sizes[1]), -1, 1)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """A library with two ways for a convolution; the fused ones that were asked for."""
    asked: list[str] = []

    def suggested(shape: dnn.ConvolutionShape, device: str) -> list[Plan]:
        if shape.then is not None:
            asked.append(str(shape.then))
        return [Plan(shape, index) for index in range(2)]

    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    monkeypatch.setattr(libraries, "_loaded", {})
    monkeypatch.setattr(cuda_codegen, "BESIDE", 1)
    monkeypatch.setattr(cuda_codegen, "absorbs", lambda node, device: False)
    monkeypatch.setattr(dnn, "candidates", suggested)
    monkeypatch.setattr(wg.config, "tf32", True)  # by tensor cores channels come last
    yield asked


class Block(wg.nn.Module):
    """Two convolutions with batch norm, what goes past them (by a convolution or not), and one that reads the sum."""

    def __init__(self, shortcut: bool) -> None:
        wg.manual_seed(0)
        self.first, self.second, self.past = (wg.nn.Conv2d(4, 4, 3, padding=1, bias=False) for _ in range(3))
        self.norms = wg.nn.ModuleList([wg.nn.BatchNorm2d(4) for _ in range(3)])
        self.last = wg.nn.Conv2d(4, 3, 3)
        self.shortcut = shortcut
        rng = np.random.default_rng(1)
        for norm in self.norms:
            norm.running_mean.assign(wg.tensor(rng.normal(size=4).astype(np.float32)))
            norm.running_var.assign(wg.tensor(rng.uniform(0.5, 2, 4).astype(np.float32)))

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        past = self.norms[2](self.past(x)) if self.shortcut else x
        y = wg.relu(self.norms[0](self.first(x)))
        return self.last(wg.relu(self.norms[1](self.second(y)) + past))


def answered(shortcut: bool = False, tune: bool = False) -> str:
    """How a block was carried out on the GPU, its answers compared with those of the CPU."""
    model = Block(shortcut).eval()
    x = np.random.default_rng(0).normal(size=(2, 4, 6, 5)).astype(np.float32)
    with wg.no_grad():
        want = model(wg.tensor(x)).numpy()
        model.to("cuda")
        compiled = wg.compile(lambda x: model(x), tune=tune)
        for _ in range(3):
            np.testing.assert_allclose(compiled(wg.tensor(x, device="cuda")).numpy(), want, rtol=1e-4, atol=1e-5)
    return explained(compiled)


@pytest.mark.parametrize("shortcut", [False, True])
def test_the_fused_plan_that_wins_runs_and_is_kept(shortcut: bool, clock: dict[str, float], library: list[str]) -> None:
    assert "fused" not in answered(shortcut) and not library
    clock["lib #1, fused"] = 0.5
    tuned = answered(shortcut, tune=True)
    assert tuned.count(": lib #1, fused") == 2 and "2.00 times as fast as lib #0, then loops" in tuned
    later = answered(shortcut)
    assert later.count(": lib #1, fused") == 2 and "tuning took" not in later


@pytest.mark.parametrize("winner", ["lib #1, then loops", "ours"])
def test_where_loops_win_they_stay(winner: str, clock: dict[str, float]) -> None:
    clock[winner] = 0.5
    tuned = answered(tune=True)
    assert "fused" not in tuned and "2.00 times as fast as lib #0, then loops" in tuned


def test_what_computes_most_is_timed_first_and_of_equals_what_reads_most(clock: dict[str, float]) -> None:
    shapes = {"many": (9, 4, 6, 6), "images": (4, 4, 6, 6), "channels": (1, 8, 6, 6)}
    given = {name: wg.ones(shape, device="cuda") for name, shape in shapes.items()}
    weights = {name: wg.ones((x.shape[1], x.shape[1], 3, 3), device="cuda") for name, x in given.items()}

    def convolved(given: dict[str, wg.Tensor], weights: dict[str, wg.Tensor]) -> list[wg.Tensor]:
        return [wg.conv2d(given[name], weights[name], padding=1) for name in ("images", "channels", "many")]

    wg.compile(convolved, tune=True)(given, weights)
    order = [re.findall(r" x=\((\d+),(\d+)", key)[0] for key in libraries.choices_of(EMULATED).found]
    assert order == [("9", "4"), ("1", "8"), ("4", "4")]
