"""A single op on a GPU by kernels that take its sizes as arguments: loaded launches that are bound to arrays.

Unlike a program it has no plan: operands and results are separate arrays, and temporaries lie in the arena. A scalar
operand on the host is passed as a kernel argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.backends.cuda.calls import KernelCall
from wengert.backends.cuda.memory import DeviceArray, afforded, opened, unchecked, upload
from wengert.core.code import describe
from wengert.core.evaluation import watch
from wengert.core.graph import Node
from wengert.kernels.launch import ERROR_FLAG, LaunchList, Number


class SingleOpKernel:
    """The launches of one op for its shapes; call it with arrays for the operands."""

    def __init__(self, node: Node, work: LaunchList, device: str) -> None:
        self.shape, self.dtype, self.device, self.launches = node.shape, node.dtype, device, work.launches
        self.driver = opened(device)
        self.source = "\n".join(dict.fromkeys(launch.source for launch in work.launches))
        self.checks = any(ERROR_FLAG in launch.buffers for launch in work.launches)
        self.offsets: dict[str, int] = {}
        self.arena_size = 0
        for name, size in work.workspace.items():
            self.offsets[name] = self.arena_size
            self.arena_size += -(-size // 256) * 256
        self.calls: list[KernelCall] | None = None
        self.addresses: dict[str, list[tuple[KernelCall, int]]] = {}  # by buffer: the arguments that are its address
        self.numbers: dict[str, list[tuple[KernelCall, int]]] = {}  # by buffer: the arguments that hold its value
        self.sizes: dict[str, int] = {}  # by buffer: the bytes that such an argument takes
        self.bound: dict[str, int | bytes] = {}  # by buffer: the address or the number that the arguments are

    def _connect(self) -> list[KernelCall]:
        """Load the kernels, and record where each buffer is an argument."""
        functions = self.driver.kernels(self.launches)
        arena = afforded(self.driver.arena, self.arena_size, self.device) if self.arena_size else 0
        calls: list[KernelCall] = []
        for launch in self.launches:
            call = KernelCall(functions[launch.source, launch.entry], launch, self.driver.encode, len(calls))
            calls.append(call)
            for position, argument in enumerate(launch.arguments):
                if isinstance(argument, Number):
                    self.numbers.setdefault(argument.buffer, []).append((call, position))
                    self.sizes[argument.buffer] = argument.size
                elif argument == ERROR_FLAG:
                    call.arguments.set(position, self.driver.error_flag())
                elif isinstance(argument, str) and argument in self.offsets:
                    call.arguments.set(position, arena + self.offsets[argument])
                elif isinstance(argument, str):
                    self.addresses.setdefault(argument, []).append((call, position))
        return calls

    def __call__(self, arrays: Sequence[Any], node: Node) -> DeviceArray:
        """The result for a node, computed from arrays of its operands."""
        with self.driver.lock:
            self.driver.make_current()
            if self.calls is None:
                self.calls = self._connect()
            result = DeviceArray(self.shape, self.dtype, self.device)
            held = [self._bind(f"x{k}", array) for k, array in enumerate(arrays)]  # until all is on the stream
            self._bind("y", result)
            if self.checks:
                unchecked.setdefault(self.device, {})[f"{node.op.name} at {describe(node.location)}"] = None
            if watch.observer is None:
                for call in self.calls:
                    call.enqueue(self.driver)
            else:
                watch.observer.ran_steps(self, [self._timed(call) for call in self.calls])
            del held
            return result

    def _timed(self, call: KernelCall) -> tuple[int, Any, Any]:
        start = self.driver.event()
        call.enqueue(self.driver)
        return call.step, start, self.driver.event()

    def _bind(self, name: str, array: Any) -> Any:
        """Bind an array, or a number, to the launches that read it."""
        if type(array) is not DeviceArray and array.nbytes != self.sizes.get(name):
            array = upload(array, self.device)
        value = array.pointer if type(array) is DeviceArray else array.tobytes()
        if self.bound.get(name) != value:
            self.bound[name] = value
            is_number = type(value) is bytes
            for call, position in self.addresses.get(name, ()):
                call.arguments.set(position, 0 if is_number else value)
            for call, position in self.numbers[name] if is_number else ():
                call.arguments.set(position, np.void(value))
        return array
