"""The kernels of a program against their references: each at the smallest sizes of its class, and at its own.

In: a plan. Out: a check of every distinct kernel, with the error found and the error that rounding explains. Extents
are constants in the text of a kernel, so a smaller kernel has another text. Its class is the text without numbers (the
same statements, loops, pragmas and split among threads) together with, for each loop, whether the extent is one,
shorter than a vector, whole vectors, or vectors and a tail. The witness is the smallest kernel found in that class; a
kernel that is itself small, up to `OWN_ELEMENTS`, is also checked directly, with identical text.

Kernels to be checked are compiled into one program, in which each runs separately on random inputs. Results are cached
by the text of the kernel, so that nothing is built twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wengert.backends.checked import kernel_name
from wengert.core import cache, devices
from wengert.core.dtypes import FLOATING, bool_
from wengert.core.graph import Node
from wengert.plan.groups import FusionGroup
from wengert.plan.plan import Plan, Step, launches_in
from wengert.runtime.certificate.keys import key_of, references_key
from wengert.runtime.certificate.measured import Finding, measured
from wengert.runtime.certificate.witness import (
    Witness,
    describe_sizes,
    meaning_of,
    placed,
    plan_with_steps,
    size_class,
    smaller,
    witness_of,
)

OWN_ELEMENTS, OWN_OPERATIONS = 5_000_000, 500_000_000  # read and written; of references in float64, computed four times
SMALL_ELEMENTS = 4_096  # of a kernel that is its own witness
TOGETHER = 24_000_000  # elements of witnesses that are one program
DRAWS = 2  # of inputs: of either sign, and positive


@dataclass(frozen=True)
class Check:
    """The result at some sizes."""

    sizes: str
    error: float  # of the element that is nearest to being wrong
    allowed: float  # there: what rounding the references one by one explains
    problem: str | None = None


@dataclass(frozen=True)
class KernelCheck:
    """A kernel: the number of steps that run it, and the results at the smallest sizes of its class and at its own."""

    name: str
    ops: str
    steps: int
    small: Check | None
    own: Check | None
    note: str = ""  # why it was not checked at some sizes

    @property
    def label(self) -> str:
        """Its name and what it computes."""
        ops = self.ops if len(self.ops) <= _LONGEST else self.ops[: _LONGEST - 3] + "..."
        return f"{self.name} ({ops})"

    @property
    def checks(self) -> list[Check]:
        """The sizes at which it was checked."""
        return [check for check in (self.small, self.own) if check is not None]

    @property
    def problem(self) -> str | None:
        """What is wrong, if anything."""
        return next((f"at {check.sizes}: {check.problem}" for check in self.checks if check.problem), None)

    @property
    def status(self) -> str:
        """Whether it was checked, and something was wrong."""
        if self.problem:
            return "FAILED"
        return "proved" if self.checks else "not proved"

    @property
    def known(self) -> str:
        """What was found, as text."""
        if self.problem or not self.checks:
            return self.problem or self.note
        texts = [f"{_short(check.error)} of {_short(check.allowed)} at {check.sizes}" for check in self.checks]
        return "; ".join([*texts, *([self.note] if self.note else [])])


_LONGEST = 32


def _short(number: float) -> str:
    return f"{number:.1e}" if number else "0"


def kernel_checks(plan: Plan) -> list[KernelCheck]:
    """The checks of all distinct kernels of a plan, except references, which are correct by definition."""
    distinct = _distinct(plan)
    names = {key: f"{key}.check" for key in distinct}
    kept = {key: _read(content) for key, content in _contents(names).items()}
    known = {key: found for key, found in kept.items() if found is not None}
    missing = {key: pairs[0] for key, pairs in distinct.items() if key not in known}
    for key, found in _checked(plan, missing).items():
        cache.keep(names[key], json.dumps(found).encode())
        known[key] = found
    return [*(_shown(pairs, known[key]) for key, pairs in distinct.items()), *_joined(plan)]


def _joined(plan: Plan) -> list[KernelCheck]:
    """The kernels that stages after `select` merged from others: they are not checked directly."""
    selected = _selected(plan)
    sources = {launch.source for step in selected.steps for launch in step.launches}
    later = [step for step in plan.steps if any(launch.source not in sources for launch in step.launches)]
    ops = [", ".join(dict.fromkeys(node.op.name for node in step.writes)) for step in later]
    return [KernelCheck(_name(step), names, 1, None, None, _JOINED) for step, names in zip(later, ops)]


_JOINED = "a later stage made it of kernels that were checked by themselves"


def _contents(names: Mapping[str, str]) -> dict[str, bytes]:
    contents = cache.read_all(names.values())
    return {key: contents[name] for key, name in names.items() if name in contents}


Found = dict[str, Any]  # the cached result of a kernel: `small`, `own` and a `note`


def _read(content: bytes) -> Found | None:
    """The cached result; None if another version stored it."""
    try:
        found: Found = json.loads(content)
        _check(found["small"]), _check(found["own"]), found["note"]
    except (ValueError, KeyError, TypeError):
        return None
    return found


def _check(found: Any) -> Check | None:
    return None if found is None else Check(**found)


def _shown(pairs: Sequence[tuple[FusionGroup, Step]], found: Found) -> KernelCheck:
    group, step = pairs[0]
    ops = ", ".join(dict.fromkeys(root.op.name for root in group.roots))
    return KernelCheck(_name(step), ops, len(pairs), _check(found["small"]), _check(found["own"]), found["note"])


def _name(step: Step) -> str:
    if step.launches:
        return " + ".join(dict.fromkeys(launch.entry for launch in step.launches))
    return step.carrier or kernel_name(step)


# --- texts ----------------------------------------------------------------------------------------------------------


def _distinct(plan: Plan) -> dict[str, list[tuple[FusionGroup, Step]]]:
    """The kernels by key, each with the groups and steps that it runs."""
    found: dict[str, list[tuple[FusionGroup, Step]]] = {}
    common, selected = references_key(plan.target), _selected(plan)
    bodies = _bodies(selected)
    for group, step in zip(selected.grouping.groups, selected.steps):
        if step.parts and step.host_op is None:
            key = key_of(common, text_of(selected, step, bodies), meaning_of(selected, group, step))
            found.setdefault(key, []).append((group, step))
    return found


def referenced(plan: Plan) -> int:
    """The number of steps computed by their references."""
    return sum(step.host_op is not None for step in plan.steps)


def _selected(plan: Plan) -> Plan:
    """The plan with a step for each group, as it was before stages joined steps."""
    return next((report.plan for report in plan.reports if report.name == "select"), plan)


_POINTER = re.compile(r"io\[\d+\]|\(arena \+ offset_\d+\)")
_NAME = re.compile(r"\bkernel\d+\b")
_NUMBER = re.compile(r"(?<![\w.])\d+L?(?![\w.])")
_EXTENT = re.compile(r"\bi\d\w* < (\d+);")  # of loops over elements; blocks and parts are shared among threads


def text_of(plan: Plan, step: Step, bodies: Mapping[str, str] | None = None) -> str:
    """All of a step's text: its statements without the places of values, and the function that they call."""
    if step.launches or step.loop is not None:
        launches = [f"{launch.grid} {launch.block} {launch.shared}\n{launch.source}" for launch in launches_in(step)]
        return "\n".join([step.carrier, *launches])
    code = step.code
    if code is None:
        return step.carrier
    bodies = _bodies(plan) if bodies is None else bodies
    body = bodies[code.call.name] if code.call is not None else ""
    return _NAME.sub("kernel", _POINTER.sub("p", "\n".join([code.text, str(code.carried_out_by), body])))


