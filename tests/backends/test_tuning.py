"""Choosing by measurement, on an emulated GPU with a library of the test's own and a clock that says who is fast."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EMULATED, EmulatedDriver
from tests.backends.test_cuda_program import FakeLibrary
from tests.kernels.emulator import compiler
from wengert.backends.cuda import blas, dnn, libraries
from wengert.cli import main
from wengert.core import cache
from wengert.kernels.matmul import cuda as matmul_cuda
from wengert.plan import cuda_codegen, tuning

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]


class Named(FakeLibrary):
    """One of a library's algorithms."""

    def __init__(self, shape: tuple[int, int, int], name: str) -> None:
        super().__init__(shape)
        self.name = name


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A library with three algorithms for a product, and a cache of the test's own."""
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    monkeypatch.setattr(libraries, "_loaded", {})
    monkeypatch.setattr(matmul_cuda, "is_small", lambda node: False)
    monkeypatch.setattr(cuda_codegen, "OWN", 1)
    monkeypatch.setattr(cuda_codegen, "BESIDE", 1)
    names = ("lib #0", "lib #1", "lib #2")
    monkeypatch.setattr(blas, "candidates", lambda s, device: [Named((s.m, s.n, s.k), name) for name in names])
    return


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The seconds that each candidate takes, by the first words of its name; 1 if none are given."""
    seconds: dict[str, float] = {}

    def timed(bench: libraries.Bench, steps: dict[str, libraries.Step]) -> dict[str, float]:
        for step in steps.values():
            bench.repeated(step)  # they all run
        return {name: next((s for k, s in seconds.items() if name.startswith(k)), 1.0) for name in steps}

    monkeypatch.setattr(libraries, "timed", timed)
    return seconds


def operands() -> tuple[wg.Tensor, wg.Tensor]:
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(5, 7)), rng.normal(size=(7, 3))
    x, y = (wg.tensor(a.astype(np.float32), device="cuda") for a in arrays)
    return x, y


def explained(compiled: wg.Compiled) -> str:
    return str(compiled.explain())


def test_the_winner_runs_and_is_kept_for_later_programs(clock: dict[str, float]) -> None:
    clock["lib #2"] = 0.5
    x, y = operands()
    tuned = wg.compile(lambda x, y: x @ y, tune=True)
    np.testing.assert_allclose(tuned(x, y).numpy(), x.numpy() @ y.numpy(), rtol=1e-5, atol=1e-6)
    text = explained(tuned)
    assert "matmul: lib #2" in text and "2.00 times as fast as lib #0" in text
    assert "1 timed, 0 known before" in text and "tuning took" in text

    later = wg.compile(lambda x, y: (x @ y) * 1)
    later(x, y)
    assert "matmul: lib #2" in explained(later) and "tuning took" not in explained(later)

    stored = json.loads(cache.read("tuned-emulated.json"))
    assert stored["machine"]["device"] == "emulated"
    (key,) = stored["choices"]
    assert key.startswith("matmul") and "m=5" in key and "dtype=float32" in key


def test_our_kernel_may_win(clock: dict[str, float]) -> None:
    clock["ours"] = 0.25
    x, y = operands()
    tuned = wg.compile(lambda x, y: x @ y, tune=True)
    np.testing.assert_allclose(tuned(x, y).numpy(), x.numpy() @ y.numpy(), rtol=1e-5, atol=1e-6)
    assert "4.00 times as fast as lib #0" in explained(tuned) and "lib #0\n" not in explained(tuned)


def test_a_library_may_win_where_our_kernel_takes_the_sums_in(
    clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matmul_cuda, "is_small", lambda node: True)
    clock["lib #1"] = 0.5
    x, y = operands()
    tuned = wg.compile(lambda x, y: wg.relu(x @ y) + 1, tune=True)
    for _ in range(3):
        np.testing.assert_allclose(tuned(x, y).numpy(), np.maximum(x.numpy() @ y.numpy(), 0) + 1, rtol=1e-5, atol=1e-6)
    assert "lib #1" in explained(tuned) and "times as fast as ours" in explained(tuned)


def test_a_close_race_leaves_the_first(clock: dict[str, float]) -> None:
    clock["lib #1"] = 0.98
    tuned = wg.compile(lambda x, y: x @ y, tune=True)
    tuned(*operands())
    assert "matmul: lib #0" in explained(tuned)


def test_without_tuning_or_a_choice_the_first_runs(clock: dict[str, float]) -> None:
    plain = wg.compile(lambda x, y: x @ y)
    plain(*operands())
    assert "matmul: lib #0" in explained(plain) and "fastest" not in explained(plain)


def test_time_that_is_up_leaves_the_rest_untimed(clock: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(1000))
    monkeypatch.setattr(tuning, "perf_counter", lambda: float(next(times)))
    clock["lib #1"] = 0.5

    def two(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
        return (x @ y) @ (y.T @ y)

    tuned = wg.compile(two, tune=2)
    tuned(*operands())
    assert "1 timed" in explained(tuned) and "2 left for want of time" in explained(tuned)


def test_what_was_timed_before_an_interruption_is_kept(
    clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    timed, asked = libraries.timed, list[Any]()

    def interrupted(bench: libraries.Bench, steps: dict[str, libraries.Step]) -> dict[str, float]:
        asked.append(steps)
        if len(asked) > 1:
            raise KeyboardInterrupt
        return timed(bench, steps)

    monkeypatch.setattr(libraries, "timed", interrupted)
    x, y = operands()
    with pytest.raises(KeyboardInterrupt):
        wg.compile(lambda x, y: (x @ y, y.mT @ y), tune=True)(x, y)
    assert len(json.loads(cache.read("tuned-emulated.json"))["choices"]) == 1


@pytest.mark.parametrize("content", ["{", "[]", '{"machine": {}, "choices": {"matmul": 3}}', "\0"])
def test_a_bad_file_is_ignored_with_a_warning(content: str, clock: dict[str, float]) -> None:
    cache.keep("tuned-emulated.json", content.encode())
    plain = wg.compile(lambda x, y: x @ y)
    with pytest.warns(UserWarning, match="not a file of tuned choices"):
        plain(*operands())
    assert "matmul: lib #0" in explained(plain)


def test_a_damaged_file_is_ignored_with_a_warning(clock: dict[str, float]) -> None:
    clock["lib #2"] = 0.5
    wg.compile(lambda x, y: x @ y, tune=True)(*operands())
    file = cache.folder() / "tuned-emulated.json"
    file.write_bytes(file.read_bytes().replace(b"lib #2", b"lib #1"))
    libraries._loaded.clear()
    plain = wg.compile(lambda x, y: x @ y)
    with pytest.warns(UserWarning, match="corrupt and is ignored: tune again"):
        plain(*operands())
    assert "matmul: lib #0" in explained(plain)


def test_choices_of_other_versions_are_ignored_with_a_warning(clock: dict[str, float]) -> None:
    clock["lib #2"] = 0.5
    wg.compile(lambda x, y: x @ y, tune=True)(*operands())
    stored = cache.read("tuned-emulated.json") or b""
    cache.keep("tuned-emulated.json", stored.replace(b'"kernels": "', b'"kernels": "other'))
    libraries._loaded.clear()
    plain = wg.compile(lambda x, y: x @ y)
    with pytest.warns(UserWarning, match="tune again: kernels other"):
        plain(*operands())
    assert "matmul: lib #0" in explained(plain)


def test_a_winner_that_is_gone_gives_way_to_the_first(clock: dict[str, float]) -> None:
    clock["lib #2"] = 0.5
    wg.compile(lambda x, y: x @ y, tune=True)(*operands())
    found = libraries.choices_of(EMULATED)
    found.replace(dict.fromkeys(found.found, "lib #9"))
    plain = wg.compile(lambda x, y: x @ y)
    with pytest.warns(UserWarning, match="lib #9 is no longer a candidate"):
        plain(*operands())
    assert "matmul: lib #0" in explained(plain)


def test_candidates_are_timed_in_turn_and_those_far_behind_once(gpu: EmulatedDriver) -> None:
    order: list[str] = []

    class Recording:
        def __init__(self, name: str) -> None:
            self.name = name

        def replay(self) -> None:
            order.append(self.name)

    class Bench:
        class driver:
            @staticmethod
            def time(work: Recording) -> float:
                work()
                return {"a": 2.0, "b": 1.0, "c": 9.0}[order[-1]]

        @staticmethod
        def repeated(name: str) -> tuple[Recording, int]:
            return Recording(name), 2

    assert libraries.timed(Bench, {n: n for n in "abc"}) == {"a": 1.0, "b": 0.5, "c": 4.5}  # type: ignore[arg-type]
    assert order == [*"abc", *"ab" * (libraries.ROUNDS - 1)]


def test_a_candidate_that_does_not_run_after_all_is_left_out() -> None:
    class Refusing(Named):
        def enqueue(self, stream: int, pointers: list[int], workspace: int) -> None:
            if self.name == "lib #1":
                raise RuntimeError("not with these operands")
            super().enqueue(stream, pointers, workspace)

    found = [Refusing((5, 3, 7), f"lib #{i}") for i in range(3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blas, "candidates", lambda s, device: found)
        tuned = wg.compile(lambda x, y: x @ y, tune=True)
        tuned(*operands())
    assert "fastest of 3" in explained(tuned)  # two of the library's and one of ours


def test_the_command_tunes_a_function_of_a_script(
    clock: dict[str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import wengert as wg\nx = wg.ones((5, 7), device='cuda')\n@wg.compile\ndef square(x):\n    return x @ x.T\n"
    )
    clock["lib #1"] = 0.5
    assert main(["tune", f"{script}:square", "x"]) == 0
    said = capsys.readouterr().out
    assert "1 timed" in said and "matmul: lib #1: fastest of 4" in said
    assert main(["tune", f"{script}:square", "wg.ones((2, 2))"]) == 1
    assert "square ran on the CPU" in capsys.readouterr().err
    assert main(["tune", "digits", "--model", "mlp"]) == 1
    assert "use --device cuda for a GPU" in capsys.readouterr().err


@pytest.mark.parametrize("tune", [-1, "yes", None])
def test_tune_is_true_or_seconds(tune: object) -> None:
    with pytest.raises(wg.errors.ArgumentError, match="tune must be True or a number of seconds"):
        wg.compile(lambda x: x, tune=tune)  # type: ignore[arg-type]


def test_on_the_cpu_there_is_nothing_to_choose() -> None:
    assert wg.compile(lambda x: x @ x, tune=True)(wg.ones((2, 2))).tolist() == [[2.0, 2.0], [2.0, 2.0]]


# --- what cuDNN suggests --------------------------------------------------------------------------------------------


class _Plans:
    """A graph of cuDNN's with these plans."""

    names = ("eng67_k2=1_k13=1_k27=2_k28=4", "eng67_k2=0_k13=1_k27=1_k28=2", "eng67_k2=0_k13=1_k27=8_k28=1")

    def get_plan_name_at_index(self, index: int) -> str:
        return self.names[index]


@pytest.mark.parametrize(
    ("dtype", "channels", "order"),
    [(wg.bfloat16, 512, [1, 0, 2]), (wg.bfloat16, 128, [0, 1, 2]), (wg.float32, 512, [0, 1, 2])],
)
def test_of_wide_convolutions_in_half_precision_the_large_tile_in_pairs_comes_first(
    dtype: Any, channels: int, order: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dnn, "handle", lambda device: None)
    x, weight = (512, channels, 4, 4), (channels, channels, 3, 3)
    shape = dnn.ConvolutionShape("convolve_input", x, weight, x, (1, 1), ((1, 1), (1, 1)), (1, 1), dtype, dtype, True)
    plans = [dnn.CudnnConvolution(_Plans(), index, "cuda:0") for index in range(3)]
    assert [plan.index for plan in dnn.ranked(shape, plans)] == order
