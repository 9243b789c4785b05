"""What the sanitizer is given: a launch list of every kind of kernel, with all the buffers that its launches name."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import pytest

from tests.backends.emulated import IdleDriver, install
from tests.gpu.joined import joined
from tests.gpu.launch_lists import every_launch_list
from tests.gpu.sanitize import outcome, summary, watched
from wengert.backends.cuda.compile import cubin
from wengert.kernels.launch import H200, Launch


def test_every_kind_of_kernel_is_there_with_its_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = IdleDriver()
    idle.properties = H200
    install(monkeypatch, idle)
    headers: set[str] = set()
    reasons: list[str] = []
    for item in every_launch_list(graphs=10, every=60):
        known = {*item.given, *item.empty, *item.work.workspace}
        for launch in item.work.launches:
            reasons.append(launch.why)
            assert known >= set(launch.buffers), item.name
            headers |= {line.split('"')[1] for line in launch.source.splitlines() if line.startswith('#include "')}
    expected = {f"{name}.cuh" for name in ("block", "prebuilt", "gemm_mma", "gemm_wgmma")}
    expected |= {f"attention{rung}.cuh" for rung in ("", "_mma", "_wgmma")}
    assert expected <= headers, headers
    assert sum("transpositions of one text" in why for why in reasons) == 2
    assert any("kernels of one text" in why for why in reasons)  # closings of two norms
    assert any("in shared memory" in why for why in reasons)  # cross-entropy


TEXT = """#include "math.cuh"

static __device__ int twice(int x) { return 2 * x; }
extern "C" __global__ void __launch_bounds__(32)
same(int *y) { *y = twice(%d); }
"""


def test_texts_are_joined_where_nothing_but_includes_comes_first() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")

    def launch(text: str) -> Launch:
        return Launch(text, "same", (1, 1, 1), (32, 1, 1), ("y",))

    apart = "struct wg_shape { int n; };\n" + TEXT % 3
    launches = joined([launch(text) for text in (TEXT % 1, TEXT % 2, TEXT % 1, apart)])
    assert [launch.entry for launch in launches] == ["same_0", "same_1", "same_0", "same"]
    assert launches[0].source == launches[1].source and launches[3].source == apart
    assert cubin(launches[0].source, "90a")


def test_a_share_that_fell_or_was_stopped_is_not_taken_for_a_good_one() -> None:
    good = outcome("launched 0 at 3.0\nlaunched 7 at 4.0\n========= ERROR SUMMARY: 0 errors\n", True, 1.0)
    fell = outcome("launched 0 at 3.0\nSegmentation fault\n", True, 1.0)
    stopped = outcome("launched 0 at 3.0\nlaunched 5 at 9.0\n", False, 1.0)
    assert [(o.launched, o.errors, o.finished) for o in (good, fell, stopped)] == [(7, 0, 1), (0, 1, 1), (5, 0, 0)]
    said = summary("memcheck", [good, fell, stopped], 20)
    assert "12 of 20 launches, 1 errors" in said and "Segmentation fault" in said


def test_at_the_deadline_the_tool_and_what_it_watches_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\necho launched 3 at 9.5\nsleep 60 &\nwait\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = watched("memcheck", tmp_path / "share", perf_counter() + 0.5)
    assert not found.finished and found.launched == 3 and found.seconds < 30
