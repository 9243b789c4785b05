"""The CPU: a plan as one C program over one arena.

In: a plan. Out: a Program that computes its outputs from arrays. Its C is built as one library; ops without C run their
references in between.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from time import perf_counter
from typing import Any, NoReturn, cast
from weakref import finalize

import numpy as np

from wengert.backends.comm import thread
from wengert.backends.cpu import interrupts
from wengert.backends.cpu.blas import addresses, single_threaded
from wengert.backends.cpu.recycle import recycler
from wengert.backends.cpu.replay import HEAD, ITEMS, CpuReplay
from wengert.backends.cpu.toolchain import EXACT_FLAGS, close_with, load
from wengert.compiler.memory import storage
from wengert.core.devices import HOST, HOST_TARGET
from wengert.core.errors import OutOfRangeError
from wengert.core.evaluation import apply_here, watch
from wengert.core.forking import new_lock
from wengert.core.graph import Graph, Node
from wengert.kernels import c_ops
from wengert.kernels.c import Function, shared_name
from wengert.kernels.threads import thread_count
from wengert.ops.op import PICK
from wengert.plan.c_codegen import CCodegen
from wengert.plan.describe import loop, loops
from wengert.plan.launches import region_text
from wengert.plan.lowering import picks
from wengert.plan.pipeline import planned
from wengert.plan.plan import Plan, Start, Step, Wait, nested

PRELUDE = """#include <math.h>
#include <stdint.h>
#include <string.h>
#include "math.h"
#define KERNEL __attribute__((visibility("hidden"))) void

"""
CALLING = """#include "blas.h"
#include "table.h"
int wg_error;  // set by a kernel that met an index out of range

"""

STOPPING = """#include "loops.h"
void *wg_python[4], *wg_raised[3];
double wg_looked;

