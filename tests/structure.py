"""Figures of the source's structure: `python -m tests.structure` counts them; tests/test_structure.py holds the bounds.

Each function counts one thing, so that a figure in `docs/decisions/one-pipeline.md` can be counted again.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "wengert"
BACK_HALF = ("compiler", "plan", "kernels", "backends", "runtime")


def files(*packages: str) -> Iterator[Path]:
    """The Python files of some packages, or of all."""
    for folder in [SOURCE / package for package in packages] or [SOURCE]:
        yield from sorted(folder.rglob("*.py"))


def code_of(path: Path) -> ast.Module:
    """A file, parsed."""
    return ast.parse(path.read_text())


def comparisons_of_devices() -> list[str]:
    """Comparisons with the literal "cpu" or "cuda" outside of the registry of devices; `torch` has PyTorch's names."""
    found = []
    for path in files():
        if path == SOURCE / "core" / "devices.py" or path.relative_to(SOURCE).parts[0] == "torch":
            continue
        for node in ast.walk(code_of(path)):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                literals = [x for side in sides for x in ast.walk(side) if isinstance(x, ast.Constant)]
                if any(x.value in ("cpu", "cuda") for x in literals):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    return found


def comparisons_of_op_names() -> list[str]:
    """Comparisons with `op.name` in the back half, and lookups by it."""
    found = []
    for path in files(*BACK_HALF):
        for node in ast.walk(code_of(path)):
            parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            parts += [node.slice] if isinstance(node, ast.Subscript) else []
            for part in parts:
                if re.search(r"(^|\.)op\.name$", ast.unparse(part)):
                    found.append(f"{path.relative_to(SOURCE)}:{node.lineno}")
    return found


def hasattr_on_programs() -> list[str]:
    """`hasattr` of something called a program."""
    pattern = re.compile(r"hasattr\(\w*program")
    return [str(path.relative_to(SOURCE)) for path in files() if pattern.search(path.read_text())]


def regular_expressions() -> list[str]:
    """Files of kernels, plan and backends that use regular expressions."""
    return [
        str(path.relative_to(SOURCE))
        for path in files("kernels", "plan", "backends")
        if re.search(r"^import re$", path.read_text(), re.M)
    ]


def reference_counts() -> list[str]:
    """Files that count references, but for the one that may."""
    return [str(p.relative_to(SOURCE)) for p in files() if "getrefcount(" in p.read_text() and p.stem != "ownership"]


def call_it_again() -> tuple[int, int]:
    """Files and lines of calling a compiled function again: `runtime/static`, and the replay of each backend."""
    found = [p for p in files("runtime/static") if p.stem != "__init__"] + sorted(SOURCE.glob("backends/*/replay.py"))
    return len(found), sum(len(path.read_text().splitlines()) for path in found)


def homonyms() -> dict[str, list[str]]:
    """Class names that stand for two things; `learn` carries the names of the course, the others PyTorch's."""
    found: dict[str, list[str]] = {}
    for path in files():
        if path.relative_to(SOURCE).parts[0] in ("learn", "distributions", "torch"):
            continue
        for node in code_of(path).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path.relative_to(SOURCE)))
    return {name: places for name, places in found.items() if len(places) > 1}


def long_files(most: int = 400) -> dict[str, int]:
    """Files of the back half that are longer than that."""
    lengths = {str(p.relative_to(SOURCE)): len(p.read_text().splitlines()) for p in files(*BACK_HALF)}
    return {name: length for name, length in lengths.items() if length > most}


def named_in(op: str) -> list[str]:
    """The files of the project in which an op is named, but for pages, tests, and `torch`, which has others' names."""
    out = subprocess.run(["git", "grep", "-lw", op], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return [name for name in out.split() if not name.startswith(("tests/", "docs/", "src/wengert/torch/"))]


def entered_by_a_first_compile() -> dict[str, set[str]]:
    """By file, the functions that the first call of a compiled training step on a GPU enters, to the built program.

    A class body that is run by a first import counts as a function of its file. Functions that `core.code.function`
    makes from text are in no file, and are left out.
    """
    import wengert as wg
    from tests.replay import adapt

    found: dict[str, set[str]] = {}

    def note(frame: object, event: str, _: object) -> None:
        code = frame.f_code  # type: ignore[attr-defined]
        if event == "call" and code.co_filename.startswith(str(SOURCE) + os.sep):
            found.setdefault(code.co_filename[len(str(SOURCE)) + 1 :], set()).add(code.co_qualname)

    with adapt.without_toolchains():
        wg.config.tier = "interpret"
        wg.manual_seed(0)
        model = wg.nn.Sequential(wg.nn.Linear(64, 32), wg.nn.ReLU(), wg.nn.Linear(32, 10)).to("cuda")
        optimizer = wg.optim.Adam(model.parameters(), lr=1e-3)
        x, y = wg.ones((8, 64), device="cuda"), wg.zeros((8,), dtype=wg.int64, device="cuda")

        @wg.compile
        def train(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
            optimizer.zero_grad()
            loss = wg.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        wg.synchronize()
        wg.config.tier = "compile"
        sys.setprofile(note)
        try:
            train(x, y)
        finally:
            sys.setprofile(None)
    return {name: functions - {"<module>"} for name, functions in sorted(found.items()) if (SOURCE / name).is_file()}


def main() -> None:
    """Print all figures."""
    print("comparisons with cpu or cuda outside the registry:", len(comparisons_of_devices()), comparisons_of_devices())
    print("hasattr on programs:", len(hasattr_on_programs()))
    print("tests of op.name in the back half:", len(comparisons_of_op_names()), comparisons_of_op_names())
    print("files with regular expressions in kernels, plan, backends:", regular_expressions())
    print("files that name logaddexp2:", named_in("logaddexp2"))
    print("call it again, files and lines:", call_it_again())
    print("getrefcount outside of ownership:", reference_counts())
    print("class names that mean two things:", homonyms())
    print("files of the back half over 400 lines:", long_files())
    packages = Counter(path.relative_to(SOURCE).parts[0] for path in files())
    print("files by package:", dict(packages))
    entered = entered_by_a_first_compile()
    print("first CUDA compile of a training step, files:", len(entered), list(entered))
    print("first CUDA compile of a training step, functions:", sum(map(len, entered.values())))


if __name__ == "__main__":
    main()
