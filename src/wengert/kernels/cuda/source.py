"""Statements as CUDA C++: vector accesses of adjacent elements, and scalar code for the rest of a pass.

A pass processes V adjacent elements along one loop, the *vector loop*. Contiguous data is loaded and stored by one
access of all V; values that do not depend on that loop are loaded once; everything else is computed element by element
in a loop over `j` that the compiler unrolls. Buffers must be 16-byte aligned.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from wengert.core.dtypes import COMPLEX, HALF, bool_, float32
from wengert.kernels import writer
from wengert.kernels.ir.index import Index, Loop, substitute, variable
from wengert.kernels.ir.loops import (
    Access,
    Accumulate,
    DType,
    Guard,
    Let,
    Load,
    LoopKernel,
    Operand,
    Position,
    Statement,
    Store,
    Value,
    access,
    is_vector,
)
from wengert.kernels.ir.transforms import indices_of, is_op, number_of, statements_of, symbols, used
from wengert.kernels.launch import Argument, Extent, Launch, Number
from wengert.kernels.writer import (
    CUDA,
    ERROR,
    expression,
    guarded,
    loaded,
    narrowed,
    operand_text,
    parameter,
    position_text,
    scalar_type,
    stored_type,
    widened,
)
from wengert.ops.comparison import CHECKED_INDEX
from wengert.ops.core import CAST

_HEAD = '#include "block.cuh"\n{0}\n'
_COMPLEX_HEAD = '#include "complex.cuh"\n'


class CudaPage(writer.Page):
    """Lines of CUDA C++."""

    def unrolled(self, variable: str, count: int) -> None:
        """Open a loop that the compiler unrolls."""
        self.line("#pragma unroll")
        self.open(f"for (int {variable} = 0; {variable} < {count}; {variable}++)")


class Names:
    """The names of a kernel's buffers and numbers, and the type of its indices."""

    def __init__(self, kernel: LoopKernel, workspace: Mapping[str, str] | None = None) -> None:
        self.kernel = kernel
        self.workspace = dict(workspace or {})  # temporaries: the C type of their elements, by name
        self.buffers = {buffer: f"b{i}" for i, buffer in enumerate(kernel.buffers)}
        self.buffers |= {row: row for row in kernel.scratch}
        self.table: tuple[str, ...] = ()  # buffers whose addresses come as one argument
        self.declared: set[str] = set()  # buffers that the text itself declares
        self.index = "int" if _largest(kernel) < (1 << 31) - (1 << 20) else "long long"
        self._used: set[str] = set()  # what the text names that is being written

    def of(self, buffer: str) -> str:
        """What a buffer or a temporary is called, for a text whose launch takes it then."""
        self._used.add(buffer)
        return self.buffers.get(buffer, buffer)

    def launch(
        self, page: CudaPage, grid: int, block: int, shared: int = 0, why: str = "", resident: int = 0
    ) -> Launch:
        """The launch of a page's text, with registers limited so that `resident` blocks fit on an SM."""
        body = "\n".join(page.lines) + "\n"
        parameters, arguments = self._parameters()
        head = f"__launch_bounds__({block}, {resident})" if resident else f"__launch_bounds__({block})"
        digest = hashlib.sha256((head + ", ".join(parameters) + body).encode()).hexdigest()[:10]
        entry = f"wg_{self.kernel.label}_{digest}"
        complex = any(s.dtype in COMPLEX for s in statements_of(self.kernel) if not isinstance(s, Accumulate))
        included = _HEAD.format(_COMPLEX_HEAD if complex else "")
        before = f'{included}// {self.kernel.comment}\nextern "C" __global__ void {head}\n'
        before += f"{entry}({', '.join(parameters)})\n{{\n"
        extent: Extent = (grid, 1, 1)
        block_extent: Extent = (block, 1, 1)
        return Launch(f"{before}{body}}}\n", entry, extent, block_extent, arguments, shared, why, opening=len(before))

    def _parameters(self) -> tuple[list[str], tuple[Argument, ...]]:
        """How what the text names is declared, and what the launch gives for it; the next text starts again."""
        declared: list[str] = []
        arguments: list[Argument] = []
        for buffer, (dtype, written) in self.kernel.buffers.items():
            if buffer in self._used - self.declared:
                declared.append(parameter(dtype, written, self.buffers[buffer], CUDA))
                arguments.append(buffer)
        for name, kind in self.workspace.items():
            if name in self._used:
                declared.append(f"{kind} *{CUDA.restrict} {name}")
                arguments.append(name)
        for symbol in symbols(self.kernel):
            declared.append(f"const {self.index} {symbol}")
            arguments.append(Number(symbol.name, 4 if self.index == "int" else 8))
        if self.table:
            declared.append(f"const __grid_constant__ wg_table<{len(self.table)}> table")
            arguments.append(self.table)
        if ERROR in self._used:
            declared.append(f"int *{ERROR}")
            arguments.append(ERROR)
        self._used = set()
        return declared, tuple(arguments)


