"""Results in the place of operands: kernels that may do that give the same bits as with places of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest

import wengert as wg
from tests.kernels.cuda_graphs import CudaGraph, poison
from tests.kernels.emulator import Emulator, compiler
from tests.kernels.test_cuda import KERNELS, graph_of, shapes_of
from wengert.core.graph import Node
from wengert.kernels.cuda import write, write_in_place
from wengert.kernels.cuda.shapes import Rows, Shape
from wengert.kernels.cuda.write import joined_buffers
from wengert.kernels.ir.loops import LoopKernel
from wengert.kernels.launch import H200, LaunchList

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate CUDA with")


class Case(NamedTuple):
    """A kernel in some shape, what its buffers are, and a result and an operand of the same kind."""

    kernel: LoopKernel
    shape: Shape | None
    names: dict[str, Node]
    result: str
    operand: str

    def apart(self) -> LaunchList:
        """The launches with places for both."""
        return write(self.kernel, H200, self.shape)

    def over(self) -> LaunchList | None:
        """The launches with the result in the operand's place, if that is right."""
        found = write_in_place(self.kernel, self.result, self.operand, H200, self.shape)
        return found[1] if found is not None else None

    def over_anyway(self) -> LaunchList:
        """The same, right or not."""
        return write(joined_buffers(self.kernel, self.result, self.operand), H200, self.shape)

    def bits(
        self, emulator: Emulator, work: LaunchList, reverse: bool = False, joined: bool = False
    ) -> dict[str, bytes]:
        """What a work leaves in the results."""
        random = np.random.default_rng(0)
        written = [name for name, (_, is_written) in self.kernel.buffers.items() if is_written]
        arrays = {name: np.array(poison(self.names[name])) for name in written if not joined or name != self.result}
        for name in (name for name in self.kernel.buffers if name not in written):
            node = self.names[name]
            arrays[name] = np.array(random.integers(1, 9, node.shape).astype(node.dtype))
        emulator.run(work, arrays, reverse)
        return {name: arrays[self.operand if joined and name == self.result else name].tobytes() for name in written}


def cases(name: str, shapes: Sequence[Shape | None] = ()) -> list[Case]:
    """All results and operands of one size and dtype, of the kernels of a graph in some shapes, or in all kinds."""
    found = []
    program = CudaGraph(graph_of(name, wg.float32))
    names = {name: node for _, by_name in program.works.values() for name, node in by_name.items()}
    for kernel in program.kernels:
        kinds = {name: (names[name].size, dtype) for name, (dtype, _) in kernel.buffers.items()}
        written = [name for name, (_, is_written) in kernel.buffers.items() if is_written]
        pairs = [(r, o) for r in written for o in kinds if o not in written and kinds[r] == kinds[o]]
        for shape in shapes or (None, *shapes_of(kernel)):
            found += [Case(kernel, shape, names, result, operand) for result, operand in pairs]
    return found


ANY: Sequence[Shape | None] = ()
SOME = (None, Rows(4, 32, 1, 0, in_shared=True))
ALL = [pytest.param(name, ANY, marks=pytest.mark.slow) for name in KERNELS]


@pytest.mark.parametrize(("name", "shapes"), [("layernorm", SOME), *ALL], ids=str)
def test_over_an_operand_the_bits_are_the_same(name: str, shapes: Sequence[Shape | None]) -> None:
    found = [(case, case.apart(), over) for case in cases(name, shapes) if (over := case.over()) is not None]
    emulator = Emulator(work for _, *both in found for work in both)
    for case, apart, over in found:
        for reverse in (False, True):
            bits = case.bits(emulator, over, reverse, joined=True)
            assert bits == case.bits(emulator, apart, reverse), f"{name} {case.shape}"
    assert len(found) >= len(shapes)


FAULTS = {
    "transpose": None,  # an element is written elsewhere than it is read
    "layernorm": Rows(4, 32, 1, 0, 3),  # all blocks of the last pass read the first element of a row
    "read back": Rows(1, 64, 2, 1),  # a sum is stored over a term in the first pass, and the others want the term
}


def test_what_may_not_be_over_an_operand_would_be_wrong() -> None:
    refused = [case for name, shape in FAULTS.items() for case in cases(name, [shape]) if case.over() is None]
    found = [(case, case.apart(), case.over_anyway()) for case in refused]
    emulator = Emulator(work for _, *both in found for work in both)
    for case, apart, over in found:
        expected = case.bits(emulator, apart)
        assert any(case.bits(emulator, over, reverse, joined=True) != expected for reverse in (False, True))
    assert len({case.kernel.comment for case in refused}) == len(FAULTS)
