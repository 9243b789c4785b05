"""Device properties: what a GPU reports about itself."""

from __future__ import annotations

from typing import Any

from wengert.backends.cuda.bindings import check
from wengert.kernels.launch import DeviceProperties


def properties_of(cu: Any, device: Any) -> DeviceProperties:
    """The properties of a GPU that launch shapes follow from."""

    def ask(name: str) -> int:
        attribute = getattr(cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(check(cu.cuDeviceGetAttribute(attribute, device)))

    major, minor = ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")
    return DeviceProperties(
        arch=f"{major}{minor}" + ("a" if major >= 9 else ""),
        sms=ask("MULTIPROCESSOR_COUNT"),
        threads_per_sm=ask("MAX_THREADS_PER_MULTIPROCESSOR"),
        blocks_per_sm=ask("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        registers_per_sm=ask("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        shared_per_sm=ask("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        shared_per_block=ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        l2=ask("L2_CACHE_SIZE"),
        bandwidth=2e3 * ask("MEMORY_CLOCK_RATE") * ask("GLOBAL_MEMORY_BUS_WIDTH") / 8,
    )


def name_of(cu: Any, device: Any) -> str:
    """The vendor's name for a GPU."""
    found = check(cu.cuDeviceGetName(128, device))
    return bytes(found).split(b"\0")[0].decode()
