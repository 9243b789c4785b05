"""Writes an exercise for students: a package with gaps to fill in, the checks, and what to do.

    python -m wengert.learn.handout DIR                      mytorch: build an automatic differentiator
    python -m wengert.learn.handout DIR --exercise ranks     all-reduce from messages, and a sharded optimizer

The gaps are cut out of the package itself, so that the exercise and its solution cannot drift apart. A gap keeps its
function's signature and docstring. `python -m wengert.learn.grade DIR` grades what comes back.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

GAPS = {
    "autograd_engine.py": ("Autograd.add_operation", "Autograd.backward", "Autograd._pass_on"),
    "nn/functional.py": (
        *("sub_backward", "mul_backward", "div_backward", "matmul_backward", "outer_backward", "log_backward"),
        *("exp_backward", "max_backward", "sum_backward", "sigmoid_backward", "tanh_backward"),
        *("SoftmaxCrossEntropy_backward", "_sum_to"),
    ),
    "nn/modules/linear.py": ("Linear.forward",),
    "nn/modules/activation.py": ("Sigmoid.function", "Tanh.function", "ReLU.function"),
    "nn/modules/loss.py": ("MSELoss.function", "SoftmaxCrossEntropy.function"),
}
"""The functions that students of `mytorch` write, by file."""


class Exercise(NamedTuple):
    """A package with gaps, the checks, what to do, and whether it needs Wengert itself."""

    package: str
    gaps: Mapping[str, tuple[str, ...]]
    checks: str
    readme: str
    needs_wengert: bool = False

    def files(self) -> dict[str, str]:
        """What is needed to run the checks, by name: they are for a package that lies beside them."""
        text = (HERE / self.checks).read_text()
        for name in (self.package, "running"):
            text = text.replace(f"from .{name}", f"from {name}")
        return {f"test_{self.package}.py": text, "running.py": (HERE / "running.py").read_text()}


MYTORCH = Exercise("mytorch", GAPS, "exercise.py", "HANDOUT.md")
RANKS = Exercise(
    "ranks",
    {
        "ring.py": ("reduce_scatter_step", "all_gather_step", "all_reduce"),
        "sharded.py": ("new_state", "sharded_step"),
    },
    "exercise_ranks.py",
    "HANDOUT_RANKS.md",
    needs_wengert=True,
)
EXERCISES = {exercise.package: exercise for exercise in (MYTORCH, RANKS)}


def write(folder: Path, exercise: Exercise = MYTORCH) -> None:
    """Write an exercise into a folder that is empty or not there yet."""
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty: the handout would overwrite what is there. Name a new folder")
    package = HERE / exercise.package
    for source in sorted(package.rglob("*.py")):
        name = source.relative_to(package).as_posix()
        target = folder / exercise.package / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(with_gaps(source.read_text(), exercise.gaps.get(name, ())))
    for name, text in exercise.files().items():
        (folder / name).write_text(text)
    (folder / "README.md").write_text((HERE / exercise.readme).read_text())


def with_gaps(text: str, names: tuple[str, ...]) -> str:
    """A module's text, with the bodies of some functions cut out."""
    lines = text.splitlines()
    found = functions_in(ast.parse(text))
    for name in sorted(names, key=lambda name: -found[name].lineno):  # from below, so that line numbers stay right
        first, last = found[name].body[1], found[name].body[-1]  # after the docstring
        gap = f'{" " * first.col_offset}raise NotImplementedError("TODO: {name}")'
        lines[first.lineno - 1 : last.end_lineno] = [gap]
    return "\n".join(lines) + "\n"


def functions_in(module: ast.Module) -> dict[str, ast.FunctionDef]:
    """The functions of a module and the methods of its classes, by name."""
    found = {}
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found.update({f"{node.name}.{part.name}": part for part in node.body if isinstance(part, ast.FunctionDef)})
    return found


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m wengert.learn.handout", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where to write it: a new or empty folder")
    parser.add_argument("--exercise", choices=EXERCISES, default="mytorch", help="which one (default: %(default)s)")
    options = parser.parse_args(arguments)
    exercise = EXERCISES[options.exercise]
    write(options.folder, exercise)
    gaps, name = sum(map(len, exercise.gaps.values())), exercise.package
    print(f"wrote {options.folder}: {name} with {gaps} gaps, test_{name}.py and README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
