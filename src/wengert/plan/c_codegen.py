"""C for the CPU: each group's step is a C statement, or an op that runs its NumPy reference if it has no C.

In: the groups of a plan. Out: a step for each. Loop groups become functions (equal ones are shared); matrix products
and the like become calls of hand-written kernels or BLAS. The text refers to memory by names, which the program
defines.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from wengert.compiler.memory import storage
from wengert.compiler.rewrite import spend, within
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.graph import Graph, Node
from wengert.kernels import c_ops
from wengert.kernels.c import Function, FunctionCall, write, write_rows
from wengert.kernels.c_ops import Packing
from wengert.ops.op import PICK
from wengert.plan.fallible import fallible
from wengert.plan.groups import FusionGroup, Grouping
from wengert.plan.lowering import LoweringCache, inlines, loops, lowered, naming, picks
from wengert.plan.pipeline import planned
from wengert.plan.plan import NOTHING, CCode, HostOp, LibraryEpilogue, Plan, Step, table_size


class CCodegen:
    """The C code generator of one program: it numbers the functions and the values in the arena."""

    overwriting = True  # ops that update elements copy the value first unless they run in place

    def __init__(self, target: Target = HOST_TARGET) -> None:
        self.target = target
        self.functions: dict[Function, str] = {}
        self._fallible: tuple[list[FusionGroup], list[int]] | None = None  # the groups of the last query
        self.numbers: dict[Node, int] = {}  # numbers of arena values, so that equal graphs give equal texts
        self.loops: dict[str, str] = {}  # by name: C of loops that call their bodies
        self.constants: list[Node] = []  # of all bodies
        self.bodies = 0
        self.program = self  # the loop whose body this is for, if any
        self.prefix = "offset_"
        self.fixed: frozenset[Node] = frozenset()  # a body's inputs that no step changes
        self.packed: dict[Packing, int] = {}  # their packed copies, made before the first step

    def inside(self, fixed: Sequence[Node]) -> CCodegen:
        """The code generator for a loop's body; its functions belong to the program."""
        made, program = CCodegen(self.target), self.program
        made.functions, made.loops, made.program = program.functions, program.loops, program
        program.bodies += 1
        made.prefix, made.fixed = f"offset_{program.bodies}_", frozenset(fixed)
        return made

    def held(self, node: Node) -> int:
        """The number of a body's constant, whose memory the program holds."""
        constants = self.program.constants
        if node not in constants:
            constants.append(node)
        return constants.index(node)

    def inlines(self, node: Node) -> bool:
        """Whether a value is an expression in a loop."""
        return inlines(node)

    def expands(self, node: Node) -> bool:
        """None: ops without C run their references."""
        return False

    def reads(self, node: Node) -> Sequence[Node]:
        """The operands that an opaque op reads from memory."""
        return c_ops.operands(node)

    def absorbs(self, node: Node) -> bool:
        """Whether an elementwise epilogue runs on rows that an op has just written."""
        return c_ops.absorbs(node)

    def epilogues(self, graph: Graph) -> Mapping[Node, LibraryEpilogue]:
        """None: BLAS has no epilogues."""
        return {}

    def fallible(self, grouping: Grouping) -> Collection[int]:
        """The groups that run references or check indices. Cached, because several stages ask."""
        if self._fallible is None or self._fallible[0] is not grouping.groups:
            self._fallible = grouping.groups, fallible(grouping)
        return self._fallible[1]

    def tune(self, plan: Plan) -> None:
        """Nothing to tune: each group has one implementation."""

    def steps(self, plan: Plan) -> list[Step]:
        """The steps of all groups."""
        writer = _StepWriter(self, plan)
        return [writer.step(group) for group in plan.grouping.groups]