def _largest(kernel: LoopKernel) -> int:
    """The largest number that an index or a count of steps comes to."""
    steps = math.prod(loop.most for loop in (*kernel.outer, *kernel.inner))
    bounds = [index.bounds() for statement in statements_of(kernel) for index in indices_of(statement)]
    return max([steps, *[max(abs(low), abs(high)) for low, high in bounds]])


def unravel(page: CudaPage, at: str, loops: Sequence[Loop], names: Names, vector: int = 1) -> None:
    """Declare the variables of loops from a flat position; the last loop goes in steps of `vector`."""
    unsigned = "unsigned" if names.index == "int" else "unsigned long long"
    step, texts = 1, []
    for k, loop in reversed(list(enumerate(loops))):
        last = k == len(loops) - 1
        text = at if step == 1 else f"({unsigned}){at} / {step}"
        if k > 0:
            extent = loop.extent // vector if last else loop.extent
            text = f"{text} % {extent}" if step > 1 else f"({unsigned}){text} % {extent}"
            step *= extent
        text = text if text == at else f"({names.index})({text})"
        scaled = f" * {vector}" if vector > 1 and last else ""
        name = base_name(loop, vector) if last else loop.name
        texts.append(f"const {names.index} {name} = {text}{scaled};")
    for line in reversed(texts):
        page.line(line)


def base_name(loop: Loop, vector: int) -> str:
    """The name of the first of several adjacent elements."""
    return loop.name if vector == 1 else f"{loop.name}_0"


