"""Target: what a graph is compiled for, as passes and plan stages see it.

It is a value, passed to every pass and stage; nothing about the device or the settings is read from anywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wengert.kernels.launch import Device


@dataclass(frozen=True)
class Target:
    """A device and the settings that what is generated for it depends on."""

    device: str = "cpu"
    properties: Device | None = None  # of a GPU: the figures that launch shapes follow from
    tf32: bool = False  # whether tensor cores may round float32
    budget: int | None = None  # bytes that intermediate values should take at most; None: what they take

    @property
    def launches(self) -> bool:
        """Whether kernels are launched on a device of their own, and do not run as functions of one program."""
        return self.properties is not None


HOST = Target()
"""The CPU, with the settings as they are by default."""
