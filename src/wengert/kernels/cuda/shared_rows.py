"""Long rows in shared memory: what several passes read is fetched once, by copies that need no registers.

A thread reads only what it fetched itself, so passes need no barriers except those of their reductions. Half-precision
rows of up to 50,000 elements leave room for two blocks on an SM with 227 KB: one fetches while the other computes.
"""

from __future__ import annotations

from collections.abc import Container

from wengert.kernels.cuda.rewrites import may_be_among, one_hots, places, without_one_hots
from wengert.kernels.cuda.rows import RowsText
from wengert.kernels.cuda.shapes import Rows, loaded_again, vector_bytes
from wengert.kernels.cuda.source import Pass, base_name, unravel
from wengert.kernels.ir.intrinsics import COPY
from wengert.kernels.ir.loops import Access, Let, Literal, Load, LoopKernel, Stage, Statement, access, let, literal
from wengert.kernels.ir.transforms import definitions, is_op, reductions_in
from wengert.kernels.launch import DeviceProperties, LaunchList
from wengert.ops.elementwise import less


def shared_rows(kernel: LoopKernel, shape: Rows, device: DeviceProperties, why: str) -> LaunchList:
    """The launch of a kernel whose rows stay in shared memory."""
    return _SharedRows(kernel, shape, device, why).work()


def _bound(statement: Statement, along: Container[str]) -> int | None:
    """The number that a place along the row is compared with, if a statement asks whether it is less."""
    if not is_op(statement, less) or statement.operands[0] not in along:
        return None
    number = statement.operands[1]
    is_bound = isinstance(number, Literal) and number.dtype.kind in "iu" and number.value >= 0
    return int(number.value) if isinstance(number, Literal) and is_bound else None


class _SharedRows(RowsText):
    def __init__(self, kernel: LoopKernel, shape: Rows, device: DeviceProperties, why: str) -> None:
        super().__init__(kernel, shape, why)
        self.device = device
        self.rows = {access(load): number for number, load in enumerate(loaded_again(kernel))}
        self.fetched: set[Access] = set()

    def work(self) -> LaunchList:
        page, shape = self.page, self.shape
        self.begin(f"({self.names.index})blockIdx.x")
        shared = self._declare()
        for stage in self.kernel.stages:
            self.scalars(stage.before)
            reductions = reductions_in(stage.inside)
            self.declare_states(reductions)
            self._pass(stage)
            self.put_together(reductions)
            self.finish(reductions)
        self.after()
        together = max(1, self.device.shared_per_sm // (shared + 2048))
        resident = min(together, self.device.threads_per_sm // shape.threads, 1024 // shape.threads)
        return LaunchList((self.names.launch(page, self.count, shape.threads, shared, self.why, resident),))

    def _declare(self) -> int:
        """Name the rows in shared memory; the bytes that they take."""
        self.page.line("extern __shared__ __align__(16) char shared[];")
        offset = 0
        for number, load in enumerate(loaded_again(self.kernel)):
            kind = self._kind(load)
            self.page.line(f"{kind} *const row{number} = ({kind} *)(shared + {offset});")
            offset += -(-vector_bytes(load, self.shape.vector) * self.vectors // 16) * 16
        return offset

    def _kind(self, load: Load) -> str:
        return Pass([], self.loop, self.shape.vector, self.names).held_type(load.dtype)

    def _pass(self, stage: Stage) -> None:
        loads = {access(s): s for s in stage.inside if isinstance(s, Load)}
        in_rows = {key: load for key, load in loads.items() if key in self.rows}
        self._fetch(self.inside(stage), [load for key, load in in_rows.items() if key not in self.fetched])
        self.page.open()
        self.page.line("int at = lane;")
        for number, (end, statements) in enumerate(self._parts_of_row(stage.inside)):
            self._over_row(f"#pragma unroll {1 if number else 2}", end, begins=False)
            for key, load in in_rows.items():
                self.page.line(f"const {self._kind(load)} held{self.rows[key]} = row{self.rows[key]}[at];")
            if number:  # a short rest, for which less text is better
                self._compute(statements)
            else:
                self._compute_by_one_hots(statements)
            self.page.close()
        self.page.close()

    def _compute(self, statements: list[Statement]) -> None:
        """The elements of a vector."""
        loads = {access(s) for s in statements if isinstance(s, Load)}
        work = self.inside(Stage([], statements))
        work.kept = {key: f"held{number}" for key, number in self.rows.items() if key in loads}
        work.where_used = loads - self.rows.keys()
        work.compute(self.page)

    def _compute_by_one_hots(self, statements: list[Statement]) -> None:
        """The same, with less to do for vectors that have no one-hot lane."""
        page, vector = self.page, self.shape.vector
        found = one_hots(statements, self.loop)
        if self.loop is None or not found or vector == 1:
            self._compute(statements)
            return
        page.open(f"if ({may_be_among(found, base_name(self.loop, vector), vector)})")
        self._compute(statements)
        page.close()
        page.open("else")
        self._compute(without_one_hots(statements, found))
        page.close()

    def _parts_of_row(self, statements: list[Statement]) -> list[tuple[int, list[Statement]]]:
        """Where the row ends, after a first part in which comparisons of the place with a bound are known to hold."""
        along = places(statements, self.loop)
        bounds = {s.name: bound for s in definitions(statements).values() if (bound := _bound(s, along)) is not None}
        inside = min(bounds.values(), default=0) // self.shape.vector
        if not inside:
            return [(self.vectors, statements)]
        held = [
            let(s.name, s.dtype, COPY, literal(True, s.dtype)) if isinstance(s, Let) and s.name in bounds else s
            for s in statements
        ]
        return [(inside, held), (self.vectors, statements)]

    def _fetch(self, work: Pass, loads: list[Load]) -> None:
        """Begin to fetch what no pass has fetched yet, then wait for it."""
        if not loads:
            return
        self._over_row("#pragma unroll 4", self.vectors)
        for load in loads:
            target = f"row{self.rows[access(load)]}[at]"
            if load.guards:
                self.page.line(f"{target} = {work.vector_text(load)};")
            else:
                self.page.line(f"wg_fetch(&{target}, {work.address(load)});")
        self.page.close()
        self.page.line("wg_fetched();")
        self.fetched.update(map(access, loads))

    def _over_row(self, pragma: str, end: int, begins: bool = True) -> None:
        page, first = self.page, "int at = lane" if begins else ""
        page.line(pragma)
        page.open(f"for ({first}; at < {end}; at += {self.shape.lanes})")
        unravel(page, "at", self.kernel.inner, self.names, self.shape.vector)
