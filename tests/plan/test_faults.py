"""Seeded faults in the stages of a plan: each stage is broken, and `verify` must say so and name the stage.

A fault changes what a stage decides, as an error in it would: a value is overwritten while it is needed, a step reads
what was not computed, two steps do not wait for each other. Nothing is run: the plan alone tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EMULATED
from tests.plan.stages import with_stage
from wengert.backends.cuda.program import codegen_with, target_of
from wengert.compiler.memory import Life
from wengert.core.devices import HOST_TARGET
from wengert.core.errors import CompilerError
from wengert.core.graph import Graph, now
from wengert.core.mesh import Mesh
from wengert.kernels.launch import H200
from wengert.ops.core import placeholder
from wengert.plan import launches, lowering, pipeline
from wengert.plan import memory as memory
from wengert.plan.c_codegen import CCodegen
from wengert.plan.pipeline import planned
from wengert.plan.plan import NOTHING, Plan, Wait

N = 64
Change = Callable[[Plan], Plan]


class Fault(NamedTuple):
    """A stage, how its result is changed, on which program that shows, and for which device."""

    stage: str
    name: str
    change: Change
    probe: Callable[..., Any]
    device: str = "cpu"
    pairs: tuple[tuple[int, int], ...] = ()
    named: str = ""  # the stage that is named, where that is a later one


# --- programs -------------------------------------------------------------------------------------------------------


def chain(x: wg.Tensor, y: wg.Tensor, row: wg.Tensor) -> Any:
    """Products and loops in a row, whose values need memory one after the other."""
    for _ in range(3):
        x = wg.tanh(x @ y) + row
    return wg.softmax(x, axis=1)


def updates(x: wg.Tensor, y: wg.Tensor, row: wg.Tensor) -> Any:
    """Two inputs that are replaced, each by a function of both."""
    return x - 0.1 * wg.tanh(x @ y), y * 0.5 + wg.sum(x, axis=0)


def sums(x: wg.Tensor, y: wg.Tensor, row: wg.Tensor) -> Any:
    """A norm's backward pass: along rows, and sums of columns beside it."""
    mean = wg.mean(x * y, axis=1, keepdims=True)
    slope = (x - mean) * y
    return slope, wg.sum(slope, axis=0), wg.sum(x * y, axis=0)


def casts(x: wg.Tensor, y: wg.Tensor, row: wg.Tensor) -> Any:
    """Equal loops over values of several sizes."""
    return [wg.tanh(value) * 2.0 for value in (x, y[:32], row)]


def one_loop(x: wg.Tensor, y: wg.Tensor, row: wg.Tensor) -> Any:
    """A single kernel."""
    return wg.exp(x) * y


def residual(x: wg.Tensor, y: wg.Tensor, row: wg.Tensor) -> Any:
    """Layers around which their inputs are added: values that are needed later on."""
    for _ in range(3):
        x = x + wg.tanh(wg.cumulative_sum(x @ y, axis=1)) * row
    return x @ y


def collectives(x: wg.Tensor, y: wg.Tensor, row: wg.Tensor) -> Any:
    """A sum over ranks that goes on while a product is computed."""
    return wg.distributed.all_reduce(wg.tanh(x), Mesh(ranks=2).whole) + wg.tanh(y @ y)


# --- faults ---------------------------------------------------------------------------------------------------------


def grouping(change: Callable[[list[Any]], Any]) -> Change:
    """The groups changed in place."""

    def apply(plan: Plan) -> Plan:
        groups = [replace(group) for group in plan.grouping.groups]
        change(groups)
        return replace(plan, grouping=plan.grouping._replace(groups=groups))

    return apply


def without_waits(plan: Plan) -> Plan:
    """Collectives that are started, and never waited for."""
    kept = [i for i, step in enumerate(plan.steps) if not isinstance(step.flight, Wait)]
    groups = plan.groups_of_steps
    return replace(plan, steps=tuple(plan.steps[i] for i in kept), step_groups=tuple(groups[i] for i in kept))


def swapped(groups: list[Any]) -> None:
    groups.reverse()


def forgets_a_store(groups: list[Any]) -> None:
    first = next(group for group in groups if group.stored)
    first.stored = first.stored[:-1]


def doubled(groups: list[Any]) -> None:
    groups[-1].roots = [*groups[0].roots, *groups[-1].roots]


def donated_too_early(plan: Plan) -> Plan:
    """Every output is written over its input, whoever still reads that."""
    (first, _), (second, _) = [(plan.graph.inputs[i], k) for i, k in plan.pairs]
    results = [plan.graph.outputs[k] for _, k in plan.pairs]
    donated = dict(zip(results, (first, second)))
    slots = {**plan.buffers.slots, **{result: plan.buffers.slots[source] for result, source in donated.items()}}
    return replace(plan, donated=donated, buffers=plan.buffers._replace(slots=slots))


