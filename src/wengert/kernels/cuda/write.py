"""From a kernel to its launches: chooses the shape of work.

Kernels that differ only in the names of their buffers, such as those of a model's equal layers, are generated once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from wengert.kernels.cuda.column_partials import column_partials
from wengert.kernels.cuda.columns import columns
from wengert.kernels.cuda.fixed_shapes import fixed_shape, order_of
from wengert.kernels.cuda.in_place import reads_first
from wengert.kernels.cuda.rewrites import one_pass_variance, with_fast_exponentials, with_reciprocals
from wengert.kernels.cuda.rows import rows
from wengert.kernels.cuda.shapes import Columns, Elements, Rows, Shape, Tiles, elements_shape, reduction_shape
from wengert.kernels.cuda.shared_rows import shared_rows
from wengert.kernels.cuda.source import CudaPage, Names, Pass, unravel
from wengert.kernels.cuda.tiles import tiles
from wengert.kernels.ir.intrinsics import DIVIDE_BY_RECIPROCAL, SHIFTED_SQUARES
from wengert.kernels.ir.loops import Accumulate, Let, LoopKernel
from wengert.kernels.ir.transforms import crosses, merge_loops, statements_of, symbols, with_buffers
from wengert.kernels.launch import Argument, DeviceProperties, LaunchList


def elements(kernel: LoopKernel, shape: Elements, why: str) -> LaunchList:
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
    return LaunchList((launch,))


# --- write ----------------------------------------------------------------------------------------------------------


_REMEMBERED = 2048  # launch lists: those of several large models
_works: dict[Hashable, Any] = {}
Written = TypeVar("Written")


def write(kernel: LoopKernel, device: DeviceProperties, shape: Shape | None = None) -> LaunchList:
    """The launches of a kernel on a device, with a given shape or the derived one."""
    names = {name: f"buffer{number}" for number, name in enumerate(kernel.buffers)}
    common = with_buffers(kernel, names)
    work = _remembered((_content(common), device, shape), lambda: _written(common, device, shape))
    return _with_arguments(work, {name: own for own, name in names.items()})


def write_column_partials(
    rows: LoopKernel, columns: Sequence[LoopKernel], device: DeviceProperties
) -> tuple[LaunchList, list[LoopKernel]] | None:
    """The launch of a kernel over rows with some over its columns, and the final reductions of these; None where one
    launch for each is better. Partial sums are the work's temporaries, and buffers of the final reductions."""
    buffers = dict.fromkeys(name for kernel in (rows, *columns) for name in kernel.buffers)
    names = {name: f"buffer{number}" for number, name in enumerate(buffers)}
    common = [with_buffers(kernel, names) for kernel in (rows, *columns)]
    found = _remembered((*map(_content, common), device), lambda: _partials_written(common[0], common[1:], device))
    if found is None:
        return None
    work, final = found
    own = {name: given for given, name in names.items()}
    return _with_arguments(work, own), [
        with_buffers(k, {name: own.get(name, name) for name in k.buffers}) for k in final
    ]


def write_in_place(
    kernel: LoopKernel, result: str, operand: str, device: DeviceProperties, shape: Shape | None = None
) -> tuple[LoopKernel, LaunchList] | None:
    """A kernel that writes a result over an operand, and its launches; None if that would be wrong."""
    joined = joined_buffers(kernel, result, operand)
    prepared, shaped, _ = _prepared(joined, device, shape)
    return (joined, write(joined, device, shape)) if reads_first(prepared, shaped, operand) else None


def joined_buffers(kernel: LoopKernel, result: str, operand: str) -> LoopKernel:
    """A kernel with one buffer for a result and an operand."""
    joined = with_buffers(kernel, {name: operand if name == result else name for name in kernel.buffers})
    joined.buffers[operand] = kernel.buffers[result]
    return joined


def _remembered(key: Hashable, written: Callable[[], Written]) -> Written:
    if key not in _works:
        if len(_works) >= _REMEMBERED:
            _works.clear()
        _works[key] = written()
    found: Written = _works[key]
    return found


