"""The exercise `cse`: common subexpression elimination and dead code elimination on a small language."""

from __future__ import annotations

from pathlib import Path

from wengert.learn.exercises.cse import cases
from wengert.learn.exercises.exercise import Check, Exercise, files_in

HERE = Path(__file__).parent
GAPS = {"homework/cse.py": ("key_of", "cse", "dce")}

EXERCISE = Exercise(
    name="cse",
    title="A compiler pass",
    lecture="Recitation 3: ten optimisations",
    lesson="A compiler pass",
    minutes=60,
    marks=15,
    allowed_imports=("math", "typing", "collections", "struct", "itertools"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("cse: repeated lines are computed once", "passes", cases.repeated, 3, rtol=0.0, atol=0.0),
        Check("cse: through chains of repeated lines", "passes", cases.chained, 3, rtol=0.0, atol=0.0),
        Check("cse: operands of commutative ops in either order", "passes", cases.commuted, 2, rtol=0.0, atol=0.0),
        Check("cse: constants, the same to the last bit", "passes", cases.constants, 2, rtol=0.0, atol=0.0),
        Check("cse: two draws stay two draws", "passes", cases.draws, 1, rtol=0.0, atol=0.0),
        Check("dce: what no output needs is gone", "passes", cases.dead, 2, rtol=0.0, atol=0.0),
        Check(
            "both, on drawn programs; the program that was given stays as it was",
            "passes",
            cases.drawn_programs,
            2,
            rtol=0.0,
            atol=0.0,
        ),
    ),
    questions=(
        "Why is one walk enough for `cse`? What would change if lines came in any order?",
        "When is it better to compute an expression twice?",
    ),
)
