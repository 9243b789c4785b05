"""Finds what students handed in: folders, tar and zip files, one or many, without trusting what is in them.

`found` lists submissions below a path. An archive is unpacked file by file: plain files that the exercise asks for, of
bounded size, wherever the archive has them.
"""

from __future__ import annotations

import os
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from wengert.core.errors import ArgumentError
from wengert.learn import exercises
from wengert.learn.exercises.exercise import Exercise

LARGEST = 2**20  # bytes of one file that is handed in
ARCHIVES = (".tar", ".tgz", ".tar.gz", ".zip")


def found(path: Path, exercise: Exercise) -> list[Path]:
    """The submissions at a path: itself, if it is one, or else all folders and archives in it."""
    if not path.exists():
        raise ArgumentError(f"learn grade: there is no {path}")
    if path.is_file() or _root(path, exercise) is not None:
        return [path]
    inside = [each for each in sorted(path.iterdir()) if each.is_dir() or each.name.endswith(ARCHIVES)]
    return [each for each in inside if not each.name.startswith((".", "__"))] or [path]


def recognized(paths: list[Path]) -> Exercise:
    """The exercise whose files are at the paths."""
    names = exercises.names()
    for path in paths:
        for folder in [path, *(sorted(path.iterdir()) if path.is_dir() else [])]:
            counts = {name: _count(folder, exercises.find(name)) for name in names}
            best = max(names, key=lambda name: counts[name])
            if counts[best]:
                return exercises.find(best)
    files = ", ".join(f"{exercises.find(name).submission[0]} ({name})" for name in names)
    raise ArgumentError(
        f"learn grade: nothing in {', '.join(map(str, paths))} is of an exercise. The files looked for are {files}. "
        "--exercise NAME says which exercise it is"
    )


def _count(path: Path, exercise: Exercise) -> int:
    """How many of the files that an exercise asks for are there."""
    if path.is_file():
        members = _members(path) if path.name.endswith(ARCHIVES) else []
        return sum(any(_is_at(member, name) for member in members) for name in exercise.submission)
    root = _root(path, exercise)
    return 0 if root is None else sum((root / name).is_file() for name in exercise.submission)


def _root(folder: Path, exercise: Exercise) -> Path | None:
    """The folder that has the files: this one, or the only one in it."""
    if not folder.is_dir():
        return None
    inside = [each for each in folder.iterdir() if each.is_dir() and not each.name.startswith((".", "__"))]
    for root in [folder, *(inside if len(inside) == 1 else [])]:
        if any((root / name).is_file() for name in exercise.submission):
            return root
    return None


@contextmanager
def opened(path: Path, exercise: Exercise) -> Iterator[Path]:
    """A folder with a submission's files, as long as the `with` statement lasts."""
    if path.is_dir():
        yield _root(path, exercise) or path
        return
    with TemporaryDirectory(prefix="wengert-handin-") as place:
        for name in (*exercise.submission, "answers.md"):
            data = _read(path, name)
            if data is not None:
                target = Path(place) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        yield Path(place)


def _is_at(member: str, name: str) -> bool:
    """Whether an archive's member is a file that is asked for, in whatever folder the archive puts everything."""
    parts, wanted = PurePosixPath(member).parts, PurePosixPath(name).parts
    return ".." not in parts and parts[-len(wanted) :] == wanted and len(parts) <= len(wanted) + 2


def _members(path: Path) -> list[str]:
    try:
        if path.name.endswith(".zip"):
            with zipfile.ZipFile(path) as archive:
                return archive.namelist()
        with tarfile.open(path) as bundle:
            return [member.name for member in bundle if member.isfile()]
    except (OSError, tarfile.TarError, zipfile.BadZipFile, EOFError):
        return []


def _read(path: Path, name: str) -> bytes | None:
    """A file of an archive, or None: links and what is too large are not read."""
    places = sorted((member for member in _members(path) if _is_at(member, name)), key=len)
    if not places:
        return None
    if path.name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive, archive.open(places[0]) as file:
            data = file.read(LARGEST + 1)
    else:
        with tarfile.open(path) as bundle:
            reader = bundle.extractfile(places[0])
            data = reader.read(LARGEST + 1) if reader is not None else b""
    return data if len(data) <= LARGEST else None


def name_of(path: Path) -> str:
    """What a submission is called in the results."""
    name = os.path.basename(os.path.normpath(path.resolve()))
    return next((name[: -len(end)] for end in ARCHIVES if name.endswith(end)), name)
