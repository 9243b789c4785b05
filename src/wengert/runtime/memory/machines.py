"""GPUs by name: their memory, and the properties that kernels are planned for. None of them need be installed.

The memory is what the driver reports for an idle GPU (nvidia-smi), slightly less than the nominal size.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from wengert.core.errors import ArgumentError
from wengert.kernels.launch import H200, DeviceProperties

_AMPERE = DeviceProperties("80", 108, 2048, 32, 65536, 167936, 166912, 40 << 20, 1.555e12)
_ADA = DeviceProperties("89", 128, 1536, 24, 65536, 102400, 101376, 72 << 20, 1.008e12)
_TURING = DeviceProperties("75", 40, 1024, 16, 65536, 65536, 65536, 4 << 20, 3.2e11)


class Machine(NamedTuple):
    """A GPU by name: its memory in bytes, and its properties."""

    name: str
    memory: int
    properties: DeviceProperties


MACHINES = (
    Machine("H200", 143771 << 20, H200),
    Machine("H100", 81559 << 20, replace(H200, l2=50 << 20, bandwidth=3.35e12)),
    Machine("A100-80GB", 81920 << 20, replace(_AMPERE, bandwidth=2.039e12)),
    Machine("A100-40GB", 40960 << 20, _AMPERE),
    Machine("L40S", 46068 << 20, replace(_ADA, sms=142, l2=96 << 20, bandwidth=8.64e11)),
    Machine("L4", 23034 << 20, replace(_ADA, sms=58, l2=48 << 20, bandwidth=3e11)),
    Machine("RTX 4090", 24564 << 20, _ADA),
    Machine("RTX 3090", 24576 << 20, replace(_ADA, arch="86", sms=82, blocks_per_sm=16, l2=6 << 20, bandwidth=9.36e11)),
    Machine("RTX 2080 Ti", 11264 << 20, replace(_TURING, sms=68, bandwidth=6.16e11)),
    Machine("T4", 15360 << 20, _TURING),
)
"""The GPUs that `fits` knows."""


def machine(name: str) -> Machine | None:
    """The GPU of this name in any spelling; None for an unknown name, an error for an ambiguous one.

    >>> machine("NVIDIA GeForce RTX 4090").name, machine("a100 80gb").name
    ('RTX 4090', 'A100-80GB')
    """
    asked = _plain(name)
    exact = [known for known in MACHINES if _plain(known.name) == asked]
    if exact:
        return exact[0]
    several = [known.name for known in MACHINES if asked and _plain(known.name).startswith(asked)]
    if len(several) > 1:
        raise ArgumentError(f"fits: {name!r} is ambiguous: {' or '.join(several)}")
    return None


def _plain(name: str) -> str:
    words = name.lower().replace("-", " ").replace("_", " ").split()
    return "".join(word for word in words if word not in ("nvidia", "geforce", "tesla", "sxm", "sxm4", "sxm5", "pcie"))


def host_memory() -> int:
    """The bytes of memory of this machine, or the limit of this process's control group, if that is less."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = Path(path).read_text().strip() if Path(path).exists() else ""
        if limit.isdigit():
            total = min(total, int(limit))
    return total
