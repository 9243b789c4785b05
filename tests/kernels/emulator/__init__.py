"""CUDA kernels on the CPU: the texts of launches compiled by g++ with emulator.h, run on arrays.

Small sizes only: a launch takes about a microsecond a thread. What it finds besides wrong numbers: threads that wait
for one another or for lanes that have ended, writes beyond the end of a buffer, and (run both ways round) races.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from wengert.kernels.headers import folders, headers
from wengert.kernels.launch import Argument, Launch, LaunchList, Number, Struct, TensorMap

HERE = Path(__file__).parent
FLAGS = (
    *("-std=gnu++17", "-O1", "-w", "-fPIC", "-shared", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE"),
    "-fno-gnu-unique",  # shared memory of function templates is that of its own library
)
CONTRACTED = ("-O2", "-mfma", "-ffp-contract=fast")
"""How a text is compiled as NVRTC does it: multiplications and additions become one wherever they can."""
GUARD = 256  # bytes around every buffer that must stay as they are
POISON = 0xFF  # what memory holds that nobody has written: NaN as a float

Array = np.ndarray[Any, Any]


class EmulationError(Exception):
    """What a kernel did that a device would not survive."""


@functools.cache
def compiler() -> str | None:
    """The C++ compiler, or None if there is none."""
    return shutil.which("g++")


class Emulator:
    """The kernels of some works, compiled together; `flags` are more for the compiler."""

    def __init__(self, works: Iterable[LaunchList], flags: tuple[str, ...] = ()) -> None:
        launches = [launch for work in works for launch in work.launches]
        self.names = {key: f"launch{i}" for i, key in enumerate(dict.fromkeys((x.source, x.entry) for x in launches))}
        together = {(x.source, x.entry): x.grid[0] for x in launches if x.cooperative}
        self.library = _library(_unit(self.names, together), flags)

    def run(self, work: LaunchList, arrays: Mapping[str, Array], reverse: bool = False) -> None:
        """Carry out a work: the buffers that its launches write are changed in place."""
        space = {name: np.full(size, POISON, np.uint8) for name, size in work.workspace.items()}
        buffers = {name: _Guarded(array) for name, array in {**arrays, **space}.items()}
        for launch in work.launches:
            self._launch(launch, buffers, reverse)
        for name, buffer in buffers.items():
            buffer.check(name)
            if name in arrays and arrays[name].flags.writeable:
                arrays[name][...] = buffer.array.reshape(arrays[name].shape)

    def _launch(self, launch: Launch, buffers: Mapping[str, _Guarded], reverse: bool) -> None:
        held = [self._argument(argument, buffers) for argument in launch.arguments]
        arguments = (ctypes.c_void_p * max(len(held), 1))(*[a.ctypes.data for a in held])
        shape = (ctypes.c_uint * 6)(*launch.grid, *launch.block)
        function = self.library[self.names[launch.source, launch.entry]]
        function.restype = ctypes.c_char_p
        barriers = has_barriers(launch)
        reason = function(arguments, shape, ctypes.c_uint(launch.shared), int(barriers), int(reverse))
        if reason is not None:
            raise EmulationError(f"{launch.entry}: {reason.decode()}")

    @staticmethod
    def _argument(argument: Argument, buffers: Mapping[str, _Guarded]) -> Array:
        if isinstance(argument, np.generic):
            return np.asarray(argument)
        if isinstance(argument, Struct):
            return np.frombuffer(argument.content, np.uint8)
        if isinstance(argument, Number):  # the buffer is there
            return np.zeros(2, np.uint64)
        assert not isinstance(argument, TensorMap)
        names = [argument] if isinstance(argument, str) else argument
        return np.array([buffers[name].array.ctypes.data for name in names], np.uint64)


def has_barriers(launch: Launch) -> bool:
    """Whether threads of a launch may wait for one another."""
    return bool(re.search(r"__sync|__shfl|_sync\(", _with_headers(launch.source)))


def run(work: LaunchList, arrays: Mapping[str, Array], reverse: bool = False) -> None:
    """Carry out one work on arrays."""
    Emulator([work]).run(work, arrays, reverse)


class _Guarded:
    """A copy of an array that begins on 256 bytes, between bytes that must not change."""

    def __init__(self, array: Array) -> None:
        flat = np.ascontiguousarray(array).reshape(-1)
        raw = np.full(flat.nbytes + 3 * GUARD, POISON, np.uint8)
        start = GUARD + -raw.ctypes.data % GUARD
        self.raw, self.start, self.end = raw, start, start + flat.nbytes
        self.array = raw[start : self.end].view(flat.dtype)
        self.array[...] = flat

    def check(self, name: str) -> None:
        if (self.raw[: self.start] != POISON).any() or (self.raw[self.end :] != POISON).any():
            raise EmulationError(f"something was written beside the buffer {name}")


def _with_headers(source: str) -> str:
    """A text and those of our headers that it includes and that have barriers."""
    found = re.findall(r'#include "([\w.]+)"', source)
    return source + "".join(headers("cuh")[name].read_text() for name in found if name in headers("cuh"))


def _unit(names: Mapping[tuple[str, str], str], together: Mapping[tuple[str, str], int]) -> str:
    """All kernels in one text: each in a namespace of its own, after the headers they share.

    `together`: the blocks of those whose blocks wait for one another; they run together as those of a cluster do.
    """
    headers = dict.fromkeys(line for source, _ in names for line in re.findall(r"^#include .*$", source, re.M))
    parts = ['#include "emulator.h"', *headers]
    for (source, entry), name in names.items():
        text = re.sub(r"^#include .*$", "", source, flags=re.M)
        text = re.sub(r'extern\s+"C"\s+', "", text)
        text = re.sub(
            r"extern\s+__shared__\s+(?:__align__\(\d+\)\s+)?([\w ]+?)\s+(\w+)\[\];",
            r"\1 *\2 = (\1 *)emulator::dynamic_shared;",
            text,
        )
        cluster = re.search(r"__cluster_dims__\((\d+), 1, 1\)", text)
        blocks = cluster[1] if cluster else together.get((source, entry), 1)
        parts.append(f"namespace in_{name} {{\n{text}\n}}\nEMULATED({name}, in_{name}::{entry}, {blocks})")
    return "\n".join(parts)


_folder = tempfile.TemporaryDirectory(prefix="emulated")


@functools.cache
def _library(text: str, flags: tuple[str, ...]) -> ctypes.CDLL:
    key = hashlib.sha256("".join((text, *flags)).encode()).hexdigest()[:24]
    source, target = Path(_folder.name, f"{key}.cpp"), Path(_folder.name, f"{key}.so")
    source.write_text(text)
    places = (str(HERE) if flags else _header(), *folders("cuh"))
    _compile(*flags, *(f"-I{place}" for place in places), str(source), "-o", str(target))
    return ctypes.CDLL(str(target))


@functools.cache
def _header() -> str:
    """A folder that has emulator.h, compiled once for all kernels."""
    _compile("-x", "c++-header", str(HERE / "emulator.h"), "-o", f"{_folder.name}/emulator.h.gch")
    return _folder.name


def _compile(*arguments: str) -> None:
    done = subprocess.run([compiler() or "g++", *FLAGS, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise EmulationError(f"g++ could not compile a kernel:\n{done.stderr[:4000]}")
