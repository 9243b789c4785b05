"""`python -m tests.oracle.hips PATH`: the tests of HIPS/autograd, from a checkout of it at PATH, on Wengert.

    git clone https://github.com/HIPS/autograd PATH
    python -m tests.oracle.hips PATH [pytest's options]

The tests import a package `autograd`; here `stand_in` answers. Its `numpy` is NumPy itself, so that every function of
NumPy's finds Wengert through `__array_ufunc__` and `__array_function__`. What NumPy does not pass on is Wengert's:
`np.array([x, y])` of traced numbers, `np.r_` and `np.c_`. SciPy's functions have no such protocol, so test_scipy.py is
left out. Tests of autograd's inner workings (boxes, vector spaces) count as failed. The command prints how many
passed, and what failed by file; the exit status is 1 if fewer passed than `LEAST`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

LEAST = 450
ROOT = Path(__file__).parents[3]


def main(path: Path, options: list[str]) -> int:
    """Run the tests with the stand-in, and count."""
    if not (path / "tests" / "test_systematic.py").is_file():
        sys.exit(f"{path} has no tests/test_systematic.py: it must be a checkout of HIPS/autograd")
    paths = [str(ROOT), str(ROOT / "src"), str(path / "tests"), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    call = [sys.executable, "-m", "pytest", "-p", "tests.oracle.hips.stand_in", "-p", "no:cacheprovider"]
    call += [
        "-c",
        os.devnull,
        "--rootdir",
        str(path),
        "-q",
        "-rfE",
        "--tb=line",
        str(path / "tests"),
        f"--ignore={path / 'tests' / 'test_scipy.py'}",
        *options,
    ]
    printed = subprocess.run(call, cwd=path, env=environment, text=True, capture_output=True, check=False).stdout
    failed = re.findall(r"^(?:FAILED|ERROR) (?:tests/)?([\w.]+)", printed, re.M)
    print(printed)
    for name, count in Counter(failed).most_common():
        print(f"{count:4d} failed in {name}")
    passed = re.search(r"(\d+) passed", printed)
    return int(passed is None or int(passed[1]) < LEAST)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]) if len(sys.argv) > 1 else __doc__)
