"""A Python with JAX, diffrax and asdex, for benchmarks that stand beside them. It is made when it is first asked for.

It lies in `.venv-jax`, which git ignores, so that the development environment keeps to what Wengert needs.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / ".venv-jax"
PACKAGES = ["jax", "diffrax", "asdex", "scipy"]


def jax_python() -> str:
    """The path of its interpreter."""
    found = FOLDER / "bin" / "python"
    ready = found.exists() and not subprocess.run([found, "-c", "import diffrax, asdex"], check=False).returncode
    if not ready:
        print(f"making {FOLDER.name} with {', '.join(PACKAGES)} ...", file=sys.stderr)
        venv.create(FOLDER, with_pip=True)
        subprocess.run([found, "-m", "pip", "install", "-q", *PACKAGES], check=True)
    return str(found)
