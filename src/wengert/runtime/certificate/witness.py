"""Witnesses: a kernel's group recorded again over its own inputs, at its original sizes or at smaller ones.

In: a group of a plan and a change of sizes. Out: a `Witness`, the same ops over placeholders as a group of the same
form, for the code generator. A size is changed wherever it occurs, in shapes and in attributes, together with its
multiples; if ops do not accept the new sizes (such as a product of axes that was not a multiple), there is no such
witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wengert.compiler.memory import storage
from wengert.compiler.rewrite import limited
from wengert.core.canonical import frozen_attributes
from wengert.core.graph import Graph, Node, Shape
from wengert.ops.core import LITERAL, placeholder
from wengert.ops.movement import SLICE
from wengert.plan.groups import FusionGroup, Grouping, Read, fits
from wengert.plan.launches import parallel_regions
from wengert.plan.memory import arena, in_place, liveness, waits
from wengert.plan.plan import Buffers, HostOutputs, LibraryEpilogue, MakeCodegen, Plan, Step

Sizes = Mapping[int, int]
_SIZED = ("shape", "starts", "size", "sizes", "n")  # the attributes of ops that are sizes, or counted in elements


@dataclass
class Witness:
    """A group with its own inputs."""

    group: FusionGroup
    inputs: list[Node]
    nodes: list[Node]
    outputs: list[Node]  # what its step writes
    inlined: set[Node]
    epilogues: dict[Node, LibraryEpilogue] = field(default_factory=dict)
    donated: dict[Node, Node] = field(default_factory=dict)
    values: dict[Node, Any] = field(default_factory=dict)  # by input: the array of a constant

    @property
    def elements(self) -> int:
        """The number of elements read and written."""
        return sum(node.size for node in (*self.inputs, *self.outputs))

    @property
    def operations(self) -> int:
        """The number of floating-point operations."""
        return sum(node.op.flops(node) for node in self.nodes)

    @property
    def extents(self) -> list[int]:
        """The sizes that occur, the largest first."""
        shapes = [node.shape for node in (*self.inputs, *self.nodes) if not isinstance(node.dtype, tuple)]
        return sorted({n for shape in (*shapes, self.group.space) for n in shape if n > 1}, reverse=True)


def witness_of(plan: Plan, group: FusionGroup, step: Step, sizes: Sizes | None = None) -> Witness:
    """The group of a plan's step with its own inputs, with some sizes changed; raises an error if an op rejects
    them."""
    return _GroupRecorder(plan, group, sizes or {}).witness(step)


def meaning_of(plan: Plan, group: FusionGroup, step: Step) -> str:
    """What a step must compute, down to the values in memory: equal for equal ops on values of equal types. The
    kernel's text is not enough: a product that lost its transpose has the text of one that never had it.
    """
    return _GroupRecorder(plan, group, {}).meaning(step)


def resized(n: int, sizes: Sizes) -> int:
    """The new value of a size or of a multiple of one.

    >>> resized(2304, {768: 32}), resized(768, {768: 32}), resized(5, {768: 32})
    (96, 32, 5)
    """
    if n in sizes:
        return sizes[n]
    factor = max((size for size in sizes if n > size and n % size == 0), default=None)
    return n if factor is None else n // factor * sizes[factor]


class _GroupRecorder:
    """One recording of a group."""

    def __init__(self, plan: Plan, group: FusionGroup, sizes: Sizes) -> None:
        self.plan, self.group, self.sizes = plan, group, sizes
        self.parts = [group, *([group.final_reduction] if group.final_reduction else [])]
        self.own = {root for part in self.parts for root in (*part.roots, *part.epilogue)}
        self.instead: dict[Node, Node] = {}
        self.inputs: list[Node] = []
        self.nodes: list[Node] = []
        self.values: dict[Node, Any] = {}

    def nodes_of(self, step: Step) -> list[Node]:
        """The nodes of a step in order, and the values that they read."""
        library = self.plan.epilogues.get(self.group.roots[0])
        wanted = [*self.own, *step.writes, *([library.result, *library.operands, *library.kept] if library else [])]
        needed = self._needed([*wanted, *(read.leaf for read in self.group.reads)])
        return sorted(needed, key=lambda node: node.serial)

    def meaning(self, step: Step) -> str:
        numbers: dict[Node, int] = {}
        lines = []
        for node in self.nodes_of(step):
            numbers[node] = len(numbers)
            kind = f"{node.shape} {node.dtype}"
            if not self._is_leaf(node):
                sources = [numbers[source] for source in node.sources]
                kind += f" {node.op.name} {sources} {frozen_attributes(node.attrs) if node.attrs else ''}"
            lines.append(kind)
        return "\n".join([*lines, str([numbers[node] for node in step.writes])])

    def witness(self, step: Step) -> Witness:
        plan, group = self.plan, self.group
        library = plan.epilogues.get(group.roots[0])
        for node in self.nodes_of(step):
            self._record(node)
        donated = {r: s for r, s in plan.donated.items() if r in self.instead and s in self.instead}
        inputs, outputs = set(self.inputs), [self.instead[node] for node in step.writes]
        inlined = {self.instead[n] for n in self.instead if n in plan.grouping.inlined} - inputs
        return Witness(
            self._group(group),
            self.inputs,
            self.nodes,
            outputs,
            inlined,
            {self.instead[group.roots[0]]: self._library(library)} if library else {},
            {self.instead[r]: self.instead[s] for r, s in donated.items()},
            self.values,
        )

    def _needed(self, wanted: Iterable[Node]) -> set[Node]:
        """The nodes of the group, down to values in memory."""
        found: set[Node] = set()
        agenda = list(wanted)
        while agenda:
            node = agenda.pop()
            if node not in found:
                found.add(node)
                agenda += () if self._is_leaf(node) else node.sources
        return found

    def _is_leaf(self, node: Node) -> bool:
        """Whether a value is read from memory of its own."""
        if node in self.own or node.op is LITERAL or node.op.aliases:
            return False
        several = any(source in self.own and isinstance(source.dtype, tuple) for source in node.sources)
        return node not in self.plan.grouping.inlined and not several  # picks of the group's own op

    def _record(self, node: Node) -> None:
        if self._is_leaf(node):
            made = placeholder(self._shape(node.shape), node.dtype, node.device)
            self.inputs.append(made)
            if node.buffer is not None and made.shape == node.shape:
                self.values[made] = node.buffer
        else:
            attrs = {key: self._attribute(value) if key in _SIZED else value for key, value in node.attrs.items()}
            sources = [self.instead[source] for source in node.sources]
            made = node.op(*sources, **attrs) if self.sizes else _copy(node, sources)
            if made.dtype != node.dtype or not _is_inside(made):
                raise ValueError(f"{node.op.name} is another op at other sizes")
            self.nodes.append(made)
        self.instead[node] = made

    def _shape(self, shape: Shape) -> Shape:
        return tuple(resized(n, self.sizes) for n in shape)

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._attribute, value))
        return resized(value, self.sizes) if isinstance(value, int) else value

    def _group(self, group: FusionGroup) -> FusionGroup:
        def mapped(nodes: Iterable[Node]) -> list[Node]:
            return [self.instead[node] for node in nodes]

        space = self._shape(group.space)
        roots = mapped(group.roots)
        if not group.opaque and group.final_reduction is None and not all(fits(r, space, group.axes) for r in roots):
            raise ValueError("the loops of the group have other sizes than its values")
        return replace(
            group,
            roots=roots,
            space=space,
            reads=[Read(self.instead[read.leaf], read.place) for read in group.reads if read.leaf in self.instead],
            stored=mapped(group.stored),
            epilogue=mapped(group.epilogue),
            final_reduction=None if group.final_reduction is None else self._group(group.final_reduction),
        )

    def _library(self, found: LibraryEpilogue) -> LibraryEpilogue:
        operands, kept = (tuple(self.instead[node] for node in nodes) for nodes in (found.operands, found.kept))
        return LibraryEpilogue(found.how, self.instead[found.result], operands, kept)


def _copy(node: Node, sources: Sequence[Node]) -> Node:
    return Node(node.op, tuple(sources), node.attrs, node.shape, node.dtype, node.device, False, node.location)


def _is_inside(node: Node) -> bool:
    """Whether a part is inside the whole that it is cut from or laid into: ops do not look again."""
    if "starts" not in node.attrs or isinstance(node.dtype, tuple):
        return True
    whole, *_ = node.sources
    part, room = (node.shape, whole.shape) if node.op is SLICE else (node.sources[-1].shape, node.shape)
    steps = node.attrs["steps"]
    ends = [start + (n - 1) * step for start, n, step in zip(node.attrs["starts"], part, steps) if n]
    return all(0 <= end < n for end, n in zip(ends, room)) and len(ends) == len(room)


# --- a plan of witnesses --------------------------------------------------------------------------------------------


def plan_with_steps(witnesses: Sequence[Witness], like: Plan, codegen: MakeCodegen) -> Plan:
    """The plan of independent witnesses for the target of a plan, as far as its steps."""
    inputs = [node for one in witnesses for node in one.inputs]
    outputs = [node for one in witnesses for node in one.outputs]
    donated = {result: source for one in witnesses for result, source in one.donated.items()}
    made = list(dict.fromkeys(storage(node) for node in outputs if node not in donated))
    slots = {node: number for number, node in enumerate([*inputs, *made])}
    slots.update((result, slots[source]) for result, source in donated.items())
    graph = Graph(inputs, outputs, nodes=[node for one in witnesses for node in one.nodes])
    groups = [replace(one.group, number=number) for number, one in enumerate(witnesses)]
    roots = {root for group in groups for root in group.roots}
    plan = Plan(
        graph,
        like.target,
        codegen(like.target),
        buffers=Buffers(inputs, [], made, slots),
        donated=donated,
        host=HostOutputs(list(range(len(outputs))), [], None, {}),
        epilogues={node: found for one in witnesses for node, found in one.epilogues.items()},
        grouping=Grouping(groups, roots, {node for one in witnesses for node in one.inlined}, []),
    )
    return replace(plan, steps=tuple(plan.codegen.steps(plan)))


def placed(plan: Plan) -> Plan:
    """The plan with memory for its steps, each of which runs alone."""
    stages: tuple[Callable[[Plan], Plan], ...] = (parallel_regions, liveness, in_place, arena, waits)
    with limited(0):
        for stage in stages:
            plan = stage(plan)
    return plan


# --- small sizes ----------------------------------------------------------------------------------------------------

VECTOR = 16  # float32 numbers in the widest vector
_WHOLE, _TAILED, _SHORT = (
    (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 640, 1024),
    (19, 35, 67, 131, 259, 515, 1027),
    (2, 3),
)


def size_class(n: int) -> str:
    """The property of a size that the code of a loop depends on: whether vectors fill it, and whether elements are left
    over.

    >>> [size_class(n) for n in (1, 7, 64, 67)]
    ['one', 'short', 'vectors', 'vectors and a tail']
    """
    if n < VECTOR:
        return "one" if n == 1 else "short"
    return "vectors and a tail" if n % VECTOR else "vectors"


def smaller(n: int) -> list[int]:
    """Smaller sizes of the same class, the smallest first."""
    found = {"short": _SHORT, "vectors": _WHOLE, "vectors and a tail": _TAILED}.get(size_class(n), ())
    return [size for size in found if size < n]


def describe_sizes(witness: Witness) -> str:
    """The iteration space of a witness, or the shapes of an op's operands."""
    group = witness.group
    if not group.opaque:
        return "x".join(map(str, group.space)) or "1"
    return ", ".join("x".join(map(str, source.shape)) or "1" for source in group.roots[0].sources)