def _bodies(plan: Plan) -> dict[str, str]:
    """The functions of a plan's C, by name."""
    functions: Mapping[Any, str] = getattr(plan.codegen, "functions", {})
    return {name: function.named("kernel") for function, name in functions.items()}


def class_of(plan: Plan, step: Step) -> tuple[str, tuple[str, ...]]:
    """The class of a kernel: its text without numbers, and the kind of each of its loops."""
    text = text_of(plan, step)
    return _NUMBER.sub("#", text), tuple(size_class(int(extent)) for extent in _EXTENT.findall(text))


# --- checking -------------------------------------------------------------------------------------------------------


def _checked(plan: Plan, missing: Mapping[str, tuple[FusionGroup, Step]]) -> dict[str, Found]:
    """The results for kernels that were not checked before."""
    if not missing:
        return {}
    wanted: dict[tuple[str, str], Witness] = {}
    notes: dict[str, str] = {}
    for key, (group, step) in missing.items():
        chosen, notes[key] = _chosen(plan, group, step)
        wanted |= {(key, which): witness for which, witness in chosen.items()}
    results: dict[tuple[str, str], Check] = {}
    for part in _parts(wanted):
        results |= _run(plan, part)
    return {
        key: {
            **{which: asdict(results[key, which]) if (key, which) in results else None for which in ("small", "own")},
            "note": notes[key],
        }
        for key in missing
    }


