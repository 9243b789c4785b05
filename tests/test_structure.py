"""The structure of the source stays what `docs/decisions/one-pipeline.md` says of it."""

from __future__ import annotations

import re
import subprocess
import sys

from tests import structure
from wengert.plan.pipeline import STAGES


def test_the_registry_alone_knows_devices_by_name() -> None:
    assert structure.comparisons_of_devices() == []
    assert structure.hasattr_on_programs() == []


def test_an_op_is_one_place() -> None:
    assert structure.comparisons_of_op_names() == []
    assert len(structure.named_in("logaddexp2")) <= 3


def test_no_regular_expression_reads_generated_code() -> None:
    """A GPU's name becomes a file name, and cuDNN's names of its engines are read."""
    assert structure.regular_expressions() == ["backends/cuda/dnn.py", "backends/cuda/libraries.py"]


def test_one_fast_path_and_one_count_of_references() -> None:
    files, lines = structure.call_it_again()
    assert files <= 6 and lines <= 1600
    assert structure.reference_counts() == []


def test_one_word_one_thing() -> None:
    assert structure.homonyms() == {}


def test_files_stay_short() -> None:
    assert structure.long_files() == {}


def test_a_first_compile_enters_few_files() -> None:
    """In a process of its own: a test may not leave a profile hook, nor another's imports, behind."""
    done = subprocess.run(
        [sys.executable, "-c", "from tests import structure; print(len(structure.entered_by_a_first_compile()))"],
        capture_output=True,
        text=True,
        check=False,
        cwd=structure.ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 90


def test_programs_take_plans() -> None:
    """No step pass runs outside of the list: what makes a program from a plan calls no stage."""
    names = {stage.__name__ for stage in STAGES}
    for path in ("backends/cpu/program.py", "backends/cuda/program.py"):
        text = (structure.SOURCE / path).read_text()
        assert not [name for name in names if f"import {name}" in text or f" {name}(" in text]


def test_the_glossary_names_places_that_exist() -> None:
    """In its third column: packages, modules, and names defined in modules."""
    rows = [row for row in (structure.ROOT / "docs/glossary.md").read_text().splitlines() if row.startswith("| **")]
    places = {place for row in rows for place in re.findall(r"`([\w./]+)`", row.rsplit("|", 2)[1])}
    paths = {place: structure.SOURCE / place.replace(".", "/") for place in places}
    lost = [place for place, path in paths.items() if not (path.exists() or path.with_suffix(".py").exists())]
    assert len(places) > 40
    assert [place for place in lost if not _is_defined(place)] == []


def _is_defined(place: str) -> bool:
    """Whether it is a name in a module, such as `core.devices.Target`."""
    module, _, name = place.rpartition(".")
    path = (structure.SOURCE / module.replace(".", "/")).with_suffix(".py")
    return path.exists() and re.search(rf"^(class|def) {name}\b|^{name}\b.* = ", path.read_text(), re.M) is not None
