"""Long rows that stay in shared memory: what several passes read is fetched once, by copies that need no registers.

A thread reads only what it fetched itself, so passes need no barriers but those of their totals. Rows of half precision
with up to 50,000 elements leave room for two blocks on an SM of 227 KB: one fetches while the other computes.
"""

from __future__ import annotations

from wengert.kernels.cuda.rows import RowsText
from wengert.kernels.cuda.shapes import Rows, loaded_again, vector_bytes
from wengert.kernels.cuda.text import Access, Pass, access, totals_in, unravel
from wengert.kernels.launch import Device, Work
from wengert.kernels.loops import Kernel, Load, Stage


def shared_rows(kernel: Kernel, shape: Rows, device: Device, why: str) -> Work:
    """The launch of a kernel whose rows stay in shared memory."""
    return _SharedRows(kernel, shape, device, why).work()


class _SharedRows(RowsText):
    def __init__(self, kernel: Kernel, shape: Rows, device: Device, why: str) -> None:
        super().__init__(kernel, shape, why)
        self.device = device
        self.rows = {access(load): number for number, load in enumerate(loaded_again(kernel))}
        self.fetched: set[Access] = set()

    def work(self) -> Work:
        page, shape = self.page, self.shape
        self.begin(f"({self.names.index})blockIdx.x")
        shared = self._declare()
        for stage in self.kernel.stages:
            self.scalars(stage.before)
            totals = totals_in(stage.inside)
            self.declare_states(totals)
            self._pass(stage)
            self.put_together(totals)
            self.finish(totals)
        self.after()
        together = max(1, self.device.shared_per_sm // (shared + 2048))
        resident = min(together, self.device.threads_per_sm // shape.threads, 1024 // shape.threads)
        return Work((self.names.launch(page, self.count, shape.threads, shared, self.why, resident),))

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
        page, work = self.page, self.inside(stage)
        loads = {access(s): s for s in stage.inside if isinstance(s, Load)}
        in_rows = {key: load for key, load in loads.items() if key in self.rows}
        work.kept = {key: f"held{self.rows[key]}" for key in in_rows}
        work.where_used = loads.keys() - in_rows.keys()
        new = [load for key, load in in_rows.items() if key not in self.fetched]
        self._fetch(work, new)
        self._over_row("#pragma unroll 2")
        for key, load in in_rows.items():
            page.line(f"const {self._kind(load)} held{self.rows[key]} = row{self.rows[key]}[at];")
        work.compute(page)
        page.close()

    def _fetch(self, work: Pass, loads: list[Load]) -> None:
        """Begin to fetch what no pass has fetched yet, then wait for it."""
        if not loads:
            return
        self._over_row("#pragma unroll 4")
        for load in loads:
            target = f"row{self.rows[access(load)]}[at]"
            if load.guards:
                self.page.line(f"{target} = {work.vector_text(load)};")
            else:
                self.page.line(f"wg_fetch(&{target}, {work.address(load)});")
        self.page.close()
        self.page.line("wg_fetched();")
        self.fetched.update(map(access, loads))

    def _over_row(self, pragma: str) -> None:
        page = self.page
        page.line(pragma)
        page.open(f"for (int at = lane; at < {self.vectors}; at += {self.shape.lanes})")
        unravel(page, "at", self.kernel.inner, self.names, self.shape.vector)