def _partials_written(
    rows: LoopKernel, columns: Sequence[LoopKernel], device: DeviceProperties
) -> tuple[LaunchList, list[LoopKernel]] | None:
    rows = with_fast_exponentials(rows)
    shape, why = launch_shape(merge_loops(rows), device)
    return column_partials(rows, columns, shape, device, why) if isinstance(shape, Rows) else None


def _content(kernel: LoopKernel) -> Hashable:
    """All that a kernel is."""
    stages = tuple((tuple(stage.before), tuple(stage.inside)) for stage in kernel.stages)
    held = (tuple(kernel.buffers.items()), tuple(kernel.scratch.items()))
    return kernel.name, kernel.comment, tuple(kernel.outer), tuple(kernel.inner), stages, tuple(kernel.after), *held


def _with_arguments(work: LaunchList, names: Mapping[str, str]) -> LaunchList:
    """Launches on other buffers; temporaries keep their names."""

    def renamed(argument: Argument) -> Argument:
        return names.get(argument, argument) if isinstance(argument, str) else argument

    launches = [replace(launch, arguments=tuple(map(renamed, launch.arguments))) for launch in work.launches]
    return LaunchList(tuple(launches), work.workspace)


def _written(kernel: LoopKernel, device: DeviceProperties, shape: Shape | None) -> LaunchList:
    if not math.prod(loop.most for loop in kernel.outer):
        return LaunchList(())
    kernel, shape, why = _prepared(kernel, device, shape)
    if isinstance(shape, Elements):
        return elements(kernel, shape, why)
    if isinstance(shape, Rows) and shape.in_shared:
        return shared_rows(kernel, shape, device, why)
    if isinstance(shape, Rows):
        return rows(kernel, shape, device, why)
    if isinstance(shape, Tiles):
        return tiles(kernel, shape, why)
    assert isinstance(shape, Columns)
    return columns(kernel, shape, why)


def _prepared(
    kernel: LoopKernel, device: DeviceProperties, shape: Shape | None = None
) -> tuple[LoopKernel, Shape, str]:
    """The kernel to generate instead of a kernel, its shape, and the reason for the shape."""
    if device.invariant and shape is None:
        return _prepared_in_order(kernel, device)
    kernel = with_fast_exponentials(merge_loops(kernel))
    why = "as asked"
    if shape is None:
        kernel = one_pass_variance(kernel) if crosses(kernel) else kernel
        shape, why = launch_shape(kernel, device)
    if isinstance(shape, Elements):
        return kernel, shape, why
    if isinstance(shape, Columns) or (isinstance(shape, Rows) and not shape.chunks and not shape.in_shared):
        kernel = one_pass_variance(kernel)
    return with_reciprocals(kernel), shape, why


def _prepared_in_order(kernel: LoopKernel, device: DeviceProperties) -> tuple[LoopKernel, Shape, str]:
    """The same under `config.invariant`: without rewrites, because what they find depends on the rest of the kernel."""
    merged = merge_loops(kernel)
    shaped = fixed_shape(merged, order_of(kernel), device) if reduces(kernel) else elements_shape(merged, device)
    return merged, *shaped


def rewrites_of(kernel: LoopKernel, device: DeviceProperties) -> list[str]:
    """The names of the rewrites that change a kernel, recognised by what they leave in it."""
    lets = [s for s in statements_of(_prepared(kernel, device)[0]) if isinstance(s, Let)]
    found = {
        one_pass_variance.__name__: any(s.op is SHIFTED_SQUARES for s in lets),
        with_fast_exponentials.__name__: any(s.fast for s in lets),
        with_reciprocals.__name__: any(s.op is DIVIDE_BY_RECIPROCAL for s in lets),
    }
    return [name for name, is_there in found.items() if is_there]


def launch_shape(kernel: LoopKernel, device: DeviceProperties) -> tuple[Shape, str]:
    """The derived shape of a kernel with merged loops, and the reason."""
    return reduction_shape(kernel, device) if reduces(kernel) else elements_shape(kernel, device)


def reduces(kernel: LoopKernel) -> bool:
    """Whether a kernel has reductions, or passes over rows as if it had."""
    return bool(kernel.inner) or any(isinstance(s, Accumulate) for s in statements_of(kernel))
