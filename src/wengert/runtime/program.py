"""Programs: a closed graph made ready to run on arrays, any number of times.

In: a Graph whose inputs are placeholders; whatever else its nodes read is a constant, with its array in `buffer`. Out:
a Program, called with arrays for the graph's inputs, returning arrays for its outputs. An output may share memory with
an input or a constant, never with the result of another call.
"""

from __future__ import annotations

import gc
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from wengert.backends.protocol import NOTHING, Runnable
from wengert.compiler.passes import PassReport
from wengert.core import cache, communication, devices
from wengert.core.devices import HOST, accelerator_of, moved, on_host
from wengert.core.errors import ArgumentError, CacheError, CompilerError
from wengert.core.evaluation import apply_here, watch
from wengert.core.graph import Graph, Node
from wengert.plan.pipeline import compiled_plan
from wengert.plan.plan import Plan
from wengert.runtime.config import config

if TYPE_CHECKING:
    from wengert.runtime.memory.budget import Promise

Array = np.ndarray[Any, Any]


def build(
    graph: Graph,
    pairs: Sequence[tuple[int, int]] = (),
    tuning: float = 0.0,
    promise: Promise | None = None,
    before: Sequence[PassReport] = (),
) -> Runnable:
    """Build the program of a closed graph: optimised and compiled, or interpreted if there is no C compiler.

    `pairs` are inputs and the outputs that replace them, by number: they may share memory. On a GPU, kernels are chosen
    by timing them, for up to `tuning` seconds. `promise` is the memory limit; exceeding it raises an error. `before`
    are the reports of passes already applied to the graph.
    """
    start = perf_counter()
    watcher = communication.watcher
    with _uncollected(), nullcontext() if watcher is None else watcher.during("compiling"):
        program = _built(graph, pairs, tuning, promise, before)
    if watch.observer is not None:
        watch.observer.built(start, perf_counter())
    return program


@contextmanager
def _uncollected() -> Iterator[None]:
    """A context without garbage collection: many thousand nodes and indices are made, and few become garbage."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


def _built(
    graph: Graph,
    pairs: Sequence[tuple[int, int]],
    tuning: float,
    promise: Promise | None,
    before: Sequence[PassReport],
) -> Runnable:
    if is_interpreted(graph):
        if promise is not None:
            raise ArgumentError("compile: memory_budget requires compiled programs, but this one is interpreted")
        return Interpreter(graph)
    try:
        return _compiled(graph, pairs, tuning, promise, before)
    except CacheError as error:  # there is not even a temporary folder for a library
        if is_invariant():
            raise
        cache.say(f"{error.message}. Programs run on the slower NumPy references")
        return Interpreter(graph)


def _compiled(
    graph: Graph,
    pairs: Sequence[tuple[int, int]],
    tuning: float,
    promise: Promise | None,
    before: Sequence[PassReport],
) -> Runnable:
    if not config.check:
        return program_of(plan_of(graph, pairs, tuning, config.fuel, promise=promise, before=before))
    from wengert.runtime.debug.checking import checked_program  # which needs what records, and so this

    plan = plan_of(graph, pairs, fuel=config.fuel, off={"parallel_regions"}, promise=promise, before=before)
    return checked_program(graph, plan)


def is_interpreted(graph: Graph) -> bool:
    """Whether a graph is computed by the references: on the CPU, if requested or if there is no C compiler."""
    on_gpu = accelerator_of(graph) is not None
    found = not on_gpu and (config.tier == "interpret" or not devices.of(HOST).can_compile())
    if found and is_invariant():
        raise_interpreted()
    return found


def is_invariant() -> bool:
    """Whether programs keep a fixed order of additions: if requested, or needed for `config.parts`."""
    return config.invariant or config.parts is not None


def raise_interpreted() -> NoReturn:
    """Raise an error: the references cannot satisfy `config.invariant`, because NumPy's sums depend on shapes."""
    asked = config.tier == "interpret"
    why = "config.tier is 'interpret'" if asked else "there is no C compiler (WENGERT_CC names one)"
    setting, off = ("invariant", False) if config.invariant else ("parts", None)
    raise CompilerError(f"config.{setting} requires compiled programs, but {why}. Set config.{setting} = {off}")


def plan_of(
    graph: Graph,
    pairs: Sequence[tuple[int, int]] = (),
    tuning: float = 0.0,
    fuel: int | None = None,
    check: bool = True,
    off: Collection[str] = (),
    budget: int | None = None,
    promise: Promise | None = None,
    before: Sequence[PassReport] = (),
) -> Plan:
    """The plan of a recorded graph, for its device and the current settings.

    `budget` limits the memory of intermediate values; `promise` limits the memory of the program, and exceeding it
    raises an error.
    """
    if promise is not None:
        from wengert.runtime.memory.budget import plan_within  # which needs what explains plans

        again = partial(plan_of, graph, pairs, tuning, fuel, check, off, before=before)
        return plan_within(again, promise)
    device = devices.of(accelerator_of(graph) or HOST)
    target = device.target(tf32=config.tf32, budget=config.memory_budget if budget is None else budget)
    world = communication.current
    overlaps = world.on_device is not None if target.launches else world.overlaps
    target = replace(target.with_invariance(is_invariant()), overlaps=overlaps)
    off = {*config.passes_off, *off}
    return compiled_plan(graph, target, device.codegen(tuning), pairs, off, fuel, check, before=before)


def program_of(plan: Plan) -> Runnable:
    """The program that runs a plan."""
    return devices.of(plan.target.device).build(plan)


class Interpreter:
    """A program that applies the references one by one and frees every array after its last use.

    It computes on the host; GPU values are copied from and back to the GPU.
    """

    is_compiled = False

    def __init__(self, graph: Graph) -> None:
        places: dict[Node, int] = {}
        self.constants: list[Any] = []
        for node in graph.inputs:
            places.setdefault(node, len(places))
        self.inputs = [places[node] for node in graph.inputs]
        for node in graph.captured():
            places[node] = len(places)
            self.constants.append(on_host(node.buffer))
        self.first_constant = len(places) - len(self.constants)
        for node in graph.nodes:
            places[node] = len(places)
        self.outputs = [(places[node], node.device) for node in graph.outputs]
        self.size = len(places)
        last = {node: node for node in graph.nodes}
        last.update((source, node) for node in graph.nodes for source in node.sources)
        ends: dict[Node, list[int]] = {}
        kept = set(graph.outputs)
        for value, reader in last.items():
            if value not in kept:
                ends.setdefault(reader, []).append(places[value])
        self.steps = [
            (node, places[node], [places[source] for source in node.sources], ends.get(node, []))
            for node in graph.nodes
        ]

    def __call__(
        self, arrays: Sequence[Array], owned: Container[int] = (), spare: Mapping[int, Array] = NOTHING
    ) -> list[Array]:
        """The arrays of the outputs. Nothing is overwritten."""
        values: list[Any] = [None] * self.size
        for place, array in zip(self.inputs, arrays):
            values[place] = on_host(array)
        values[self.first_constant : self.first_constant + len(self.constants)] = self.constants
        with np.errstate(all="ignore"):
            for node, place, sources, ends in self.steps:
                values[place] = apply_here(node, [values[source] for source in sources])
                for end in ends:
                    values[end] = None
        return [values[place] if device == HOST else moved(values[place], device) for place, device in self.outputs]

    def replay(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Not available: the arrays of a call are not kept."""
