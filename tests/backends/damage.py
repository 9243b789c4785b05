"""Damage libraries in a cache and run their program in another process: how often is the answer right?

    python -m tests.backends.damage [--flips 60] [--seed 0]

Each trial has a copy of a cache that another process has filled, and damages the program's library in it: bits flipped,
the end cut off, something else in its place. The process that comes then must give the right answer, and end.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

PROGRAM = """
import numpy as np, wengert as wg
x = wg.tensor(np.linspace(-1, 1, 64 * 48, dtype=np.float32).reshape(64, 48))
y = wg.compile(lambda x: wg.softmax(wg.tanh(x @ x.mT), axis=1) + wg.exp(x).sum())(x)
print(y.numpy().tobytes().hex())
"""
SECONDS = 60


def run(folder: Path) -> tuple[int | None, str]:
    """The exit status of the program with this cache, None if it hangs, and what it printed."""
    environment = {**os.environ, "WENGERT_CACHE": str(folder)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout


def flipped(count: int, seed: int) -> Callable[[Path], None]:
    """What flips so many bits of a file, anywhere."""

    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        for bit in random.Random(seed).sample(range(8 * len(content)), count):
            content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)

    return damage


def cut(share: float) -> Callable[[Path], None]:
    """What cuts a file off after a share of it."""
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


def text(path: Path) -> None:
    """Write a text over a file."""
    path.write_text("no library\n")


def directory(path: Path) -> None:
    """Put a folder with a file in the place of a file."""
    path.unlink()
    path.mkdir()
    (path / "file").write_text("in the way")


def fifo(path: Path) -> None:
    """Put a pipe that nobody writes to in the place of a file."""
    path.unlink()
    os.mkfifo(path)


def link(path: Path) -> None:
    """Put a link to itself in the place of a file."""
    path.unlink()
    path.symlink_to(path)


def damages(flips: int, seed: int) -> dict[str, Callable[[Path], None]]:
    """Everything that is tried, by name."""
    sizes = random.Random(seed)
    found = {f"flip {i}": flipped(sizes.randint(1, 32), seed + i) for i in range(flips)}
    shares = (0, 0.01, 0.1, 0.3, 0.5, 0.8, 0.95, 0.999)
    found |= {f"cut {share}": cut(share) for share in shares}
    return found | {"text": text, "directory": directory, "fifo": fifo, "link": link}


def outcome(folder: Path, damage: Callable[[Path], None], want: str) -> str:
    """How a program fares with a damaged library (right, wrong, killed, ...), and whether that is whole now."""
    libraries = sorted((folder / "wengert").glob("*.so"), key=lambda path: path.stat().st_size)
    before = libraries[-1].read_bytes()
    damage(libraries[-1])
    status, printed = run(folder)
    if status is None:
        return "hung"
    if status:
        return f"killed by signal {-status}" if status < 0 else "error"
    is_whole = libraries[-1].is_file() and libraries[-1].read_bytes() == before
    return ("right" if printed == want else "WRONG") + (", rebuilt" if is_whole else "")


def main() -> int:
    """Try all of it and print the counts; the exit status is 1 if an answer was not right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        filled = Path(name) / "filled"
        want = run(filled)[1]
        for case, damage in damages(options.flips, options.seed).items():
            folder = Path(name) / "damaged"
            shutil.copytree(filled, folder)
            counts.setdefault(case.split()[0], Counter())[outcome(folder, damage, want)] += 1
            shutil.rmtree(folder)
    for kind, found in counts.items():
        print(f"{kind:<10} {', '.join(f'{count} {what}' for what, count in found.most_common())}")
    return int(any(not what.startswith("right") for found in counts.values() for what in found))


if __name__ == "__main__":
    sys.exit(main())
