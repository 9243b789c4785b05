"""Compare what the compiler generates now with what it generated at another commit.

    python -m tests.replay BASE [--cases REGEX]

BASE is checked out into a temporary worktree, where its own snapshot code compiles its own corpus. Exit status 0: the
same; 1: something changed; 2: BASE cannot be compared. Snapshots of commits are kept in the cache folder.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.replay.compare import compare
from wengert.core import cache

ROOT = Path(__file__).parents[2]
CANNOT = 2


def git(*arguments: str, root: Path = ROOT) -> str:
    """What git prints."""
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def worktree(commit: str, root: Path = ROOT) -> Iterator[Path]:
    """A temporary checkout of a commit; removed at the end, also on failure."""
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        tree = Path(folder) / "base"
        try:
            git("worktree", "add", "--detach", str(tree), commit, root=root)
            yield tree
        finally:
            if tree.exists():
                git("worktree", "remove", "--force", str(tree), root=root)
            git("worktree", "prune", root=root)


def cached(commit: str) -> Path:
    """Where the snapshot of a commit is kept."""
    folder = cache.folder() / "replay"
    cache.make_private(folder)
    return folder / f"{commit}.json"


def taken(tree: Path, cases: str, keep: Path | None) -> dict[str, Any]:
    """The snapshot of a tree by its own code; all of it is kept if there is a place for it."""
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        out = Path(folder) / "snapshot.json"
        command = [sys.executable, "-m", "tests.replay.snapshot", str(out), "--cases", cases]
        subprocess.run(command, cwd=tree, check=True, env={**os.environ, "PYTHONPATH": str(tree / "src")})
        text = out.read_text()
    if keep is not None and not cases:
        part = keep.with_suffix(f".{os.getpid()}")
        part.write_text(text)
        part.replace(keep)
    return dict(json.loads(text))


def of_commit(commit: str, cases: str) -> dict[str, Any]:
    """The snapshot of a commit, from the cache if it is there."""
    from tests.replay.snapshot import environment

    path = cached(commit)
    if path.exists():
        found = json.loads(path.read_text())
        if found["environment"] == environment():
            return dict(found)
    with worktree(commit) as tree:
        return taken(tree, cases, path)


def main(arguments: list[str] | None = None) -> int:
    """Compare, and print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description=__doc__.splitlines()[0])
    parser.add_argument("base", help="a commit")
    parser.add_argument("--cases", default="", help="a regular expression that names must match")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the worktree is removed then, too
    try:
        commit = git("rev-parse", "--verify", f"{options.base}^{{commit}}")
    except subprocess.CalledProcessError:
        print(f"replay: there is no commit {options.base!r}", file=sys.stderr)
        return CANNOT
    if not git("ls-tree", commit, "tests/replay/snapshot.py"):
        print(f"replay: {options.base} has no tests/replay, so there is nothing to compare with", file=sys.stderr)
        return CANNOT
    base = of_commit(commit, options.cases)
    head = git("rev-parse", "HEAD")
    is_clean = not git("status", "--porcelain")
    now = of_commit(head, options.cases) if is_clean and cached(head).exists() else None
    now = now or taken(ROOT, options.cases, cached(head) if is_clean else None)
    report, same = compare(base, now, options.cases)
    print(report)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
