"""`wengert learn simulate`: a class of simulated students, to try the grader on: right, partly wrong, and cheating.

Each student is a change of the solution of `mytorch` (which is part of Wengert): texts that are replaced, or a text put
first or last into a file. The tests grade all of them, and the course's page shows the table.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from wengert.core.errors import ArgumentError
from wengert.learn import exercises

LEARN = Path(__file__).parents[1]
RULES, ENGINE = "mytorch/nn/functional.py", "mytorch/autograd_engine.py"
ACTIVATION, LOSS, LINEAR = (f"mytorch/nn/modules/{name}.py" for name in ("activation", "loss", "linear"))


@dataclass(frozen=True)
class Student:
    """What a student changed: texts replaced in files, a text put first, files left out."""

    name: str
    kind: str  # right, wrong, cheating
    what: str
    replaced: tuple[tuple[str, str, str], ...] = ()
    first: tuple[tuple[str, str], ...] = ()
    left_out: tuple[str, ...] = ()

    def files(self) -> dict[str, str]:
        """What the student hands in: a cheat starts from the untouched handout, the others from the solution."""
        exercise = exercises.find("mytorch")
        submitted = [name for name in exercise.submission if name not in self.left_out]
        solution = {name: (LEARN / name).read_text(encoding="utf-8") for name in submitted}
        found = {name: exercise.files[name] for name in submitted} if self.kind == "cheating" else solution
        for name, old, new in self.replaced:
            if old not in found[name]:
                raise LookupError(f"{self.name}: {name} does not contain {old!r}")
            found[name] = found[name].replace(old, new)
        for name, text in self.first:
            future = "from __future__ import annotations\n"
            found[name] = found[name].replace(future, f"{future}\n{text}\n", 1)
        return found


ZEROS = """
def zeros(grad_output, *inputs):
    found = tuple(np.zeros(np.shape(x)) for x in inputs)
    return found[0] if len(found) == 1 else found


sub_backward = mul_backward = div_backward = matmul_backward = outer_backward = log_backward = zeros
exp_backward = max_backward = sum_backward = add_backward = zeros
"""


def _wrong(name: str, what: str, *replaced: tuple[str, str, str]) -> Student:
    return Student(name, "wrong", what, replaced)


def _cheat(name: str, what: str, text: str, file: str = RULES) -> Student:
    """Code that runs when a file is imported, in a submission whose rules are all missing."""
    return Student(name, "cheating", what, first=((file, text),))


STUDENTS = (
    Student("ada", "right", "the solution"),
    Student(
        "blaise",
        "right",
        "the solution, other names and loops",
        replaced=((RULES, "return grad_output * np.exp(a)", "powers = np.exp(a)\n    return powers * grad_output"),),
    ),
    _wrong("carl", "relu' is 1 at 0", (RULES, "grad_output * (a > 0)", "grad_output * (a >= 0)")),
    _wrong(
        "dorothy",
        "backward does not clear what an earlier walk left",
        (
            ENGINE,
            "self.gradient_buffer.set_param(operation.output, np.zeros(np.shape(operation.output)))",
            "pass",
        ),
    ),
    _wrong(
        "emmy",
        "matmul for matrices only",
        (RULES, "    if a.ndim == b.ndim == 2:\n", "    if True:\n"),
    ),
    _wrong("felix", "a wrong sign in a / b", (RULES, "-grad_output * a / b / b", "grad_output * a / b / b")),
    _wrong("grace", "= instead of += for parameters", (ENGINE, "collected += share", "collected[...] = share")),
    _wrong("henri", "exp in the loss overflows", (LOSS, "y_hat - y_hat.max(axis=-1, keepdims=True)", "1.0 * y_hat")),
    _wrong("ida", "broadcast axes of length 1 are forgotten", (RULES, "if n == 1]", "if n == 0]")),
    _wrong(
        "james",
        "writes into the incoming gradient",
        (RULES, "    return grad_output * np.exp(a)", "    grad_output *= np.exp(a)\n    return grad_output"),
    ),
    Student("katherine", "wrong", "forgot to hand in the losses", left_out=(LOSS,)),
    _wrong("leo", "a syntax error", (LINEAR, "product = x @ self.W.T", "product = x @@ self.W.T")),
    _cheat(
        "mallory",
        "prints full marks and leaves",
        'import os\nprint("ok  50 of 50 marks")\nprint(\'{"scores": {"Autograd": 50}}\', flush=True)\nos._exit(0)',
    ),
    _cheat(
        "nick",
        "imports the solution from the installation",
        "import sys\nsys.path += ['/usr/lib/python3/dist-packages']\nfrom wengert.learn.mytorch.nn.functional import *",
    ),
    Student(
        "oscar",
        "cheating",
        "makes np.allclose say yes, and all rules return zeros",
        first=((RULES, "import numpy as np\nnp.allclose = np.array_equal = lambda *a, **k: True"),),
        replaced=((RULES, "def _spread(", f"{ZEROS}\n\ndef _spread("),),
    ),
    _cheat("peggy", "never ends", "while True:\n    pass"),
    _cheat(
        "quentin",
        "leaves a process behind",
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(3600)",
    ),
    _cheat("roger", "takes all memory", "import numpy as np\n_kept = [np.ones(2**28) for _ in range(64)]"),
)


def write(folder: Path) -> None:
    """Write the class into a folder that is empty or not there yet, a folder for each student."""
    if folder.exists() and any(folder.iterdir()):
        raise ArgumentError(f"{folder} is not empty: name a new folder")
    for student in STUDENTS:
        for name, text in student.files().items():
            target = folder / student.name / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("folder", type=Path, help="where to write the submissions: a new or empty folder")


def run(options: argparse.Namespace) -> int:
    """The command."""
    write(options.folder)
    print(f"wrote {options.folder}: {len(STUDENTS)} submissions of mytorch")
    for student in STUDENTS:
        print(f"  {student.name:<10} {student.kind:<9} {student.what}")
    print(f"grade them: wengert learn grade {options.folder} --similarity")
    return 0