class Pass:
    """The text of some statements over V elements along a loop.

    `kept` maps loads to arrays that already hold them; `slot` is the subscript of this step in arrays that hold several
    steps' vectors, or "" if a step has its own variables.
    """

    def __init__(self, statements: Sequence[Statement], loop: Loop | None, vector: int, names: Names) -> None:
        self.statements, self.loop, self.vector, self.names = statements, loop, vector, names
        self.slot = ""
        self.kept: dict[Access, str] = {}
        self.per_lane: dict[str, str] = {}  # numbers that each of the V elements has its own of: their C types
        self.states: dict[str, str] = {}  # what accumulates, by reduction
        self.in_registers: set[str] = set()  # rows kept between passes that are arrays of vectors
        self.stores_if = ""  # what must hold for a thread to store
        self.where_used: set[Access] = set()  # vectors that are loaded where they are used, not all before
        self.tiles: dict[Access, str] = {}  # loads that are found in shared memory: the text of an element
        self.rounded = _rounded(statements)

    # --- what is loaded before the elements are computed ---------------------------------------------------------

    def declare(self, page: CudaPage, count: int) -> None:
        """Arrays for the vectors of `count` steps."""
        for load in self.vectors():
            page.line(f"{self.held_type(load.dtype)} {self.held_in(load)}[{count}];")

    def vectors(self) -> list[Load]:
        """The loads of vectors that are to be held."""
        return [load for load in self._new_vectors() if access(load) not in self.where_used]

    def _new_vectors(self) -> list[Load]:
        """The loads of vectors that nothing holds yet."""
        loads = [s for s in self.statements if isinstance(s, Load) and self.is_vector(s)]
        loads = [s for s in loads if access(s) not in self.kept and access(s) not in self.tiles]
        loads = [s for s in loads if s.buffer not in self.in_registers]
        return list({access(load): load for load in loads}.values())

    def load(self, page: CudaPage) -> None:
        """Load the vectors of a step."""
        for load in self.vectors():
            target = f"{self.held_in(load)}{self.slot}"
            page.line(f"{target} = {self.vector_text(load)};" if self.slot else self._declared(load, target))

    def _declared(self, load: Load, target: str) -> str:
        return f"const {self.held_type(load.dtype)} {target} = {self.vector_text(load)};"

    def held_in(self, load: Load) -> str:
        """The variable that holds a load's vectors."""
        found = self.kept.get(access(load))
        if found is not None:
            return found
        first = next(s for s in self.statements if isinstance(s, Load) and access(s) == access(load))
        return f"l{first.name[1:]}"

    def _vector_of(self, load: Load) -> str:
        """A load's vector in this step."""
        return self.held_in(load) + ("" if access(load) in self.where_used else self.slot)

    def vector_text(self, load: Load) -> str:
        """The expression that loads V elements, or 0 where a guard fails."""
        index = self._at_base(load.index)
        name = self.names.of(load.buffer)
        text = f"{name}[{index}]" if self.vector == 1 else f"wg_load<{self.vector}>(&{name}[{index}])"
        if not load.guards:
            return text
        zero = "0" if self.vector == 1 else f"{self.held_type(load.dtype)}{{}}"
        return guarded(text, self._guards(load.guards), zero)

    def address(self, load: Load) -> str:
        """Where the V elements of a load begin."""
        return f"&{self.names.of(load.buffer)}[{self._at_base(load.index)}]"

    def held_type(self, dtype: DType) -> str:
        """The C type of the elements that lie side by side."""
        return stored_type(dtype) if self.vector == 1 else f"wg_vector<{stored_type(dtype)}, {self.vector}>"

    def _at_base(self, index: Index) -> Index:
        if self.loop is None or self.vector == 1:
            return index
        return substitute(index, self.loop, variable(Loop(base_name(self.loop, self.vector), self.loop.size)))

    def _guards(self, guards: Iterable[Guard]) -> list[Guard]:
        """Guards, for the first of the elements."""
        return [replace(guard, index=self._at_base(guard.index)) for guard in guards]

    # --- the elements ---------------------------------------------------------------------------------------------

    def compute(self, page: CudaPage, then: Callable[[str], Sequence[str]] | None = None) -> None:
        """Compute and store the elements of a step; `then` gives lines to add for an element, by its number."""
        stores = [s for s in self.statements if isinstance(s, Store) and self.is_vector(s)] if self.vector > 1 else []
        stores = [s for s in stores if s.buffer not in self.in_registers]
        once = [s for s in self.statements if isinstance(s, Load) and self._is_once(s)] if self.vector > 1 else []
        for load in self._new_vectors():
            if access(load) in self.where_used:
                page.line(self._declared(load, self.held_in(load)))
        for load in once:
            text = widened(load.dtype, f"{self.names.of(load.buffer)}[{self._at_base(load.index)}]")
            page.line(f"const {scalar_type(load.dtype)} {load.name} = {guarded(text, self._guards(load.guards))};")
        for number, store in enumerate(stores):
            page.line(f"{self.held_type(store.dtype)} s{number};")
        if self.vector > 1:
            page.unrolled("j", self.vector)
            assert self.loop is not None
            page.line(f"const {self.names.index} {self.loop.name} = {base_name(self.loop, self.vector)} + j;")
        self._bind(page)
        for statement in self.statements:
            if statement not in once:
                page.line(self._element(statement, stores))
        for line in then("j" if self.vector > 1 else "0") if then is not None else ():
            page.line(line)
        if self.vector > 1:
            page.close()
        for number, store in enumerate(stores):
            target = f"{self.names.of(store.buffer)}[{self._at_base(store.index)}]"
            page.line(f"{self._if_stored()}wg_store(&{target}, s{number});")

    def _if_stored(self) -> str:
        return f"if ({self.stores_if}) " if self.stores_if else ""

    def _bind(self, page: CudaPage) -> None:
        """The numbers of a row that each lane has its own of."""
        bound = used(self.statements) & self.per_lane.keys()
        for name in sorted(bound, key=lambda name: (name[0], number_of(name))):
            page.line(f"const {self.per_lane[name]} {name} = {name}_[{'j' if self.vector > 1 else '0'}];")

    def _element(self, statement: Statement, stores: Sequence[Store]) -> str:
        if isinstance(statement, Store):
            exact = self.rounded.get((statement.value, statement.dtype), statement.value)
            value = narrowed(statement.dtype, operand_text(exact))
            if statement.buffer in self.in_registers:
                return f"{self._of_vector(f'{statement.buffer}{self.slot}')} = {value};"
            if statement in stores:
                return f"s{stores.index(statement)}.at[j] = {value};"
            return f"{self._if_stored()}{self.names.of(statement.buffer)}[{statement.index}] = {value};"
        if isinstance(statement, Accumulate):
            return self._accumulated(statement)
        return f"const {scalar_type(statement.dtype)} {statement.name} = {self._value(statement)};"

    def _value(self, statement: Value) -> str:
        if isinstance(statement, Position):
            return position_text(statement)
        if isinstance(statement, Let):
            if statement.op is CHECKED_INDEX:
                self.names.of(ERROR)
            return expression(statement, CUDA)
        if access(statement) in self.tiles:
            return widened(statement.dtype, self.tiles[access(statement)])
        if statement.buffer in self.in_registers:
            return widened(statement.dtype, self._of_vector(f"{statement.buffer}{self.slot}"))
        if self.is_vector(statement):
            return widened(statement.dtype, self._of_vector(self._vector_of(statement)))
        return loaded(statement, f"{self.names.of(statement.buffer)}[{statement.index}]")

    def _of_vector(self, held: str) -> str:
        return held if self.vector == 1 else f"{held}.at[j]"

    def _accumulated(self, reduction: Accumulate) -> str:
        state = self.states[reduction.name]
        return f"{state} = wg_{reduction.kind}()({state}, {accumulated(reduction)});"

    # --- where elements lie ---------------------------------------------------------------------------------------

    def is_vector(self, statement: Load | Store) -> bool:
        """Whether its elements lie side by side, from a multiple of V on (for V = 1: any that the pass loads)."""
        return is_vector(statement, self.loop, self.vector)

    def _is_once(self, load: Load) -> bool:
        return self.loop is not None and all(index.factor(self.loop) == 0 for index in indices_of(load))