def slots_shared(plan: Plan) -> Plan:
    """An output lies where an input does that is read after it."""
    slots = dict(plan.buffers.slots)
    slots[plan.buffers.made[0]] = slots[plan.buffers.external[1]]
    return replace(plan, buffers=plan.buffers._replace(slots=slots))


def steps(change: Callable[[list[Any]], Any]) -> Change:
    """The steps changed."""

    def apply(plan: Plan) -> Plan:
        changed = list(plan.steps)
        change(changed)
        return replace(plan, steps=tuple(changed))

    return apply


def busy(changed: list[Any]) -> list[int]:
    return [k for k, step in enumerate(changed) if not step.does_nothing]


def dropped(changed: list[Any]) -> None:
    changed[busy(changed)[0]] = NOTHING


def late(changed: list[Any]) -> None:
    """The first step is done where the last was."""
    changed.append(changed.pop(busy(changed)[0]))


def other_buffer(changed: list[Any]) -> None:
    number = next(k for k in busy(changed) if changed[k].launches)
    first = changed[number].launches[0]
    argument = next(a for a in first.arguments if isinstance(a, str))
    wrong = replace(first, arguments=tuple("elsewhere" if a == argument else a for a in first.arguments))
    changed[number] = replace(changed[number], parts=(wrong, *changed[number].parts[1:]))


def silent(changed: list[Any]) -> None:
    """A step does not say that it reads something."""
    number = next(k for k in reversed(busy(changed)) if changed[k].launches and len(changed[k].reads) > 1)
    used = set(changed[number].buffers.values())
    kept = [node for node in changed[number].reads if node not in used]
    changed[number] = replace(changed[number], reads=kept)


def lost_result(changed: list[Any]) -> None:
    """Of what a step makes for several, one value is not written."""
    number = next(k for k in busy(changed) if len(changed[k].writes) > 1)
    changed[number] = replace(changed[number], writes=changed[number].writes[:-1])


def one_region(plan: Plan) -> Plan:
    return replace(plan, regions=(tuple(range(len(plan.steps))),))


def regions_shuffled(plan: Plan) -> Plan:
    return replace(plan, regions=tuple(reversed(plan.regions)))


def short_lives(plan: Plan) -> Plan:
    return replace(plan, lives={value: Life(life.first, life.first) for value, life in plan.lives.items()})


def overlapping(plan: Plan) -> Plan:
    offsets = dict.fromkeys(plan.arena.offsets, 0)
    return replace(plan, arena=plan.arena._replace(offsets=offsets))


def half_sized(plan: Plan) -> Plan:
    """Values lie one behind the other, in places half as large as they are."""
    places, end = {}, 0
    for value in plan.arena.offsets:
        places[value] = end
        end += plan.arena.sizes[value] // 2
    return replace(plan, arena=plan.arena._replace(offsets=places))


def over_what_is_needed(plan: Plan) -> Plan:
    """A result takes the place of a value that a later step reads."""
    readers: dict[Any, list[int]] = {}
    for number, step in enumerate(plan.steps):
        for node in step.reads:
            readers.setdefault(node, []).append(number)
    for number, step in enumerate(plan.steps):
        for result in step.writes:
            for node, numbers in readers.items():
                if node in plan.lives and result in plan.lives and min(numbers) <= number < max(numbers):
                    lives = {value: life for value, life in plan.lives.items() if value is not result}
                    return replace(plan, lives=lives, aliases={**plan.aliases, result: node})
    raise AssertionError("no step writes while an earlier value is still needed")


def nobody_waits(plan: Plan) -> Plan:
    return replace(plan, waits=tuple(() for _ in plan.steps))


def waits_for_later(plan: Plan) -> Plan:
    return replace(plan, waits=tuple((len(plan.steps) - 1,) for _ in plan.steps))


def forgotten(plan: Plan) -> Plan:
    return replace(plan, graph=Graph(plan.graph.inputs, plan.graph.outputs[:-1], nodes=plan.graph.nodes))


