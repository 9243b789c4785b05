"""The CPU: a graph as one C program over one arena.

In: an optimised graph. Out: a Program that computes its outputs from arrays. Loop groups become C functions (equal ones
are written once), matrix products and the like calls; ops without C are computed by their references, in between.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple, NoReturn
from weakref import finalize

import numpy as np

from wengert.backends.cpu.blas import blas, single_threaded
from wengert.backends.cpu.recycle import recycler
from wengert.backends.cpu.replay import HEAD, ITEMS, CpuReplay
from wengert.backends.cpu.toolchain import close_with, load
from wengert.compiler.liveness import lives, place
from wengert.compiler.passes import Report
from wengert.compiler.storage import storage
from wengert.core.errors import OutOfRangeError
from wengert.core.evaluation import apply_here, watch
from wengert.core.graph import Graph, Node
from wengert.kernels import c_ops
from wengert.kernels.c import Function, write, write_rows
from wengert.kernels.threads import thread_count
from wengert.plan.buffers import buffers, inlines, loops, lowered, picks
from wengert.plan.donation import donations
from wengert.plan.fallible import fallible
from wengert.plan.fuse import fuse
from wengert.plan.groups import Group, Plan
from wengert.plan.lowering_cache import Alike
from wengert.plan.parallel_regions import region_text, regions
from wengert.plan.schedule import schedule

PRELUDE = """#include <math.h>
#include <stdint.h>
#include <string.h>
#include "math.h"
#define KERNEL __attribute__((visibility("hidden"))) void

"""
IN_FAR = re.compile(r"\bwg_(sin|cos|tan)_f64\(")
CALLING = """#include "blas.h"
#include "table.h"
int wg_error;  // set by a kernel that met an index out of range

