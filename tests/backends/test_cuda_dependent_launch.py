"""Programs of one long kernel: which are launched so that they follow what is before them, and wait for it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver, IdleDriver, install
from tests.kernels.emulator import compiler
from wengert.kernels.launch import H200, DeviceProperties
from wengert.plan import launches

NAMES: dict[str, Callable[[wg.Tensor], wg.Tensor]] = {
    "elements": lambda x: wg.gelu(x) * wg.sigmoid(x),
    "rows in registers": lambda x: wg.layer_norm(x, (x.shape[1],)),
    "softmax": lambda x: wg.softmax(x, axis=1),
    "sums of rows": lambda x: x.sum(axis=1),
    "transposed": lambda x: x.T + 1.0,
}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel is a long one."""
    monkeypatch.setattr(launches, "LONG", 1)


def source_of(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., wg.Tensor], *shape: int, device: DeviceProperties = H200
) -> str:
    """The text of a function's program on a GPU that does nothing."""
    idle = IdleDriver()
    idle.properties, idle.memory = device, 1 << 38
    install(monkeypatch, idle)
    compiled = wg.compile(function)
    compiled(wg.zeros(shape, device="cuda"))
    return compiled.source()


@pytest.mark.parametrize(
    ("function", "size", "device", "follows"),
    [
        (lambda x: x * 2.0, 8 << 20, H200, True),
        (lambda x: x * 2.0, 1 << 20, H200, False),
        (lambda x: x * 2.0, 8 << 20, replace(H200, arch="89"), False),
        (lambda x: (x * 2.0).sum(), 16 << 20, H200, False),
        (lambda x: x.reshape((-1, 1024)) @ x.reshape((1024, -1)), 4 << 20, H200, False),
    ],
    ids=["a long one", "a short one", "a device that cannot", "two kernels", "a product"],
)
def test_only_long_kernels_that_are_all_of_a_program_follow(
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[..., wg.Tensor],
    size: int,
    device: DeviceProperties,
    follows: bool,
) -> None:
    assert ("wg_follow();" in source_of(monkeypatch, function, size, device=device)) is follows


@pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")
@pytest.mark.usefixtures("short")
def test_they_compute_the_same_when_their_operands_move(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "properties", H200)
    scaled = wg.compile(lambda x: x * 2.0 + 1.0)
    given = [wg.tensor(np.full(9, k, np.float32), device="cuda") for k in range(3)]
    results = [scaled(given[k % 3]) for k in range(20)]
    assert "wg_follow();" in scaled.source() and "when the kernel before it ends" in scaled.explain()
    for k, result in enumerate(results):
        assert (result.numpy() == 2 * (k % 3) + 1).all()


def disassembler() -> str | None:
    """The program that shows what ptxas made of a kernel: a wheel of its own, or a part of the CUDA toolkit."""
    wheel = Path(sysconfig.get_path("purelib"), "nvidia", "cu13", "bin", "nvdisasm")
    return str(wheel) if wheel.exists() else shutil.which("nvdisasm")


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(
    ("name", "arch"), [*((name, "90a") for name in NAMES), ("rows in registers", "100a"), ("elements", "120a")]
)
def test_nothing_is_read_or_written_before_the_wait(
    monkeypatch: pytest.MonkeyPatch, name: str, arch: str, tmp_path: Path
) -> None:
    """As machine code: compilers might move what they take for constant."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    program = disassembler()
    if program is None:
        pytest.skip("there is no nvdisasm: it is in nvidia-cuda-nvdisasm")
    from wengert.backends.cuda.compile import cubin

    source = source_of(monkeypatch, NAMES[name], 512, 1024, device=replace(H200, arch=arch))
    assert "wg_follow();" in source
    (tmp_path / "kernel.cubin").write_bytes(cubin(source, arch))
    shown = subprocess.run([program, str(tmp_path / "kernel.cubin")], capture_output=True, text=True, check=True)
    ops = re.findall(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_.]+)", shown.stdout, re.MULTILINE)
    before = ops[: ops.index("ACQBULK")]
    assert len(before) < len(ops)
    touching = [op for op in before if re.match(r"(LD|ST|ATOM|RED|UBLK|BRA|CALL|LDGSTS|CCTL)", op)]
    assert {op.split(".")[0] for op in touching} <= {"LDC", "LDCU"}, touching  # the arguments
