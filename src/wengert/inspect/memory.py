"""The memory that values take during a profile: the peak, and what held it."""

from __future__ import annotations

import functools
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from wengert import cuda
from wengert.core import devices
from wengert.core.code import describe
from wengert.core.graph import Node, describe_type
from wengert.runtime.debug.explain import bytes_text, fullest, size_of

Holder = tuple[int, str, str]  # bytes, what, the line


class MemoryWatch:
    """The live arrays by identity, and a list of those that were alive at the peak."""

    def __init__(self) -> None:
        self.peak = 0
        self.at_peak: list[Holder] = []
        self.gpus: list[tuple[cuda.Memory, list[tuple[str, int]]]] = []  # as they were at the end, and by line
        self._live: dict[int, tuple[ref[Any], Holder]] = {}
        self.now = 0  # bytes of the arrays that ops gave and that are still there
        self._programs: WeakKeyDictionary[Any, list[Holder]] = WeakKeyDictionary()

    def made(self, result: Any, node: Node) -> None:
        """Called when an op returned one or several arrays."""
        for array in result if isinstance(result, tuple) else (result,):
            if not isinstance(array, np.ndarray) or array.base is not None or id(array) in self._live:
                continue
            number = id(array)
            holder = (array.nbytes, f"{node.op.name} {describe_type(node)}", describe(node.location))
            self._live[number] = (ref(array, functools.partial(self._freed, number)), holder)
            self.now += array.nbytes
            self._look(())

    def _freed(self, number: int, _: ref[Any]) -> None:
        self.now -= self._live.pop(number)[1][0]

    def ran(self, program: Any) -> None:
        """Called when a compiled program runs: count its outputs, and what its arena holds when it is fullest."""
        if program not in self._programs:
            peak = fullest(program)
            made = [(size_of(n), f"{n.op.name} {describe_type(n)}", describe(n.location)) for n in program.made]
            self._programs[program] = [*made, *(peak.values if peak is not None else [])]
        self._look(self._programs[program])

    def look_at_gpus(self) -> None:
        """Record what the GPUs in use hold."""
        found = [cuda.memory(name) for name in devices.in_use()]
        self.gpus = [(held, held.by_line) for held in found]

    def _look(self, more: Any) -> None:
        total = self.now + sum(size for size, _, _ in more)
        if total > self.peak:
            if total > 1.01 * self.peak:  # so that few lists are made
                self.at_peak = [*(holder for _, holder in self._live.values()), *more]
            self.peak = total

    def text(self, top: int = 3) -> str:
        """The peak, and the largest values at it."""
        lines = [f"memory: at most {bytes_text(self.peak)} at once; of this"]
        largest = sorted(self.at_peak, reverse=True)[:top]
        lines += [f"  {bytes_text(size):>10}  {what}  {where[:80]}" for size, what, where in largest]
        for held, by_line in self.gpus:
            most = f"{bytes_text(held.peak)} at most, {bytes_text(held.arena)} for programs to work in"
            lines.append(f"{held.device}: tensors hold {bytes_text(held.live)}, {most}; by line")
            lines += [f"  {bytes_text(size):>10}  {line}" for line, size in by_line[:top]]
        return "\n".join(lines)
