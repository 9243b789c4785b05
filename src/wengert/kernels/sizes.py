"""Sizes in the texts of kernels: constants, for compiled programs, or arguments, for single ops of any shape."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wengert.kernels.launch import Argument, DeviceProperties, Launch

THREADS = 256


def _grid(count: int, device: DeviceProperties) -> tuple[int, int, int]:
    """Blocks for this many independent elements: one thread each, up to what the device holds a few times over."""
    return (max(1, min(-(-count // THREADS), 16 * device.sms)), 1, 1)


class Sizes:
    """The numbers that a text names: constants of it, which divide quickly, or the last arguments of its kernels."""

    def __init__(self, as_arguments: bool, **values: int) -> None:
        self.values, self.as_arguments = values, as_arguments

    @property
    def parameters(self) -> str:
        """The size parameters of kernels, after their own."""
        return "".join(f", wg_count {name}" for name in self.values) if self.as_arguments else ""

    @property
    def passed(self) -> str:
        """The size arguments of functions in the text, after their own."""
        return "".join(f", {name}" for name in self.values) if self.as_arguments else ""

    def launch(
        self, text: str, entry: str, count: int, device: DeviceProperties, arguments: Sequence[Argument]
    ) -> Launch:
        """A launch of a kernel for this many elements."""
        if self.as_arguments:
            head, numbers = "typedef int wg_count;\n", [np.int32(value) for value in self.values.values()]
        else:
            constants = "".join(f"static const wg_count {name} = {value}LL;\n" for name, value in self.values.items())
            head, numbers = f"typedef long long wg_count;\n{constants}", []
        complex = '#include "complex.cuh"\n' if "wg_c64" in text or "wg_c128" in text else ""
        source = f'#include "math.cuh"\n{complex}#include "address.cuh"\n\n{head}{text}'
        given = (*arguments, *numbers)
        return Launch(source, entry, _grid(count, device), (THREADS, 1, 1), given, why=f"{count} elements")
