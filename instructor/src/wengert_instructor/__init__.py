"""Solutions of the exercises of `wengert learn`: `files(name)` returns those of one, by their paths in the handout."""

from __future__ import annotations

from pathlib import Path

SOLUTIONS = Path(__file__).parent / "solutions"


def files(name: str) -> dict[str, str]:
    """The solution of an exercise, a text for each file that is handed in; nothing if it has none here."""
    folder = SOLUTIONS / name
    found = (path for path in sorted(folder.rglob("*.py")) if "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in found}
