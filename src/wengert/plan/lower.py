"""From a fused group to loops: values are computed at loop positions, and reductions split the work into stages.

A value's stage is the number of reductions of its own group that it waits for. Stage k is one pass over the reduced
axes: it accumulates the reductions of that stage and stores the elements that wait for no later one. Values that do not
depend on the reduced axes are computed once per row, between the passes. Expensive values that several passes need are
kept in a row buffer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace

from wengert.compiler.memory import storage
from wengert.core.graph import Node
from wengert.kernels.ir.index import Index, flat, number, variable
from wengert.kernels.ir.intrinsics import COPY, PHILOX
from wengert.kernels.ir.loops import (
    Accumulate,
    DType,
    IndexMap,
    Let,
    Load,
    LoopKernel,
    Operand,
    Position,
    Stage,
    Statement,
    Store,
    broadcast_place,
    everywhere,
    let,
    literal,
    loops_of,
    moved_place,
)
from wengert.ops.core import LITERAL, RECOMPUTE_BARRIER
from wengert.ops.creation import IOTA
from wengert.ops.movement import PLACE
from wengert.ops.random import RANDOM_BITS
from wengert.ops.reduce import ARGMAX, ARGMIN
from wengert.plan.groups import FusionGroup, root_place


def lower(group: FusionGroup, name: str, inlined: Container[Node], buffer_of: Callable[[Node], str]) -> LoopKernel:
    """The kernel of a loop group. `buffer_of` names the memory of a stored value or leaf."""
    return _Lowering(group, name, inlined, buffer_of).kernel()


ROW_FITS = 16_384  # elements up to which a row is kept between passes; longer ones are recomputed
KEEP_FROM = 10  # the cost from which it pays to keep a value for a later pass


class _Lowering:
    def __init__(
        self, group: FusionGroup, name: str, inlined: Container[Node], buffer_of: Callable[[Node], str]
    ) -> None:
        self.group, self.name, self.inlined, self.buffer_of = group, name, inlined, buffer_of
        self.loops = loops_of(group.space)
        self.inner = {self.loops[axis] for axis in group.axes}
        self.own = set(group.roots)
        self.reductions = {root: f"r{i}" for i, root in enumerate(r for r in group.roots if r.op.kind == "reduction")}
        self.levels: dict[tuple[Node, IndexMap], int] = {}
        self.names: dict[tuple[Node, IndexMap], Operand] = {}  # computed once a row, or in this pass
        self.row_names: dict[tuple[Node, IndexMap], Operand] = {}
        self.rereads = any(read.leaf.op is RECOMPUTE_BARRIER for read in group.reads)
        self.known: dict[Statement, str] = {}  # by what computes it, where something is read again: as `names`
        self.row_known: dict[Statement, str] = {}
        self.kept: dict[tuple[Node, IndexMap], str] = {}  # by value: the row it is kept in
        self.to_keep: set[tuple[Node, IndexMap]] = set()
        self.scratch: dict[str, tuple[DType, int]] = {}
        self.buffers: dict[str, tuple[DType, bool]] = {}
        self.written: set[tuple[Node, IndexMap]] = set()  # stored by an earlier pass and loaded from there
        self.count = 0
        self.stage = Stage()
        self.stages: list[Stage] = []
        self.stores: list[Statement] = []  # those of the elements of this pass

    # --- stages -------------------------------------------------------------------------------------------------

    def kernel(self) -> LoopKernel:
        """The loops, stages and stores of the group."""
        tasks = self._tasks()
        self.to_keep = self._worth_keeping(tasks)
        last = max([level for level, _ in tasks], default=0)
        for level in range(last + 1):
            self._begin_stage()
            for at, root in tasks:
                if at == level:
                    self._do(root)
            self.stage.inside += self.stores  # after all loads: an output may overwrite an input
            self.stores = []
            self.written |= {(root, self._place(root)) for at, root in tasks if at == level and self._reads_back(root)}
        self._begin_stage()
        after = self._row_stores()
        outer = [loop for loop in self.loops if loop not in self.inner]
        inner = [loop for loop in self.loops if loop in self.inner]
        return LoopKernel(
            self.name,
            [loop for loop in outer if loop.extent != 1],
            [loop for loop in inner if loop.extent != 1],
            [stage for stage in self.stages[:-1] if stage.inside or stage.before],
            [*self.stage.before, *after],
            self.buffers,
            self.scratch,
            ops=tuple(dict.fromkeys(root.op.name for root in self.group.roots)),
        )

    def _begin_stage(self) -> None:
        self.stage = Stage()
        self.stages.append(self.stage)
        self.names, self.known = dict(self.row_names), dict(self.row_known)

    def _tasks(self) -> list[tuple[int, Node]]:
        """The reductions and element stores, each with its stage."""
        tasks = []
        for root in self.group.roots:
            if root.op.kind == "reduction":
                tasks.append((self.level(root.sources[0], everywhere(self.loops)), root))
            elif root in self.group.stored and self._is_element(root):
                tasks.append((self.level(root, self._place(root)), root))
        tasks = self._in_company(tasks)
        return sorted(tasks, key=lambda task: (task[0], task[1].op.kind != "reduction", task[1].serial))

    def _in_company(self, tasks: Sequence[tuple[int, Node]]) -> list[tuple[int, Node]]:
        """The tasks, with every reduction moved to the first earlier pass that reads most of its operands anyway."""
        if not self.reductions:
            return list(tasks)
        needs = {root: self._needs(root) for _, root in tasks}
        loads = {root: self._loads(needs[root][0]) for _, root in tasks}
        end = max([level for level, _ in tasks], default=0) + 1

        def lacking(root: Node, level: int) -> int:
            there = [loads[other] for at, other in tasks if at == level and other is not root]
            return len(loads[root].difference(*there))

        found = []
        for level, root in tasks:
            if root in self.reductions:
                due = min([at for at, other in tasks if root in needs[other][1]], default=end)
                level = min(range(level, max(due, level + 1)), key=lambda at: lacking(root, at))
            found.append((level, root))
        return found

    def _needs(self, root: Node) -> tuple[set[tuple[Node, IndexMap]], set[Node]]:
        """What a task computes or loads, and the reductions that must precede it."""
        reduces = root in self.reductions
        stack = [(root.sources[0], everywhere(self.loops)) if reduces else (root, self._place(root))]
        seen: set[tuple[Node, IndexMap]] = set()
        totals = set()
        while stack:
            key = stack.pop()
            if key[0] in self.reductions:
                totals.add(key[0])
            elif key not in seen:
                seen.add(key)
                stack.extend(self._sources(*key) if self._computes(key[0]) else ())
        return seen, totals

    def _loads(self, needed: Iterable[tuple[Node, IndexMap]]) -> set[tuple[Node, IndexMap]]:
        """The per-element memory reads of a task."""
        leaves = [(n, place) for n, place in needed if not self._computes(n) and n.op is not LITERAL]
        return {(storage(n), place) for n, place in leaves if self._depends(n, place)}

    def _worth_keeping(self, tasks: Sequence[tuple[int, Node]]) -> set[tuple[Node, IndexMap]]:
        """The expensive values that more than one pass needs, if rows can be kept."""
        if not self._keeps_rows():
            return set()
        passes: dict[tuple[Node, IndexMap], set[int]] = {}
        for level, root in tasks:
            for key in self._needs(root)[0]:
                passes.setdefault(key, set()).add(level)
        several = [key for key, levels in passes.items() if len(levels) > 1]
        return {key for key in several if key[0].op.cost >= KEEP_FROM and not self._is_once(*key)}

    def _keeps_rows(self) -> bool:
        """Whether rows are short and contiguous."""
        axes = [axis for axis, n in enumerate(self.group.space) if n > 1]
        return bool(axes) and axes[-1] in self.group.axes and self._row_length() <= ROW_FITS

    def _row_length(self) -> int:
        return math.prod(loop.extent for loop in self.inner)

    def _row_position(self) -> Index:
        """The position of the inner loops along the row."""
        loops = [loop for loop in self.loops if loop in self.inner]
        return flat([variable(loop) for loop in loops], [loop.extent for loop in loops])

    def _place(self, root: Node) -> IndexMap:
        place = root_place(root, self.group.space, self.group.axes)
        assert place is not None
        return place

    def _is_element(self, root: Node) -> bool:
        """Whether a root has one element per iteration rather than one per row."""
        return root.op.kind != "reduction" and (not self.group.axes or root.shape == self.group.space)

    def level(self, node: Node, place: IndexMap) -> int:
        """The number of passes that a value waits for."""
        stack = [(node, place)]
        while stack:
            key = stack[-1]
            if key in self.levels:
                stack.pop()
                continue
            at, where = key
            if at in self.reductions:
                operand = (at.sources[0], everywhere(self.loops))
                if operand in self.levels:
                    self.levels[key] = self.levels[operand] + 1
                else:
                    stack.append(operand)
                continue
            if not self._computes(at):
                self.levels[key] = 0
                continue
            parts = self._sources(at, where)
            missing = [part for part in parts if part not in self.levels]
            if missing:
                stack.extend(missing)
            else:
                self.levels[key] = max([self.levels[part] for part in parts], default=0)
        return self.levels[node, place]

    def _computes(self, node: Node) -> bool:
        """Whether a value is computed here rather than loaded."""
        return node in self.own or node in self.inlined

    def _sources(self, node: Node, place: IndexMap) -> list[tuple[Node, IndexMap]]:
        if node.op.kind == "movement":
            return [(node.sources[0], moved_place(node, place))]
        if node.op is RANDOM_BITS:
            return []
        return [(source, broadcast_place(place, node.shape, source.shape)) for source in node.sources]

    def _do(self, root: Node) -> None:
        """Accumulate a reduction, or store an element."""
        if root.op.kind == "reduction":
            value = self.value(root.sources[0], everywhere(self.loops))
            axes = self.group.axes
            along = variable(self.loops[axes[0]]) if root.op in (ARGMAX, ARGMIN) else None
            total = Accumulate(self.reductions[root], root.op.name, root.dtype, value, along)
            if along is not None:  # the running extreme is of the operand's dtype
                total = Accumulate(self.reductions[root], root.op.name, root.sources[0].dtype, value, along)
            self.stage.inside.append(total)
            return
        self.store(root, self._place(root), self.stores)

    def _row_stores(self) -> list[Statement]:
        stores: list[Statement] = []
        for root in self.group.stored:
            if not self._is_element(root):
                self.store(root, self._place(root), stores)
        return stores

    def store(self, root: Node, place: IndexMap, into: list[Statement]) -> None:
        """Store a root's element."""
        value = self.reductions[root] if root in self.reductions else self.value(root, place)
        buffer = self.buffer_of(root)
        self.buffers[buffer] = (root.dtype, True)
        into.append(Store(buffer, root.dtype, place.flat(root.shape), value))

    # --- values -------------------------------------------------------------------------------------------------

    def value(self, node: Node, place: IndexMap) -> Operand:
        """The name (or literal) of a value at an index; records its computation, per element or once per row."""
        stack = [(node, place)]
        while stack:
            key = stack[-1]
            if key in self.names:
                stack.pop()
                continue
            at, where = key
            if key in self.kept:
                load = Load(self._fresh(), self.kept[key], at.dtype, self._row_position())
                self._give(key, self._emit(load, False), False)
                continue
            is_leaf = at in self.reductions or at.op is LITERAL or not self._computes(at)
            if is_leaf or key in self.written:
                self._leaf(at, where)
                stack.pop()
                continue
            parts = self._sources(at, where)
            missing = [part for part in parts if part not in self.names]
            if missing:
                stack.extend(missing)
                continue
            self._compute(at, where, [self.names[part] for part in parts])
            stack.pop()
        return self.names[node, place]

    def _leaf(self, node: Node, place: IndexMap) -> None:
        key = (node, place)
        if node in self.reductions:
            self._give(key, self.reductions[node], once=True)
        elif node.op is LITERAL:
            self._give(key, literal(node.attrs["value"], node.dtype), once=True)
        else:
            name = self._fresh()
            buffer = self.buffer_of(node)
            self.buffers.setdefault(buffer, (node.dtype, False))
            index = place.flat(node.shape)
            once = not self._depends(node, place)
            self._give(key, self._emit(Load(name, buffer, node.dtype, index, place.guards), once), once)

    def _compute(self, node: Node, place: IndexMap, operands: Sequence[Operand]) -> None:
        key = (node, place)
        name, op = self._fresh(), node.op
        once = self._is_once(node, place)
        if op.kind == "movement":
            self._give(key, self._guarded(node, place, operands[0], once), once)
            return
        if op is IOTA:
            name = self._emit(Position(name, node.dtype, place.along(node.shape)[0]), once)
        elif op is RANDOM_BITS:
            name = self._random(name, node, place, once)
        else:
            computed_in, attributes = node.sources[-1].dtype, tuple(node.attrs.items())
            name = self._emit(Let(name, node.dtype, op, tuple(operands), computed_in, attributes), once)
        self._give(key, name, once)
        if key in self.to_keep:
            row = f"row{len(self.kept)}"
            self.kept[key], self.scratch[row] = row, (node.dtype, self._row_length())
            self.stage.inside.append(Store(row, node.dtype, self._row_position(), name))

    def _reads_back(self, root: Node) -> bool:
        """Whether later passes load a stored root, because recomputing it would read more memory."""
        if root in self.reductions or not self.group.axes or self._keeps_rows():
            return False
        return len(self._loads(self._needs(root)[0])) > 1

    def _random(self, name: str, node: Node, place: IndexMap, once: bool) -> str:
        """One word of Philox: a function of the key, the counter and the logical index."""
        key, counter = node.sources
        words = []
        for i in (0, 1):
            self.buffers.setdefault(self.buffer_of(key), (key.dtype, False))
            words.append(self._emit(Load(self._fresh(), self.buffer_of(key), key.dtype, number(i)), True))
        self.buffers.setdefault(self.buffer_of(counter), (counter.dtype, False))
        count = self._emit(Load(self._fresh(), self.buffer_of(counter), counter.dtype, number(0)), True)
        position = self._emit(Position(self._fresh(), counter.dtype, place.flat(node.shape)), once)
        stream = {"stream": node.attrs["stream"]}
        return self._emit(let(name, node.dtype, PHILOX, *words, count, position, attributes=stream), once)

    def _guarded(self, node: Node, place: IndexMap, operand: Operand, once: bool) -> Operand:
        """A value placed into zeros is 0 outside its guard."""
        if node.op is not PLACE:
            return operand
        inner = moved_place(node, place)
        new = [guard for guard in inner.guards if guard not in place.guards]
        if not new:
            return operand
        return self._emit(let(self._fresh(), node.dtype, COPY, operand, guards=tuple(new)), once)

    def _is_once(self, node: Node, place: IndexMap) -> bool:
        """Whether a value is constant during a pass. A guarded value is loaded only where its guard holds."""
        indices = [*place.along(node.shape), *[guard.index for guard in place.guards]]
        return bool(self.group.axes) and not self._is_in_no_step(node) and not any(map(self._changes, indices))

    def _depends(self, node: Node, place: IndexMap) -> bool:
        """Whether the load address of a value changes within a pass."""
        indices = [place.flat(node.shape), *[guard.index for guard in place.guards]]
        return not self.group.axes or self._is_in_no_step(node) or any(map(self._changes, indices))

    def _changes(self, index: Index) -> bool:
        return bool(index.loops() & self.inner)

    def _is_in_no_step(self, node: Node) -> bool:
        """Whether the value and every row are empty although there are rows: it must not be read before their loop."""
        rows = math.prod(loop.extent for loop in self.loops if loop not in self.inner)
        return not node.size and rows > 0 and self._row_length() == 0

    def _emit(self, statement: Load | Let | Position, once: bool) -> str:
        """Compute a value per element or once per row; returns its name.

        A recomputation next to the original is merged with it. (The device's compiler misses some of these.)
        """
        if self.rereads:
            same, known = replace(statement, name=""), self.row_known if once else self.known
            if same in known:
                return known[same]
            self.known[same] = statement.name
            if once:
                self.row_known[same] = statement.name
        (self.stage.before if once and self.group.axes else self.stage.inside).append(statement)
        return statement.name

    def _give(self, key: tuple[Node, IndexMap], name: Operand, once: bool) -> None:
        self.names[key] = name
        if once:
            self.row_names[key] = name

    def _fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"
