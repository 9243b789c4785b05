"""`python -m tests.oracle.mytorch PATH`: the public graders of CMU's new_grad, from a checkout of it at PATH.

    git clone https://github.com/CMU-IDeeL/new_grad PATH
    python -m tests.oracle.mytorch PATH

The graders import a package `mytorch`, the student's answer; here it is `wengert.learn.mytorch`, linked under that
name. They print what failed and "Total score: 51/51"; the exit status is 1 if a point is missing. They need torch.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"


def main(path: Path) -> int:
    """Run the graders over a copy of the answer, and pass on what they print."""
    graders = path / "autograder"
    if not (graders / "runner.py").is_file():
        sys.exit(f"{path} has no autograder/runner.py: it must be a checkout of CMU-IDeeL/new_grad")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "mytorch").symlink_to(SOURCES / "wengert" / "learn" / "mytorch", target_is_directory=True)
        paths = [folder, str(SOURCES), str(graders), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
        call = [sys.executable, str(graders / "runner.py")]
        printed = subprocess.run(call, cwd=folder, env=environment, text=True, capture_output=True, check=False)
    print(printed.stdout + printed.stderr)
    score = re.search(r"Total score: (\d+)/(\d+)", printed.stdout)
    return int(printed.returncode != 0 or score is None or score[1] != score[2])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])) if len(sys.argv) == 2 else __doc__)