GPU = "cuda:0"
FAULTS = [
    Fault("fuse", "a value is not stored", grouping(forgets_a_store), chain),
    Fault("fuse", "a value has two groups", grouping(doubled), chain),
    Fault("schedule", "the last comes first", grouping(swapped), chain),
    Fault("donate", "an input is overwritten while it is needed", donated_too_early, updates, pairs=((0, 0), (1, 1))),
    Fault("donate", "an output lies over an input", slots_shared, chain),
    Fault("hoist", "nobody waits", without_waits, collectives),
    Fault("select", "a step is dropped", steps(dropped), chain),
    Fault("select", "a launch takes a buffer that is not there", steps(other_buffer), chain, GPU),
    Fault("select", "a step hides what it reads", steps(silent), chain, GPU),
    Fault("column_partials", "partial sums are not written", steps(lost_result), sums, GPU),
    Fault("horizontal_fusion", "a member is lost", steps(lost_result), casts, GPU),
    Fault("horizontal_fusion", "it is done too late", steps(late), chain, GPU),
    Fault("dependent_launch", "the kernel is lost", steps(dropped), one_loop, GPU),
    Fault("parallel_regions", "all steps are one region", one_region, chain),
    Fault("parallel_regions", "regions in another order", regions_shuffled, chain),
    Fault("liveness", "lives end too early", short_lives, chain, named="arena"),
    Fault("liveness", "lives end too early on a GPU", short_lives, chain, GPU, named="arena"),
    Fault("in_place", "over a value that is needed", over_what_is_needed, residual, GPU, named="arena"),
    Fault("arena", "values lie over each other", overlapping, chain),
    Fault("arena", "places are too small", half_sized, chain, GPU),
    Fault("waits", "nobody waits", nobody_waits, chain, GPU),
    Fault("waits", "a step waits for a later one", waits_for_later, chain, GPU),
    Fault("attention_partials", "a step is dropped", steps(dropped), chain, GPU),
    Fault("host_outputs", "an output is forgotten", forgotten, updates, GPU),
]  # fmt: skip
CANNOT_BE_TOLD = {
    "expand": "another function of the inputs is as good a plan; what it writes is compared with the references",
    "library_epilogues": "it only asks the libraries, which are not there; what they carry out is verified as steps",
    "tune": "it times and decides nothing",
}


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch, gpu: Any) -> Iterator[None]:
    """A GPU that no kernel is compiled for, on which even small programs share memory and join steps."""
    monkeypatch.setattr(EMULATED, "properties", H200)
    monkeypatch.setattr(memory, "APART", -1)
    monkeypatch.setattr(lowering, "LARGE", 1)
    monkeypatch.setattr(launches, "LONG", 1)
    yield


def plan_of(fault: Fault) -> Plan:
    """The verified plan of a fault's program."""
    since = now()
    inputs = [placeholder(shape, wg.float32, fault.device) for shape in ((N, N), (N, N), (N,))]
    outputs = fault.probe(*map(wg.Tensor, inputs))
    outputs = [out.node for out in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]
    graph = Graph(inputs, outputs, since)
    if fault.device == "cpu":
        return planned(graph, replace(HOST_TARGET, overlaps=True), CCodegen, fault.pairs)
    return planned(graph, target_of(fault.device), codegen_with(), fault.pairs)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.stage}: {fault.name}")
def test_fault_is_noticed(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_of(fault)  # without the fault nothing is wrong
    original = next(stage for stage in pipeline.STAGES if stage.__name__ == fault.stage)

    def broken(plan: Plan) -> Plan:
        return fault.change(original(plan))

    broken.__name__ = fault.stage
    with_stage(monkeypatch, fault.stage, broken)
    with pytest.raises(CompilerError) as error:
        plan_of(fault)
    assert f"after {fault.named or fault.stage}:" in str(error.value)


def test_every_stage_has_a_fault() -> None:
    broken = {fault.stage for fault in FAULTS} | CANNOT_BE_TOLD.keys()
    assert [stage.__name__ for stage in pipeline.STAGES if stage.__name__ not in broken] == []
    assert len(FAULTS) >= 15


def test_the_stage_at_fault_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = next(fault for fault in FAULTS if fault.name == "values lie over each other")
    original = pipeline.arena

    def arena(plan: Plan) -> Plan:
        return overlapping(original(plan))

    with_stage(monkeypatch, "arena", arena)
    with pytest.raises(CompilerError, match=r"after arena: .* lies over") as error:
        plan_of(fault)
    assert error.value.location is not None


def test_a_plan_without_faults_computes_the_same() -> None:
    """What the faults are planted in is right: the chain on the CPU, by the plan and by the references."""
    from wengert.backends.cpu.program import CpuProgram

    plan = plan_of(FAULTS[0])
    arrays = [np.random.default_rng(0).normal(size=node.shape).astype(np.float32) for node in plan.graph.inputs]
    (found,) = CpuProgram(plan)(arrays)
    np.testing.assert_allclose(found, plan.graph(*arrays)[0], rtol=1e-5, atol=1e-6)
