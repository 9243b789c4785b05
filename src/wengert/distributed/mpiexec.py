"""MPI's launcher: which one is installed, how to call it, and how to read its output."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from wengert.core.errors import ArgumentError

PASSED_ON = ("WENGERT_", "OMP_NUM_THREADS", "PYTHON")
"""How the names of variables begin that ranks on other machines need."""


@dataclass(frozen=True)
class Mpiexec:
    """An `mpiexec`: its path, its vendor, and whether its ranks survive the death of another one."""

    path: str
    kind: str
    survives: bool = False

    @property
    def names_the_first(self) -> bool:
        """Whether the process that it names when ranks die is the one that died first; MPICH's may name any of them."""
        return self.kind == "Open MPI"

    def command(
        self, ranks: int, hosts: str, environment: Mapping[str, str], program: Sequence[str], tags: bool
    ) -> list[str]:
        """The command that starts ranks of a program; optionally each output line is tagged with its rank."""
        return [self.path, "-n", str(ranks), *_OPTIONS[self.kind](self, hosts, environment, tags), *program]

    def untagged(self, line: bytes) -> tuple[int | None, bytes]:
        """The rank that wrote a line of output, and the line without its tag; no rank for mpiexec's own messages."""
        match = _TAGS[self.kind].match(line)
        return (int(match[1]), line[match.end() :]) if match else (None, line)


def _open_mpi(found: Mpiexec, hosts: str, environment: Mapping[str, str], tags: bool) -> list[str]:
    """Allow more ranks than cores, and do not bind ranks to one core each: they have threads of their own."""
    options = ["--oversubscribe", "--bind-to", "none", *(["--with-ft", "ulfm"] if found.survives else [])]
    options += ["--output", "tag"] if tags else []
    if hosts:
        passed = [name for name in sorted(environment) if name.startswith(PASSED_ON)]
        options += ["--host", hosts, *(word for name in passed for word in ("-x", name))]
    return options


def _mpich(found: Mpiexec, hosts: str, environment: Mapping[str, str], tags: bool) -> list[str]:
    return [*(["-prepend-pattern", "[%r] "] if tags else []), *(["-hosts", hosts] if hosts else [])]


_OPTIONS: dict[str, Callable[[Mpiexec, str, Mapping[str, str], bool], list[str]]] = {
    "Open MPI": _open_mpi,
    "MPICH": _mpich,
}
_TAGS = {"Open MPI": re.compile(rb"\[\d+,(\d+)\]<std\w+>: ?"), "MPICH": re.compile(rb"\[(\d+)\] ?")}
_CULPRIT = re.compile(r"\bPID (\d+)\b")
_SIGNAL = re.compile(r"\bsignal (\d+)\b")


def find(chosen: str | None = None) -> Mpiexec | None:
    """The chosen mpiexec, or the one of this environment or of the system; None if there is none."""
    if chosen is not None and shutil.which(chosen) is None:
        raise ArgumentError(f"launch: there is no {chosen}")
    beside = os.path.join(sys.prefix, "bin")
    path = shutil.which(chosen) if chosen else shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")
    if path is None:
        return None
    said = _said(path, "--version")
    if "Open MPI" in said or "OpenRTE" in said:
        return Mpiexec(path, "Open MPI", "Fault Tolerance support: yes" in _said(_beside(path, "ompi_info")))
    if "HYDRA" in said or "Intel" in said:
        return Mpiexec(path, "MPICH")
    if chosen is not None:
        raise ArgumentError(f"launch: {chosen} is neither Open MPI's mpiexec nor MPICH's; it says: {said[:200]!r}")
    return None


def _beside(path: str, name: str) -> str:
    return os.path.join(os.path.dirname(path), name)


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def culprit(words: str) -> tuple[int, int | None] | None:
    """The process that ended first and its signal, from mpiexec's last output.

    >>> culprit("process rank 1 with PID 4711 on node b exited on signal 9 (Killed).")
    (4711, 9)
    """
    pid = _CULPRIT.search(words)
    if pid is None:
        return None
    number = _SIGNAL.search(words, pid.end())
    return int(pid[1]), int(number[1]) if number else None


def environment_of_root(found: Mpiexec) -> dict[str, str]:
    """The variables that allow Open MPI to run as root, as in containers."""
    if found.kind != "Open MPI" or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return {}
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
