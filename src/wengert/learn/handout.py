"""Writes the exercise for students: mytorch with gaps to fill in, the checks, and what to do.

    python -m wengert.learn.handout DIR

The gaps are cut out of `mytorch` itself, so that the exercise and its solution cannot drift apart. A gap keeps its
function's signature and docstring. `python -m wengert.learn.grade DIR` grades what comes back.
"""

from __future__ import annotations

import argparse
import ast
import sys
from pathlib import Path

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
"""The functions that students write, by file."""


def write(folder: Path) -> None:
    """Write the exercise into a folder that is empty or not there yet."""
    if folder.exists() and any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty: the handout would overwrite what is there. Name a new folder")
    for source in sorted((HERE / "mytorch").rglob("*.py")):
        name = source.relative_to(HERE / "mytorch").as_posix()
        target = folder / "mytorch" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(with_gaps(source.read_text(), GAPS.get(name, ())))
    (folder / "test_mytorch.py").write_text(checks())
    (folder / "README.md").write_text((HERE / "HANDOUT.md").read_text())


def checks() -> str:
    """The checks as a file of its own, for a `mytorch` that lies beside it."""
    return (HERE / "exercise.py").read_text().replace("from .mytorch", "from mytorch")


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
    folder = parser.parse_args(arguments).folder
    write(folder)
    gaps = sum(map(len, GAPS.values()))
    print(f"wrote {folder}: mytorch with {gaps} gaps, test_mytorch.py and README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
