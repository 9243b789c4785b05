"""What is said of ranks on a quiet machine, in one run of about three minutes on two cores.

    python benchmarks/ranks_alone.py .venv-mpi-openmpi .venv-mpi-mpich [--parts one,steps] [--out results/FILE]

Each environment has mpi4py and one of the MPIs, as `.ci/run` makes them. The parts:

    one      a mesh of one rank beside none                               `one_rank.py`
    steps    training steps on two ranks beside torch's DDP over gloo     `distributed.py`, with every MPI
    scale    the first of these steps as `wengert scale` predicts it      `scale_step.py`
    saving   how long a checkpoint holds training up                      `saving.py`
    lost     seconds from kill -9 of a rank to the end of all             `lost_ranks.py`, with every MPI
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
PARTS = ("one", "steps", "scale", "saving", "lost")


def commands(part: str, environment: Path) -> list[str]:
    """What a part runs in an environment."""
    python, two = str(environment / "bin/python"), [str(environment / "bin/mpiexec"), "-n", "2"]
    run = {
        "one": [python, "benchmarks/one_rank.py"],
        "steps": [*two, python, "benchmarks/distributed.py", "--rounds", "10"],
        "scale": [python, "-m", "wengert.cli", "scale", "benchmarks/scale_step.py:train"],
        "saving": [*two, python, "benchmarks/saving.py"],
        "lost": [python, "-m", "benchmarks.lost_ranks", "--repeats", "2"],
    }[part]
    return [*run, *(("--ranks", "1,2", "--machine", "here") if part == "scale" else ())]


def main() -> None:
    """Run the parts, one after the other."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("environments", type=Path, nargs="+")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    found = [f"load {os.getloadavg()[0]:.1f} before, {len(os.sched_getaffinity(0))} cores"]
    print(found[0], flush=True)
    for part in options.parts.split(","):
        for environment in [path.absolute() for path in options.environments][
            : None if part in ("steps", "lost") else 1
        ]:
            settings = {
                "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
                "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
                **dict.fromkeys(("OMP_NUM_THREADS", "OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"), "1"),
            }
            start = time.perf_counter()
            done = subprocess.run(
                commands(part, environment),
                cwd=ROOT,
                env=os.environ | settings,
                capture_output=True,
                text=True,
                check=False,
            )
            text = done.stdout if done.returncode == 0 else done.stdout + done.stderr
            found.append(f"--- {part}, {environment.name}, {time.perf_counter() - start:.0f} s\n{text.rstrip()}")
            print(found[-1], flush=True)
    if options.out:
        options.out.write_text("\n".join(found) + "\n")


if __name__ == "__main__":
    main()