"""

NOTHING: Mapping[int, np.ndarray[Any, Any]] = {}


class CpuProgram:
    """A compiled graph; call it with arrays for the inputs."""

    is_compiled, language, device = True, "C", HOST
    apart = False  # whether every step is a piece of its own

    def __init__(self, plan: Plan) -> None:
        self.plan, self.graph = plan, plan.graph
        self.codegen = cast(CCodegen, plan.codegen)
        self.steps, self.slots, self.regions = plan.steps, plan.buffers.slots, plan.regions
        self.overwriting = plan.overwriting
        self._plan_results()
        units, self.pieces = self._text()
        self.source = "\n".join(units)
        start = perf_counter()
        self.library = load(units, EXACT_FLAGS if plan.target.invariant else ())
        close_with(self, self.library)
        finalize(self, recycler.clear).atexit = False
        self.seconds = perf_counter() - start  # of the C compiler
        self._connect()
        self.lock = new_lock()

    def _plan_results(self) -> None:
        """Which outputs need their own memory, and where all outputs lie."""
        self.made = self.plan.buffers.made
        first = {storage(node): k for k, node in reversed(list(enumerate(self.graph.outputs)))}
        self.made_as = [first[node] for node in self.made]
        free = {first[node] for node in (*self.made, *self.plan.donated)}
        self.returned = [
            (self.slots[storage(node)], node.shape, k in free) for k, node in enumerate(self.graph.outputs)
        ]

    # --- text -----------------------------------------------------------------------------------------------------

    def described(self) -> str:
        """The number of loop functions, and the ops that run their references."""
        count = len(self.codegen.functions)
        lines = [f"{count} distinct C kernel{'' if count == 1 else 's'} (identical ones are shared)"]
        references = [step.host_op.op.name for step in self.steps if step.host_op is not None]
        named = dict.fromkeys(name for name in references if name != "pick")
        if named:
            lines.append(f"without C, run by their NumPy references: {', '.join(named)}")
        lines += loops(self.plan)
        return "\n".join(lines)

    def tuning(self) -> None:
        """There are no candidates to time."""

    def text_of(self, number: int) -> str:
        """The C of a step: the call, and the function that it calls."""
        code = self.steps[number].code
        text = code.text if code is not None else ""
        called = code.call.name if code is not None and code.call is not None else None
        functions = [function.named(name) for function, name in self.codegen.functions.items() if name == called]
        functions += [written for name, written in self.codegen.loops.items() if text.startswith(f"{name}(")]
        told = [f"// {line}" for line in loop(self.steps[number])]
        return "\n".join([*told, text, "", *functions]).strip()

    def _text(self) -> tuple[list[str], list[Any]]:
        """The C of the program, and its pieces in order: function names, and nodes that run their references."""
        pieces: list[Any] = []
        bodies: list[list[str]] = []
        overwriting = False  # whether a piece has begun that overwrites a user's arrays: whatever fails does so before
        for region in self.regions:
            step = self.steps[region[0]]
            if step.host_op is not None or step.flight is not None:
                pieces.append(step.flight or step.host_op)
                continue
            overwrites = not self.overwriting.isdisjoint(step.writes)
            if not pieces or not isinstance(pieces[-1], str) or (overwrites and not overwriting) or self.apart:
                overwriting = overwriting or overwrites
                pieces.append(f"piece{len(bodies)}")
                bodies.append([])
            bodies[-1].append(region_text([self.steps[number] for number in region]))
        placed = self.plan.arena.offsets
        numbers = self.codegen.numbers
        offsets = "".join(f"#define offset_{k} {placed[n]}L\n" for n, k in numbers.items() if n in placed)
        defined = self._defined()
        declared = "".join(f"{function.declared(name)};\n" for name, function in defined.items())
        runs = "\n".join(
            f"void piece{i}(void **io, char *arena)\n{{\n    " + "\n    ".join(lines) + "\n}\n"
            for i, lines in enumerate(bodies)
        )
        offsets += f"#define scratch {self.plan.arena.scratch}L\n"
        codes = [step.code for plan in nested(self.plan) for step in plan.steps]
        headers = c_ops.includes(code.carried_out_by for code in codes if code is not None and code.carried_out_by)
        self.stops = bool(self.codegen.loops) or any("loops.h" in function.headers for function in defined.values())
        head = PRELUDE + CALLING + (STOPPING if self.stops else "") + headers
        main = "\n".join([head, declared, self._loops_text() + offsets, ""])
        units = kernel_units(defined)
        self.functions_source = "\n".join([*units, main])  # all but the pieces that call them
        return [*units, main + runs], pieces

    def _loops_text(self) -> str:
        """The loops that call their bodies, and the addresses of the bodies' constants."""
        loops, constants = self.codegen.loops, self.codegen.constants
        held = f"void *wg_constants[{len(constants)}];\n" if constants else ""
        return held + "\n".join([*loops.values(), "#undef scratch\n"]) if loops else ""

    def _defined(self) -> dict[str, Function]:
        """The functions by name, shared by the threads of a region."""
        functions = self.codegen.functions
        several = [(plan, region) for plan in nested(self.plan) for region in plan.regions if len(region) > 1]
        codes = [plan.steps[number].code for plan, region in several for number in region]
        together = dict.fromkeys(code.function for code in codes if code is not None)
        shared = {shared_name(functions[f]): f.shared() for f in together if f and f.is_parallel}
        return {name: function for function, name in functions.items()} | shared

    def _connect(self) -> None:
        self.library.wg_connect(*addresses(), thread_count())
        pointer, number = ctypes.c_void_p, ctypes.c_long
        self.library.wg_place.argtypes = [pointer, pointer, pointer, number, number]
        self.again = self.library.wg_again
        self.again.argtypes = [pointer, pointer]
        self.error = ctypes.c_int.in_dll(self.library, "wg_error")
        self.raised = interrupts.connect(self.library) if self.stops else None
        self.calls = [self._piece(p) if isinstance(p, str) else self.call_of(p) for p in self.pieces]
        self.arena = aligned(self.plan.arena.size)
        self.arena_address = self.arena.ctypes.data
        self.loops_alone = all(map(_is_loops, self.steps))  # which call no BLAS
        self.held = [np.ascontiguousarray(node.buffer) for node in self.plan.buffers.constants]
        self.held_by_bodies = [np.ascontiguousarray(node.buffer) for node in self.codegen.constants]
        if self.held_by_bodies:
            table = (ctypes.c_void_p * len(self.held_by_bodies)).in_dll(self.library, "wg_constants")
            table[:] = [array.ctypes.data for array in self.held_by_bodies]

    def _piece(self, name: str) -> Callable[..., None]:
        function = getattr(self.library, name)
        return lambda pointers, arena, table, results: function(pointers, arena)

    def call_of(self, part: Node | Start | Wait) -> Callable[..., None]:
        """The Python call that runs an op, or starts or ends a collective."""
        if isinstance(part, Node):
            return self._reference(part)
        return self._start(part) if isinstance(part, Start) else self._wait(part)

    def _start(self, part: Start) -> Callable[..., None]:
        """A call that starts a collective on the communication thread."""
        node = part.node
        assert node is not None
        out = self._out(node)

        def run(pointers: Any, arena: Any, table: Sequence[Any], results: dict[Any, Any]) -> None:
            arrays = [self._view(source, table) for source in node.sources]
            results[part.token] = thread.begin(partial(apply_here, node, arrays, out and out(table)))

        return run

    def _wait(self, part: Wait) -> Callable[..., None]:
        """A call that waits for a collective and stores its result."""
        node = part.node
        assert node is not None
        out = self._out(node)

        def run(pointers: Any, arena: Any, table: Sequence[Any], results: dict[Any, Any]) -> None:
            value = results.pop(part.token).result()
            if out is not None:
                return
            if isinstance(node.dtype, tuple):
                results[node] = value
            else:
                self._view(node, table)[...] = value

        return run

    def _reference(self, node: Node) -> Callable[..., None]:
        """A call that computes an op by its NumPy reference, in the program's memory."""
        out = self._out(node)

        def run(pointers: Any, arena: Any, table: Sequence[Any], results: dict[Node, Any]) -> None:
            def view(node: Node) -> Any:
                return self._view(node, table)

            if node.op is PICK:
                view(node)[...] = results[node.sources[0]][node.attrs["index"]]
                return
            arrays = [view(s) if not isinstance(s.dtype, tuple) else results[s] for s in node.sources]
            with np.errstate(all="ignore"):
                value = apply_here(node, arrays, out and out(table))
            if out is not None:
                return
            if isinstance(node.dtype, tuple):
                results[node] = value
            else:
                view(node)[...] = value

        return run

    def _out(self, node: Node) -> Callable[[Sequence[Any]], Any] | None:
        """A function that finds the arrays that an op's reference writes to; None if it returns its result."""
        if not node.op.into:
            return None
        if not isinstance(node.dtype, tuple):
            return lambda table: self._view(node, table)
        picked = picks(self.graph).get(node, {})
        if len(picked) < len(node.dtype):
            return None
        results = [picked[k] for k in range(len(picked))]
        return lambda table: [self._view(result, table) for result in results]

    # --- running --------------------------------------------------------------------------------------------------

    def __call__(
        self,
        arrays: Sequence[np.ndarray[Any, Any]],
        owned: Container[int] = (),
        spare: Mapping[int, np.ndarray[Any, Any]] = NOTHING,
    ) -> list[np.ndarray[Any, Any]]:
        """The outputs, computed from arrays for the inputs; those numbered in `owned` may be overwritten.

        `spare` has arrays for some outputs, by number.
        """
        given = [_contiguous(array) for array in arrays]
        for source in self.plan.donated.values():
            number = self.slots[source]
            if given[number] is arrays[number] and (number not in owned or not given[number].flags.writeable):
                given[number] = recycler.copy(given[number])
        made = [self._made(node, k, spare) for node, k in zip(self.made, self.made_as)]
        table = (*given, *self.held, *made)
        pointers = (ctypes.c_void_p * len(table))()
        self.library.wg_place(pointers, None, id(table) + ITEMS, len(table), HEAD)
        with self.lock, nullcontext() if self.loops_alone else single_threaded:
            results: dict[Node, Any] = {}
            arena = ctypes.c_void_p(self.arena_address)
            for call in self.calls if watch.observer is None else watch.observer.calls_of(self):
                call(pointers, arena, table, results)
                if self.error.value:
                    self.error.value = 0
                    interrupts.raise_kept(self.raised)
                    self._raise_by_reference(given)
        self.last = pointers
        self.copied = {i for i, array in enumerate(arrays) if array is not given[i]}
        return self._results(table)

    def replay(self, inputs: Sequence[int], outputs: Sequence[int]) -> CpuReplay | None:
        """The program on the memory of its last call, except for these inputs and outputs, if it needs nothing else."""
        return CpuReplay.of(self, inputs, outputs)

    def _made(self, node: Node, k: int, spare: Mapping[int, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """Memory for output k: a spare array, if nothing can fail after it is written."""
        if k in spare and node in self.overwriting:
            return spare[k]
        return recycler.empty(self.graph.outputs[k].shape, node.dtype)

    def has_failed(self) -> bool:
        """Raise a pending exception of a signal handler; otherwise an index was out of range."""
        interrupts.raise_kept(self.raised)
        return True

    def _raise_by_reference(self, arrays: Sequence[np.ndarray[Any, Any]]) -> NoReturn:
        """Report what a kernel found wrong: rerun the graph by the references until one raises."""
        values: dict[Node, Any] = dict(zip(self.graph.inputs, arrays))
        with np.errstate(all="ignore"):
            for node in self.graph.nodes:
                if node.op.collective:  # other ranks do not repeat it; a wrong index shows without it
                    values[node] = np.zeros(node.shape, node.dtype)
                    continue
                values[node] = apply_here(node, [values.get(source, source.buffer) for source in node.sources])
        raise OutOfRangeError("a kernel found an index out of range that its reference did not")

    def _results(self, table: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """The outputs. One that is also an input, a constant or another output is copied: results never alias."""
        results = []
        for slot, shape, is_free in self.returned:
            array = table[slot]
            array = array if array.shape == shape else array.reshape(shape)
            results.append(array if is_free else recycler.copy(array))
        return results

    def _view(self, node: Node, table: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        owner = storage(node)
        if owner in self.slots:
            return table[self.slots[owner]].reshape(node.shape)
        start = self.plan.arena.offsets[owner]
        raw = self.arena[start : start + owner.size * owner.dtype.itemsize]
        return np.asarray(raw.view(owner.dtype).reshape(node.shape))


def _contiguous(array: Any) -> np.ndarray[Any, Any]:
    """The array if it is contiguous, else a contiguous copy."""
    array = array if isinstance(array, np.ndarray) else np.array(array)
    return array if array.flags.c_contiguous else recycler.copy(array)


def _is_loops(step: Step) -> bool:
    return step.does_nothing or (step.code is not None and step.code.function is not None)


def build(graph: Graph, pairs: Sequence[tuple[int, int]] = (), off: Collection[str] = ()) -> CpuProgram:
    """The program of an optimised graph; `pairs` are inputs and the outputs that replace them, by number."""
    return CpuProgram(planned(graph, HOST_TARGET, CCodegen, pairs, off))


def kernel_units(functions: Mapping[str, Function]) -> list[str]:
    """C functions split into compilation units of about equal length, one per compiling thread."""
    units: list[list[str]] = [[] for _ in range(min(thread_count(), -(-len(functions) // 4)))]
    headers: list[dict[str, None]] = [{} for _ in units]
    texts = [(function.named(name), function.headers) for name, function in functions.items()]
    for text, needed in sorted(texts, key=lambda one: len(one[0]), reverse=True):
        least = min(range(len(units)), key=lambda k: sum(map(len, units[k])))
        units[least].append(text)
        headers[least].update(dict.fromkeys(needed))
    return [prelude(more) + "\n" + "\n".join(unit) for unit, more in zip(units, headers)]


def prelude(headers: Iterable[str]) -> str:
    """The start of a unit: the headers that all units need, and those of its functions."""
    return PRELUDE + "".join(f'#include "{header}"\n' for header in headers)


def aligned(size: int) -> np.ndarray[Any, Any]:
    """Bytes aligned to a cache line."""
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]
