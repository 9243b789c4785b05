"""A term's variant of the exercises: other names, other operations, other hidden cases, drawn from a seed.

`Variant.exercise(name)` is an exercise as this term's students get it. Two terms with different seeds ask for other
rules and spell the engine differently, so that last year's answers do not fit. `draw` makes a variant, `read`
reads a kit's.
"""

from __future__ import annotations

import ast
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from wengert.core.errors import ArgumentError
from wengert.learn import exercises
from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise
from wengert.learn.exercises.gaps import functions_in, with_gaps

FILE = "kit.json"
COUNT = 3  # operations that a term adds
SPELLINGS = {
    "add_operation": ("add_operation", "record_operation", "append_operation", "push_operation"),
    "operation_list": ("operation_list", "operation_tape", "recorded_operations", "wengert_list"),
    "gradients_to_update": ("gradients_to_update", "gradient_sinks", "collected_gradients", "grads_to_accumulate"),
    "gradient_buffer": ("gradient_buffer", "grad_store", "gradient_table", "adjoint_store"),
    "backward_operation": ("backward_operation", "vjp_rule", "pullback", "adjoint_rule"),
    "zero_grad": ("zero_grad", "clear_tape", "forget_gradients", "reset_engine"),
}
SUFFIXES = ("_backward", "_vjp", "_grad", "_adjoint")


@dataclass(frozen=True)
class Variant:
    """What a term changes: spellings, the suffix of rules, operations that are added, and the seed of public cases."""

    term: str
    seed: int
    spellings: dict[str, str]
    suffix: str
    operations: tuple[str, ...]
    public_seed: int

    def exercise(self, name: str) -> Exercise:
        """An exercise in this term's form."""
        exercise = exercises.find(name)
        if name == "mytorch":
            exercise = _with_operations(exercise, self.operations)
        return replace(
            exercise,
            files={path: self.spelled(text) for path, text in exercise.files.items()},
            probes=self.spelled(exercise.probes),
            questions=tuple(self.spelled(question) for question in exercise.questions),
            checks=tuple(self._check(check) for check in exercise.checks),
            public_seed=self.public_seed,
        )

    def spelled(self, text: str) -> str:
        """A text in this term's names."""
        for old, new in self.spellings.items():
            text = re.sub(rf"\b{old}\b", new, text)
        return re.sub(r"\b(\w*[A-Za-z0-9])_backward\b", rf"\1{self.suffix}", text)

    def _check(self, check: Check) -> Check:
        def cases(rng: np.random.Generator) -> Iterator[Case]:
            for case in check.cases(rng):
                inputs, expected = self._spelled_tree(case.inputs), self._spelled_tree(case.expected)
                yield replace(case, inputs=inputs, expected=expected)

        drawn: Cases = cases
        return replace(check, title=self.spelled(check.title), cases=drawn, probe=self.spelled(check.probe))

    def _spelled_tree(self, value: Any) -> Any:
        """Inputs and answers name functions too."""
        if isinstance(value, str):
            return self.spelled(value)
        if isinstance(value, (tuple, list)):
            return type(value)(self._spelled_tree(item) for item in value)
        return value


def draw(term: str, seed: int, course_names: bool = False) -> Variant:
    """A term's variant. `course_names` keeps the spellings of CMU's handout."""
    from wengert.learn.exercises.mytorch.pool import POOL

    rng = np.random.default_rng([seed, zlib.crc32(term.encode())])
    spellings = {old: str(rng.choice(choices)) for old, choices in SPELLINGS.items()}
    suffix = str(rng.choice(SUFFIXES))
    chosen = rng.choice(len(POOL), COUNT, replace=False)
    operations = tuple(POOL[int(k)].name for k in sorted(chosen))
    public_seed = int(rng.integers(2**31))
    if course_names:
        spellings, suffix = {old: old for old in SPELLINGS}, "_backward"
    return Variant(term, seed, spellings, suffix, operations, public_seed)


def write(variant: Variant, folder: Path) -> None:
    """Keep a variant in the instructor's folder."""
    (folder / FILE).write_text(json.dumps(asdict(variant), indent=2) + "\n", encoding="utf-8")


def read(folder: Path) -> Variant:
    """The variant of a kit."""
    path = next((place for place in (folder, folder / FILE, folder / "instructor" / FILE) if place.is_file()), None)
    if path is None:
        raise ArgumentError(f"learn: {folder} has no {FILE}: name the instructor's folder of a kit")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return Variant(**{**found, "operations": tuple(found["operations"])})
    except (ValueError, TypeError, KeyError) as error:
        raise ArgumentError(f"learn: {path} is no kit's file: {error}") from None


def _with_operations(exercise: Exercise, names: tuple[str, ...]) -> Exercise:
    """The exercise `mytorch` with rules added to what students write. Each takes a mark from an activation's."""
    from wengert.learn.exercises.mytorch.pool import POOL

    path = "mytorch/nn/functional.py"
    text = exercise.files[path]
    checks = [replace(check, weight=check.weight - (check.probe == "activation")) for check in exercise.checks]
    for operation in POOL:
        if operation.name not in names:
            continue
        if operation.name in functions_in(ast.parse(text)):
            text = with_gaps(text, (operation.name,))
        else:
            text += operation.stub
        last_rule = max(k for k, check in enumerate(checks) if check.probe == "rule")
        checks.insert(last_rule + 1, Check(operation.title, "rule", operation.cases, 1, checks[last_rule].group))
    return replace(exercise, files={**exercise.files, path: text}, checks=tuple(checks))
