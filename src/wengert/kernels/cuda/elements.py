"""Kernels without reductions: a thread computes vectors of neighbouring elements."""

from __future__ import annotations

import math

from wengert.kernels.cuda.shapes import Elements
from wengert.kernels.cuda.source import CudaPage, Names, Pass, unravel
from wengert.kernels.ir.loops import LoopKernel
from wengert.kernels.ir.transforms import statements_of, symbols
from wengert.kernels.launch import Work


def elements(kernel: LoopKernel, shape: Elements, why: str) -> Work:
    """One launch with a thread for every few vectors."""
    names, page = Names(kernel), CudaPage()
    loop = kernel.outer[-1] if kernel.outer else None
    vectors = math.prod(loop.most for loop in kernel.outer) // shape.vector
    work = Pass(list(statements_of(kernel)), loop, shape.vector, names)
    covered = shape.threads * shape.steps
    exact = vectors % covered == 0 and not symbols(kernel)
    count = " * ".join(str(loop.size) for loop in kernel.outer) if symbols(kernel) else vectors

    def begin(step: str) -> None:
        first = f"({names.index})blockIdx.x * {covered} + threadIdx.x"
        page.line(f"const {names.index} at = {first}{step};")
        if not exact:
            page.open(f"if (at < {count})")
        unravel(page, "at", kernel.outer, names, shape.vector)

    def end() -> None:
        if not exact:
            page.close()

    if shape.steps == 1:
        begin("")
        work.load(page)
        work.compute(page)
        end()
    else:
        work.slot = "[u]"
        work.declare(page, shape.steps)
        for part in (work.load, work.compute):
            page.unrolled("u", shape.steps)
            begin(f" + u * {shape.threads}")
            part(page)
            end()
            page.close()
    launch = names.launch(page, -(-vectors // covered), shape.threads, why=why)
    return Work((launch,))