def _parts(wanted: Mapping[tuple[str, str], Witness]) -> Iterator[dict[tuple[str, str], Witness]]:
    """The witnesses, in portions that fit in memory."""
    part: dict[tuple[str, str], Witness] = {}
    for name, witness in wanted.items():
        if part and sum(one.elements for one in part.values()) + witness.elements > TOGETHER:
            yield part
            part = {}
        part[name] = witness
    if part:
        yield part


def _chosen(plan: Plan, group: FusionGroup, step: Step) -> tuple[dict[str, Witness], str]:
    """The witnesses of a kernel, and why there is none for some sizes."""
    try:
        own = witness_of(plan, group, step)
        (alone,) = (written := plan_with_steps([own], plan, _codegen(plan))).steps
    except Exception as error:  # regardless of the code generator's answer for a group in isolation
        return {}, f"it cannot be run by itself: {error}"
    selected = _selected(plan)
    if text_of(written, alone) != text_of(selected, step):
        return {}, "by itself it is another kernel"
    found: dict[str, Witness] = {}
    note = ""
    if own.elements <= SMALL_ELEMENTS:
        return {"small": own}, note
    if own.elements <= OWN_ELEMENTS and own.operations <= OWN_OPERATIONS:
        found["own"] = own
    small = smallest(plan, group, step, class_of(selected, step))
    if small is None:
        note = "no smaller kernel has its class"
    else:
        found["small"] = small
    return found, note


def smallest(plan: Plan, group: FusionGroup, step: Step, wanted: Any) -> Witness | None:
    """The smallest witness of a class that is found by making one size after the other smaller."""
    sizes: dict[int, int] = {}
    found: Witness | None = None
    for extent in witness_of(plan, group, step).extents:
        for size in smaller(extent):
            trial = _of_class(plan, group, step, {**sizes, extent: size}, wanted)
            if trial is not None:
                found, sizes = trial, {**sizes, extent: size}
                break
    return found


def _of_class(plan: Plan, group: FusionGroup, step: Step, sizes: Mapping[int, int], wanted: Any) -> Witness | None:
    try:
        witness = witness_of(plan, group, step, sizes)
        written = plan_with_steps([witness], plan, _codegen(plan))
        return witness if class_of(written, written.steps[0]) == wanted and _is_consistent(witness) else None
    except Exception:  # an op that refuses the sizes says so in its own way
        return None


def _is_consistent(witness: Witness) -> bool:
    """Whether the references give the recorded shapes: ops trust the sizes they are passed."""
    values: dict[Node, Any] = dict(zip(witness.inputs, _inputs(witness, 0)))
    with np.errstate(all="ignore"):
        for node in witness.nodes:
            values[node] = node.op.run([values[source] for source in node.sources], node)
            if not isinstance(node.dtype, tuple) and values[node].shape != node.shape:
                return False
    return True


def _codegen(plan: Plan) -> Any:
    return devices.of(plan.target.device).codegen(0.0)


def _run(plan: Plan, witnesses: Mapping[tuple[str, str], Witness]) -> dict[tuple[str, str], Check]:
    """Build the witnesses as one program and run it on each draw."""
    whole = placed(plan_with_steps(list(witnesses.values()), plan, _codegen(plan)))
    run = measured(whole)
    found: dict[int, Finding] = {}
    for draw in range(DRAWS):
        arrays = [array for one in witnesses.values() for array in _inputs(one, draw)]
        for number, finding in run(arrays).items():
            found[number] = finding if number not in found else found[number].worse(finding)
    return {
        name: Check(describe_sizes(witness), *found.get(number, Finding(0.0, 0.0, "it was not run")))
        for number, (name, witness) in enumerate(witnesses.items())
    }


def _inputs(witness: Witness, draw: int) -> list[Any]:
    """Arrays for the inputs; integers may be indices, and are less than every size."""
    rng = np.random.default_rng(draw)
    least = min([n for n in witness.extents if n > 1], default=2)
    return [witness.values[n] if n in witness.values else _drawn(n, rng, least, draw) for n in witness.inputs]


def _drawn(node: Node, rng: np.random.Generator, least: int, draw: int) -> Any:
    if node.dtype in FLOATING:
        normal = rng.normal(size=node.shape)
        return np.asarray(np.abs(normal) + 0.1 if draw else normal).astype(node.dtype)
    if node.dtype.kind == "c":
        return np.asarray(rng.normal(size=node.shape) + 1j * rng.normal(size=node.shape)).astype(node.dtype)
    return np.asarray(rng.integers(0, 2 if node.dtype is bool_ else least, node.shape)).astype(node.dtype)
