"""The epilogue of a matrix product as CUDA C++: an elementwise kernel of the loop language over the product's elements.

Loads of the product become the sum in the kernel's registers; the rest reads and writes memory as fused kernels do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from wengert.core.dtypes import float32
from wengert.kernels.expressions import load as widened
from wengert.kernels.expressions import scalar_type
from wengert.kernels.expressions import store as narrowed
from wengert.kernels.ir.loops import Accumulate, DType, Let, Load, LoopKernel, Statement, Store, Value
from wengert.kernels.ir.match import uses
from wengert.kernels.ir.transforms import merge_loops
from wengert.kernels.matmul.product import Epilogue
from wengert.kernels.writer import CUDA, expression, loaded, operand_text, parameters, position_text
from wengert.ops.addressing import CHECKED_INDEX


def epilogue(
    kernel: LoopKernel, product: str, dtype: DType, rows: int, columns: int, stored: bool = False
) -> Epilogue | None:
    """What takes the sums of a product of (batch, rows, columns) in the buffer `product`, of `dtype`.

    With `stored` the product is written as well. None where the kernel reduces, checks indices, or reads the product at
    another place than the element it makes.
    """
    kernel = merge_loops(kernel)
    statements = [s for stage in kernel.stages for s in (*stage.before, *stage.inside)] + kernel.after
    if kernel.inner or any(isinstance(s, Accumulate) for s in statements):
        return None
    if any(isinstance(s, Let) and s.op is CHECKED_INDEX for s in statements):
        return None
    if any(isinstance(s, Load) and s.buffer == product and not _is_own(s, kernel) for s in statements):
        return None
    buffers = {name: kind for name, kind in kernel.buffers.items() if name != product}
    if stored:
        buffers[product] = (dtype, True)
    names = {buffer: f"b{i}" for i, buffer in enumerate(buffers)}
    first = _of_column(kernel, statements, product, columns)
    rounded = "acc" if dtype == float32 or dtype.itemsize == 8 else widened(dtype, narrowed(dtype, "acc"))
    lines = [*_positions(kernel, rows, columns, bool(first)), f"const {scalar_type(dtype)} product = {rounded};"]
    lines += [line for s in statements if s not in first for line in _lines(s, names, product)]
    if stored:
        lines.append(f"{names[product]}[at] = {narrowed(dtype, 'product')};")
    declared = parameters(buffers, names, CUDA)
    by_column = [f"const long long {kernel.outer[-1].name} = column;"] if first else []
    by_column += [line for s in first for line in _lines(s, names, product)]
    return Epilogue(_text(lines), declared, tuple(names.values()), tuple(buffers), _text(by_column), kernel.comment)


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _of_column(
    kernel: LoopKernel, statements: Sequence[Statement], product: str, columns: int
) -> dict[Statement, None]:
    """The statements that are the same in every row, in order: they read what nobody writes, at the column."""
    if not kernel.outer or kernel.outer[-1].extent != columns:
        return {}
    found: dict[Statement, None] = {}
    known: set[str] = set()
    for s in statements:
        if not isinstance(s, Load | Let) or s.guards:
            continue
        if isinstance(s, Load):
            changes = s.buffer == product or kernel.buffers[s.buffer][1]
            is_one = not changes and s.index.loops() <= {kernel.outer[-1]}
        else:
            is_one = known.issuperset(uses(s))
        if is_one:
            found[s] = None
            known.add(s.name)
    return found


def _is_own(load: Load, kernel: LoopKernel) -> bool:
    """Whether a load is of the element that the loops stand at."""
    if load.guards or load.index.constant:
        return False
    extents = [loop.extent for loop in kernel.outer]
    steps = [math.prod(extents[k + 1 :]) for k in range(len(extents))]
    return all(load.index.factor(loop) == step for loop, step in zip(kernel.outer, steps))


def _positions(kernel: LoopKernel, rows: int, columns: int, has_column: bool) -> list[str]:
    """The loops' variables from the row, the column and the batch; that of the column may be there already."""
    lines = [f"const long long at = ((long long)batch * {rows} + row) * {columns} + column;"]
    flat, rest = "at", kernel.outer
    if rest and rest[-1].extent == columns:
        lines += [] if has_column else [f"const long long {rest[-1].name} = column;"]
        flat, rest = f"((long long)batch * {rows} + row)", rest[:-1]
    step = 1
    for loop in reversed(rest):
        quotient = f"{flat} / {step}" if step > 1 else flat
        step *= loop.extent
        lines.append(f"const long long {loop.name} = {quotient}{f' % {loop.extent}' if loop is not rest[0] else ''};")
    return lines


def _lines(statement: Statement, names: dict[str, str], product: str) -> Iterable[str]:
    if isinstance(statement, Store):
        value = narrowed(statement.dtype, operand_text(statement.value))
        yield f"{names[statement.buffer]}[{statement.index}] = {value};"
        return
    assert not isinstance(statement, Accumulate)
    yield f"const {scalar_type(statement.dtype)} {statement.name} = {_value(statement, names, product)};"


def _value(statement: Value, names: dict[str, str], product: str) -> str:
    if isinstance(statement, Let):
        return expression(statement, CUDA)
    if not isinstance(statement, Load):
        return position_text(statement)
    if statement.buffer == product:
        return "product"
    return loaded(statement, f"{names[statement.buffer]}[{statement.index}]")