class _StepWriter:
    """The steps of one plan."""

    def __init__(self, codegen: CCodegen, plan: Plan) -> None:
        self.codegen, self.plan = codegen, plan
        self.slots, self.donated = plan.buffers.slots, plan.donated
        self.picks = picks(plan.graph)
        self.cache = LoweringCache()
        self.in_place: set[Node] = set()  # nodes with several results, written to their final addresses

    def pointer(self, node: Node | None) -> str:
        """The C expression for the address of a value."""
        if node is None:
            return "NULL"
        node = storage(node)
        if node in self.slots:
            return f"io[{self.slots[node]}]"
        numbers = self.codegen.numbers
        return f"(arena + {self.codegen.prefix}{numbers.setdefault(node, len(numbers))})"

    def step(self, group: FusionGroup) -> Step:
        """The step of a group."""
        own = set(group.roots)
        leaves = [(read.leaf, storage(read.leaf)) for read in group.reads]
        reads = list(dict.fromkeys(place for leaf, place in leaves if own.isdisjoint((leaf, place))))
        if not group.opaque:
            return self._loop_step(group, reads)
        if group.epilogue:
            return self._product_step(group, reads)
        node = group.roots[0]
        if node.op is PICK:
            return self._pick_step(node, reads)
        picked = self.picks.get(node, {})
        results = [picked.get(i) for i in range(len(node.shape))] if isinstance(node.dtype, tuple) else []
        writes = list(picked.values()) if isinstance(node.dtype, tuple) else [node]
        if node.op.kind == "function":
            return self._function_step(node, results, reads, writes)
        call = c_ops.call(node, self.pointer, results, self._packed(node))
        if call is None and not (node.op.into and (None not in results)):
            return Step((HostOp(node),), reads, [node])
        self.in_place.add(node)
        if call is None:
            return Step((HostOp(node),), reads, writes)
        return _coded(CCode(call.text, carried_out_by=call.function), reads, writes, call.scratch)

    def _function_step(
        self, node: Node, results: Sequence[Node | None], reads: list[Node], writes: Sequence[Node]
    ) -> Step:
        """A loop or branch as one C function, or by its reference."""
        from wengert.kernels.loops import write as loops_in_c  # which only programs with loops load
        from wengert.plan.loops import write_loop

        named: dict[str, Node] = {}
        name = naming(named, {})
        given = [name(source) for source in node.sources]
        written = loops_in_c.write(node, given, [None if result is None else name(result) for result in results])
        if not isinstance(written, str):
            self.in_place.add(node)
            call = self._called(written.function, named)
            return Step((CCode(call.text(), written.function, call, loop=written.how),), reads, writes, named)
        loop = write_loop(node, [result is not None for result in results], self._planned, self.codegen)
        if isinstance(loop, str):
            return Step((HostOp(node),), reads, [node], reason=loop)
        self.in_place.add(node)
        pointers = ", ".join(f"(void *){self.pointer(one)}" for one in (*node.sources, *results))
        text = f"{loop.name}((void *[]){{{pointers}}}, arena + scratch);"
        code = CCode(text, loop=f"calls its {' and its '.join(body.name for body in loop.bodies)}")
        return Step((code, *loop.bodies), reads, writes, workspace={"scratch": loop.scratch})

    def _planned(self, body: Graph, pairs: Sequence[tuple[int, int]], fixed: Sequence[Node]) -> Plan:
        """The plan of a loop's body, after all stages."""
        plan = self.plan
        with within():
            return planned(body, plan.target, lambda _: self.codegen.inside(fixed), pairs, plan.off, plan.check)

    def _packed(self, node: Node) -> str:
        """The pointer to an operand that is packed for its op before the first step of a loop, if there is one."""
        packing = c_ops.packing(node) if self.codegen.fixed else None
        if packing is None or storage(packing.operand) not in self.codegen.fixed:
            return ""
        packed = self.codegen.packed
        if packing not in packed:
            if not spend(node, lambda: f"an operand of {node.op.name} is rearranged before a loop"):
                return ""
            packed[packing] = table_size(self.plan) + len(packed)
        return f"io[{packed[packing]}]"

    def _pick_step(self, node: Node, reads: list[Node]) -> Step:
        """One of several results: in place already, or copied from the first node that picked it."""
        several, index = node.sources[0], node.attrs["index"]
        if several not in self.in_place:
            return Step((HostOp(node),), reads, [node])
        first = self.picks[several][index]
        if first is node:
            return NOTHING
        text = f"memcpy({self.pointer(node)}, {self.pointer(first)}, {node.size * node.dtype.itemsize}L);"
        return _coded(CCode(text), [first], [node])

    def _product_step(self, group: FusionGroup, reads: list[Node]) -> Step:
        """A matrix product with its epilogue: fused row by row if the rows are one loop, else as a separate loop."""
        node, stored = group.roots[0], [root for root in group.stored if root in group.epilogue]
        rest = replace(group, roots=group.epilogue, opaque=False, epilogue=[], stored=stored)
        kernel, by_name = lowered(rest, self.plan.grouping, self.donated, self.cache)
        function = write_rows(kernel, f"i{len(group.space) - 1}")
        if function is None:
            code, call = self._loop_step(rest, reads).code, c_ops.call_with(node, self.pointer, "", self._packed(node))
            assert code is not None
            both = CCode(f"{call.text}\n    {code.text}", None, code.call, call.function)
            return _coded(both, reads, list(group.stored), call.scratch)
        rows = self._called(function, by_name, ["first", "last"])
        call = c_ops.call_with(node, self.pointer, rows.text(), self._packed(node))
        return _coded(CCode(call.text, None, rows, call.function), reads, list(group.stored), call.scratch)

    def _called(self, function: Function, by_name: Mapping[str, Node], more: Sequence[str] = ()) -> FunctionCall:
        """The call of a kernel; equal kernels share one function."""
        functions = self.codegen.functions
        name = functions.setdefault(function, f"kernel{len(functions)}")
        arguments = [f"(void *){self.pointer(by_name[a])}" for a in function.arguments]
        return FunctionCall(name, (*arguments, *more))

    def _loop_step(self, group: FusionGroup, reads: list[Node]) -> Step:
        kernels, by_name = loops(group, self.plan.grouping, self.donated, self.cache)
        function = write(*kernels)
        call = self._called(function, by_name)
        return Step((CCode(call.text(), function, call),), reads, list(group.stored), by_name)


def _coded(code: CCode, reads: Sequence[Node], writes: Sequence[Node], scratch: int = 0) -> Step:
    return Step((code,), reads, writes, workspace={"scratch": scratch} if scratch else {})