def _rounded(statements: Iterable[Statement]) -> dict[tuple[Operand, DType], Operand]:
    """By name and dtype of what is rounded to a half precision: what it was before, since storing it rounds too."""
    lets = [s for s in statements if is_op(s, CAST) and s.dtype in HALF and s.dtype is not s.computed_in]
    return {(s.name, s.dtype): s.operands[0] for s in lets if s.computed_in is float32 or s.computed_in in HALF}


# --- what a reduction accumulates -----------------------------------------------------------------------------------


def state_type(reduction: Accumulate) -> str:
    """The C type of an accumulator."""
    kind = scalar_type(reduction.dtype)
    if reduction.position is None:
        return kind
    return f"wg_place<{kind}, {'int' if reduction.position.bounds()[1] < 1 << 31 else 'int64_t'}>"


def state_bytes(reduction: Accumulate) -> int:
    """The size of an accumulator."""
    return 16 if reduction.kind in ("argmax", "argmin") else 4 if reduction.dtype in HALF else reduction.dtype.itemsize


def state_dtype(reduction: Accumulate) -> DType:
    """The dtype that parts of a reduction have in memory (but for argmax and argmin)."""
    return float32 if reduction.dtype in HALF else reduction.dtype


def accumulated(reduction: Accumulate) -> str:
    """What an element adds to an accumulator."""
    kind, value = state_type(reduction), operand_text(reduction.value)
    if reduction.position is not None:
        return f"{kind}{{{value}, {reduction.position}}}"
    return f"({kind})({value} != 0)" if reduction.kind in ("all", "any") else f"({kind}){value}"


def result_type(reduction: Accumulate) -> str:
    """The C type of a finished reduction."""
    return "int64_t" if reduction.kind in ("argmax", "argmin") else scalar_type(reduction.dtype)


def start(reduction: Accumulate) -> str:
    """The initial value of an accumulator."""
    if reduction.kind in ("argmax", "argmin"):
        return f"{state_type(reduction)}{{{_extreme(reduction)}, INT32_MAX}}"
    return {"sum": "0", "prod": "1", "all": "1", "any": "0"}.get(reduction.kind) or _extreme(reduction)


def _extreme(reduction: Accumulate) -> str:
    """The identity of a maximum or minimum."""
    largest = reduction.kind in ("min", "argmin")
    dtype = reduction.dtype
    if dtype in HALF or dtype.kind == "f":
        end = "" if dtype.itemsize == 8 else "f"
        return f"__builtin_inf{end}()" if largest else f"(-__builtin_inf{end}())"
    if dtype is bool_:
        return "1" if largest else "0"
    if dtype.kind == "u":
        return f"({stored_type(dtype)})-1" if largest else "0"
    return f"INT{8 * dtype.itemsize}_{'MAX' if largest else 'MIN'}"
