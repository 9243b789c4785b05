"""`wengert doctor`: what works is told, what does not with its fix, and the exit status is about the CPU."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from wengert.errors import CompilerError

from wengert import cli
from wengert.backends.cpu import toolchain
from wengert.inspect import doctor, installation


def _examined(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, str], int]:
    """The line of each thing, and the exit status."""
    status = cli.main(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    return {line[8:20].strip(): line for line in lines if line}, status


def test_what_the_cpu_needs_works_here(capsys: pytest.CaptureFixture[str]) -> None:
    lines, status = _examined(capsys)
    assert status == 0
    for name in ("python", "numpy", "compiler", "cache"):
        assert lines[name].startswith("ok "), lines[name]
    assert lines["OpenMP"] == "ok      OpenMP       2 threads ran"
    for name in ("cuda", "GPU", "MPI", "NCCL"):
        assert lines[name].startswith(("ok ", "missing ")), lines[name]


def test_a_missing_compiler_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(toolchain, "compiler", lambda: None)
    lines, status = _examined(capsys)
    assert status == 1
    assert lines["compiler"].startswith("BROKEN") and "Install gcc or clang" in lines["compiler"]


@pytest.mark.parametrize(
    ("said", "broken", "fix"),
    [
        ("fatal error: omp.h: No such file or directory", "OpenMP", "libgomp for gcc"),
        ("ld: cannot find -lgomp", "OpenMP", "libgomp for gcc"),
        ("cc1: internal compiler error", "compiler", "set WENGERT_CC to another compiler"),
    ],
)
def test_a_compiler_is_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str, broken: str, fix: str
) -> None:
    def build(*_: object) -> bytes:
        raise CompilerError(f"cc could not build a kernel: {said}\nThe command: cc -fopenmp")

    monkeypatch.setattr(toolchain, "build", build)
    lines, status = _examined(capsys)
    assert status == 1 and lines[broken].startswith("BROKEN") and fix in lines[broken]


def test_a_cache_that_others_may_change_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "wengert").mkdir()
    (tmp_path / "wengert").chmod(0o777)
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    lines, status = _examined(capsys)
    assert status == 1 and lines["cache"].startswith("BROKEN") and "chmod 700" in lines["cache"]


def test_a_cache_that_cannot_be_written_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path / "file"))
    lines, status = _examined(capsys)
    assert status == 1 and "set WENGERT_CACHE to your own folder" in lines["cache"]


def test_what_is_only_missing_does_not_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installation, "_version", lambda package: "2.4" if package == "numpy" else None)
    monkeypatch.setattr(installation.mpiexec, "find", lambda: None)
    lines, status = _examined(capsys)
    assert status == 0
    assert "mpi4py and mpiexec missing" in lines["MPI"] and "pip install 'wengert[mpi]'" in lines["MPI"]
    assert lines["NCCL"].startswith("missing") and "wengert[nccl]" in lines["NCCL"]


def test_gpus_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = SimpleNamespace(
        cuDeviceGetCount=lambda: (0, 1),
        cuDeviceGet=lambda index: (0, index),
        cuDeviceGetName=lambda length, device: (0, b"NVIDIA H200\0\0\0"),
        cuDeviceTotalMem=lambda device: (0, 139 * 2**30),
    )
    monkeypatch.setattr(doctor.bindings, "bindings", lambda: driver)
    found = doctor._cuda(installation.Diagnosis("cuda", "NVRTC 13.0"))
    assert [finding.line() for finding in found][1] == "GPU          NVIDIA H200, 139 GiB"