"""

NOTHING: Mapping[int, np.ndarray[Any, Any]] = {}


class Step(NamedTuple):
    """A part of a program: C text, or a node for its reference; and what it reads and writes."""

    text: str | None
    node: Node | None
    reads: list[Node]
    writes: list[Node]
    scratch: int = 0  # bytes it works in
    function: Function | None = None  # of loops: what it calls

    @property
    def does_nothing(self) -> bool:
        """Whether its value is in its place already."""
        return self.text == ""

    @property
    def carrier(self) -> str:
        """Who carries it out, if it is not C of ours."""
        return "its reference" if self.text is None else ""


class Program:
    """A compiled graph: call it with arrays for the inputs."""

    apart = False  # whether every step is a piece of its own

    def __init__(self, graph: Graph, reports: Sequence[Report] = (), pairs: Sequence[tuple[int, int]] = ()) -> None:
        self.graph = graph
        self.reports = list(reports)
        self.seconds: dict[str, float] = {}
        start = perf_counter()
        self.plan: Plan = fuse(graph, inlines, c_ops.operands, c_ops.absorbs)
        self.seconds["fuse"] = perf_counter() - start
        replaced = [(graph.inputs[i], graph.outputs[k]) for i, k in pairs]
        order = schedule(graph, self.plan.groups, replaced, fallible(self.plan))
        self.plan = self.plan._replace(groups=order)
        self.alike = Alike()
        self.functions: dict[Function, str] = {}
        self.numbers: dict[Node, int] = {}  # of what lies in the arena: equal graphs give equal texts
        self.last_fallible = max(fallible(self.plan), default=-1)
        self.taken = donations(graph, self.plan, replaced, self.last_fallible)
        self._name_buffers()
        self.picks = picks(graph)
        self.in_c: set[Node] = set()  # what has several results, made in C
        self.steps = [self._step(group) for group in self.plan.groups]
        together = regions(self.steps, self.taken, self.overwriting)
        self.regions = together if not self.apart else [[step] for step in self.steps]
        start = perf_counter()
        self._place_memory()
        self.seconds["memory"] = perf_counter() - start
        units, self.pieces = self._text()
        self.source = "\n".join(units)
        start = perf_counter()
        self.library = load(units)
        close_with(self, self.library)
        finalize(self, recycler.clear).atexit = False
        self.seconds["build"] = perf_counter() - start
        self._connect()
        self.lock = threading.Lock()

    # --- buffers --------------------------------------------------------------------------------------------------

    def _name_buffers(self) -> None:
        self.external, self.constants, self.made, self.slots = buffers(self.graph, self.plan, self.taken)
        first = {storage(node): k for k, node in reversed(list(enumerate(self.graph.outputs)))}
        self.made_as = [first[node] for node in self.made]
        free = {first[node] for node in (*self.made, *self.taken)}
        self.returned = [
            (self.slots[storage(node)], node.shape, k in free) for k, node in enumerate(self.graph.outputs)
        ]
        late = {root for group in self.plan.groups[self.last_fallible + 1 :] for root in group.stored}
        self.overwriting = {*self.taken, *[node for node in self.made if node in late]}

    def pointer(self, node: Node | None) -> str:
        """The C expression for the memory a value lies in."""
        if node is None:
            return "NULL"
        node = storage(node)
        if node in self.slots:
            return f"io[{self.slots[node]}]"
        return f"(arena + offset_{self.numbers.setdefault(node, len(self.numbers))})"

    # --- steps ----------------------------------------------------------------------------------------------------

    def _step(self, group: Group) -> Step:
        own = set(group.roots)
        reads = list(dict.fromkeys(storage(read.leaf) for read in group.reads if read.leaf not in own))
        if not group.opaque:
            return self._loop_step(group, reads)
        if group.epilogue:
            return self._product_step(group, reads)
        node = group.roots[0]
        if node.op.name == "pick":
            return self._pick_step(node, reads)
        picked = self.picks.get(node, {})
        results = [picked.get(i) for i in range(len(node.shape))] if isinstance(node.dtype, tuple) else []
        call = c_ops.call(node, self.pointer, results)
        if call is None:
            return Step(None, node, reads, [node])
        self.in_c.add(node)
        writes = list(picked.values()) if isinstance(node.dtype, tuple) else [node]
        return Step(call.text, None, reads, writes, call.scratch)

    def _pick_step(self, node: Node, reads: list[Node]) -> Step:
        """One result of several: C has put it in its place already, or copies it from the first that picked it."""
        several, index = node.sources[0], node.attrs["index"]
        if several not in self.in_c:
            return Step(None, node, reads, [node])
        first = self.picks[several][index]
        if first is node:
            return Step("", None, [], [])
        text = f"memcpy({self.pointer(node)}, {self.pointer(first)}, {node.size * node.dtype.itemsize}L);"
        return Step(text, None, [first], [node])

    def _product_step(self, group: Group, reads: list[Node]) -> Step:
        """A matrix product with its epilogue: row by row if the rows are one loop, else one after the other."""
        node, stored = group.roots[0], [root for root in group.stored if root in group.epilogue]
        rest = replace(group, roots=group.epilogue, opaque=False, epilogue=[], stored=stored)
        kernel, by_name = lowered(rest, self.plan, self.taken, self.alike)
        function = write_rows(kernel, f"i{len(group.space) - 1}")
        if function is None:
            step, call = self._loop_step(rest, reads), c_ops.matmul(node, self.pointer)
            return Step(f"{call.text}\n    {step.text}", None, reads, list(group.stored), call.scratch)
        call = c_ops.matmul(node, self.pointer, self._called(function, by_name, ["first", "last"]))
        return Step(call.text, None, reads, list(group.stored), call.scratch)

    def _called(self, function: Function, by_name: dict[str, Node], more: Sequence[str] = ()) -> str:
        """The statement that calls a kernel; equal kernels are one function."""
        name = self.functions.setdefault(function, f"kernel{len(self.functions)}")
        arguments = [f"(void *){self.pointer(by_name[a])}" for a in function.arguments]
        return f"{name}({', '.join([*arguments, *more])});"

    def _loop_step(self, group: Group, reads: list[Node]) -> Step:
        kernels, by_name = loops(group, self.plan, self.taken, self.alike)
        function = write(*kernels)
        return Step(self._called(function, by_name), None, reads, list(group.stored), function=function)

    # --- memory ---------------------------------------------------------------------------------------------------

    def _place_memory(self) -> None:
        def own(nodes: Sequence[Node]) -> list[Node]:
            """Those that lie in the arena."""
            return [n for n in nodes if n not in self.slots and not isinstance(n.dtype, tuple)]

        alive = lives(
            [([n for s in r for n in own(s.reads)], [n for s in r for n in own(s.writes)]) for r in self.regions]
        )
        sizes = {node: max(node.size * node.dtype.itemsize, 1) for node in alive}
        self.offsets, self.scratch = place(alive, sizes)
        self.over: dict[Node, Node] = {}  # no value takes another's place
        self.arena_size = self.scratch + max([step.scratch for step in self.steps], default=0)

    # --- text -----------------------------------------------------------------------------------------------------

    def text_of(self, number: int) -> str:
        """The C of a step: the call, and the function that it calls."""
        step = self.steps[number]
        called = re.findall(r"\bkernel\d+\b", step.text or "")
        functions = [function.named(name) for function, name in self.functions.items() if name in called]
        return "\n".join([step.text or "", "", *functions]).strip()

    def _text(self) -> tuple[list[str], list[Any]]:
        """The C of the program, and its pieces in order: names of functions, and nodes for their references."""
        pieces: list[Any] = []
        bodies: list[list[str]] = []
        overwriting = False  # whether a piece has begun that overwrites a user's arrays: whatever fails does so before
        for region in self.regions:
            step = region[0]
            if step.text is None:
                pieces.append(step.node)
                continue
            overwrites = not self.overwriting.isdisjoint(step.writes)
            if not pieces or isinstance(pieces[-1], Node) or (overwrites and not overwriting) or self.apart:
                overwriting = overwriting or overwrites
                pieces.append(f"piece{len(bodies)}")
                bodies.append([])
            bodies[-1].append(region_text(region))
        offsets = "".join(
            f"#define offset_{k} {self.offsets[n]}L\n" for n, k in self.numbers.items() if n in self.offsets
        )
        defined = self._defined()
        declared = "".join(f"{function.declared(name)};\n" for name, function in defined.items())
        runs = "\n".join(
            f"void piece{i}(void **io, char *arena)\n{{\n    " + "\n    ".join(lines) + "\n}\n"
            for i, lines in enumerate(bodies)
        )
        offsets += f"#define scratch {self.scratch}L\n"
        headers = c_ops.includes(line for lines in bodies for line in lines)
        main = PRELUDE + CALLING + headers + offsets + "\n" + declared + "\n" + runs
        return [*kernel_units(defined), main], pieces

    def _defined(self) -> dict[str, Function]:
        """The functions by name, those that the threads of a region share among them."""
        together = dict.fromkeys(step.function for r in self.regions if len(r) > 1 for step in r)
        shared = {f"{self.functions[f]}_shared": f.shared() for f in together if f and f.is_parallel}
        return {name: function for function, name in self.functions.items()} | shared

    def _connect(self) -> None:
        found = blas()
        self.library.wg_connect(
            ctypes.c_void_p(found.sgemm if found else None),
            ctypes.c_void_p(found.dgemm if found else None),
            thread_count(),
        )
        pointer, number = ctypes.c_void_p, ctypes.c_long
        self.library.wg_place.argtypes = [pointer, pointer, pointer, number, number]
        self.again = self.library.wg_again
        self.again.argtypes = [pointer, pointer]
        self.error = ctypes.c_int.in_dll(self.library, "wg_error")
        self.calls = [self._piece(p) if isinstance(p, str) else self._reference(p) for p in self.pieces]
        self.arena = aligned(self.arena_size)
        self.arena_address = self.arena.ctypes.data
        self.loops_alone = all(step.function or step.does_nothing for step in self.steps)  # which call no BLAS
        self.held = [np.ascontiguousarray(node.buffer) for node in self.constants]

    def _piece(self, name: str) -> Callable[..., None]:
        function = getattr(self.library, name)
        return lambda pointers, arena, table, results: function(pointers, arena)

    def _reference(self, node: Node) -> Callable[..., None]:
        """What computes an op by its NumPy reference, reading and writing the program's memory."""

        def run(pointers: Any, arena: Any, table: Sequence[Any], results: dict[Node, Any]) -> None:
            def view(node: Node) -> Any:
                return self._view(node, table)

            if node.op.name == "pick":
                view(node)[...] = results[node.sources[0]][node.attrs["index"]]
                return
            arrays = [view(s) if not isinstance(s.dtype, tuple) else results[s] for s in node.sources]
            with np.errstate(all="ignore"):
                value = apply_here(node, arrays)
            if isinstance(node.dtype, tuple):
                results[node] = value
            else:
                view(node)[...] = value

        return run

    # --- running --------------------------------------------------------------------------------------------------

    def __call__(
        self,
        arrays: Sequence[np.ndarray[Any, Any]],
        owned: Container[int] = (),
        spare: Mapping[int, np.ndarray[Any, Any]] = NOTHING,
    ) -> list[np.ndarray[Any, Any]]:
        """The outputs, computed from arrays for the inputs; those numbered in `owned` may be overwritten.

        `spare` has arrays that some outputs, by number, may be written to.
        """
        given = [np.asarray(array, order="C") for array in arrays]
        for source in self.taken.values():
            number = self.slots[source]
            if number not in owned or given[number] is not arrays[number] or not given[number].flags.writeable:
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
                    self._raise_by_reference(given)
        self.last = pointers
        self.copied = {i for i, array in enumerate(arrays) if array is not given[i]}
        return self._results(table)

    def replay(self, inputs: Sequence[int], outputs: Sequence[int]) -> CpuReplay | None:
        """The program on the memory of its last call, but for these inputs and outputs, if that is all it needs."""
        return CpuReplay.of(self, inputs, outputs)

    def _made(self, node: Node, k: int, spare: Mapping[int, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """Memory for output k: a spare array if nothing can fail any more when it is written."""
        if k in spare and node in self.overwriting:
            return spare[k]
        return recycler.empty(self.graph.outputs[k].shape, node.dtype)

    def _raise_by_reference(self, arrays: Sequence[np.ndarray[Any, Any]]) -> NoReturn:
        """Say what a kernel found wrong: the graph is computed again by the references, until one raises."""
        values: dict[Node, Any] = dict(zip(self.graph.inputs, arrays))
        with np.errstate(all="ignore"):
            for node in self.graph.nodes:
                values[node] = apply_here(node, [values.get(source, source.buffer) for source in node.sources])
        raise OutOfRangeError("a kernel met an index out of range that its reference did not")

    def _results(self, table: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """The outputs. What is an input, a constant or an output already is copied: results never alias."""
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
        start = self.offsets[owner]
        raw = self.arena[start : start + owner.size * owner.dtype.itemsize]
        return raw.view(owner.dtype).reshape(node.shape)


def kernel_units(functions: Mapping[str, Function]) -> list[str]:
    """Functions as C, in units of about the same length, as many as there are threads to compile them."""
    units: list[list[str]] = [[] for _ in range(min(thread_count(), -(-len(functions) // 4)))]
    for text in sorted((function.named(name) for name, function in functions.items()), key=len, reverse=True):
        min(units, key=lambda unit: sum(map(len, unit))).append(text)
    return [prelude(unit) + "\n" + "\n".join(unit) for unit in units]


def prelude(functions: Sequence[str]) -> str:
    """What a unit begins with: `far.h` too where its functions call what it has."""
    return PRELUDE + '#include "far.h"\n' if any(map(IN_FAR.search, functions)) else PRELUDE


def aligned(size: int) -> np.ndarray[Any, Any]:
    """Bytes that begin on a cache line."""
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]
