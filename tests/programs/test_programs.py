"""Random programs in every mode: compiled as interpreted, forward mode as reverse mode, and as PyTorch has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.programs import __main__ as command
from tests.programs import check
from tests.programs.builder import random_program
from tests.programs.modes import MODES
from tests.programs.progress import kept_seeds
from wengert.backends.cpu.toolchain import compiler
from wengert.kernels import c
from wengert.ops import exponential

COUNT = 24
needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with")


@needs_compiler
@pytest.mark.parametrize("mode", MODES)
def test_compiled_is_interpreted(mode: str) -> None:
    totals, findings = check.check_compiled(mode, [*kept_seeds(mode), *range(COUNT)], optimised=False)
    assert totals.with_gradients > COUNT / 4 and totals.with_tangents
    assert not findings, findings[0].text + findings[0].problem


@pytest.mark.parametrize("mode", command.WITH_TORCH)
def test_programs_are_as_in_torch(mode: str) -> None:
    pytest.importorskip("torch")
    totals, findings = check.check_torch(mode, [*kept_seeds(f"{mode}-torch"), *range(COUNT)])
    assert totals.refused <= 2
    assert not findings, findings[0].text + findings[0].problem


def test_programs_are_wide() -> None:
    """There are most ops, every dtype, values without axes, empty ones and axes of size 1 among them."""
    programs = [random_program(mode, seed) for mode in MODES for seed in range(40)]
    assert sum(program.second for program in programs) > 5
    nodes = [node for program in programs for node in program.sample.graph.nodes]
    single = [node for node in nodes if not isinstance(node.dtype, tuple)]
    assert len({node.dtype.name for node in single}) == 15
    assert len({node.op.name for node in nodes}) > 115
    assert {0, 1, 2, 3, 4} <= {node.ndim for node in single}
    assert any(node.size == 0 for node in single) and any(1 in node.shape for node in single)


def test_a_program_of_a_seed_is_always_the_same() -> None:
    one, two = random_program("float16", 5), random_program("float16", 5)
    assert one.text == two.text
    assert all(np.array_equal(a, b) for a, b in zip(one.sample.expected, two.sample.expected, strict=True))


def test_tolerances_are_narrow() -> None:
    """What rounding explains is little: half of the values may be off by less than these parts of the largest one."""
    for mode, most in (("float64", 1e-13), ("compile", 1e-4), ("float16", 0.1), ("complex128", 1e-13)):
        allowed = [a for seed in range(30) for a in random_program(mode, seed).sample.allowed]
        assert np.median(allowed) < most


@needs_compiler
def test_a_wrong_kernel_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum that starts from 1, in either way to compile."""
    start = c.source.Writer._start
    wrong = lambda self, total: "1" if total.kind == "sum" else start(self, total)
    monkeypatch.setattr(c.source.Writer, "_start", wrong)
    for mode in ("compile", "float64"):
        _, findings = check.check_compiled(mode, range(100, 100 + COUNT), optimised=False)
        assert findings and "program(" in findings[0].text


def test_a_wrong_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tangent of exp that is not its cotangent."""
    rule = exponential.exp.jvp
    problems = [random_program("float64", seed).problem for seed in range(0, 90, 3)]
    assert not any(problems)
    monkeypatch.setattr(exponential.exp, "jvp", lambda *args, **attrs: 2 * rule(*args, **attrs))
    problems = [random_program("float64", seed).problem for seed in range(0, 90, 3)]
    assert any("forward mode gives" in (problem or "") for problem in problems)


def test_a_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that are done are not run again, findings are kept, and the totals are of all of them."""
    run: list[int] = []

    def checked(against: str, mode: str, seeds: list[int], optimised: bool) -> Any:
        run.extend(seeds)
        wrong = [check.Finding(mode, 100, "wrong", "")] if 100 in seeds else []
        return check.Totals(programs=len(seeds), lines=len(seeds)), wrong

    monkeypatch.setattr(check, "checked", checked)
    monkeypatch.setattr("tests.programs.progress.KEPT", tmp_path / "seeds.json")
    monkeypatch.delenv("WENGERT_CACHE", raising=False)
    places = ["--folder", str(tmp_path / "state"), "--results", str(tmp_path)]
    assert command.main(["--mode", "float16", "--count", "90", *places]) == 0
    assert command.main(["--mode", "float16", "--count", "200", *places]) == 1
    assert run == list(range(200))
    assert kept_seeds("float16") == [100]
    text = next(tmp_path.glob("programs-*.txt")).read_text()
    assert "float16" in text and "200" in text
