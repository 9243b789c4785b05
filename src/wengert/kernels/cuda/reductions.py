"""What a reduction accumulates, in CUDA C++: its type, its size, what it begins from."""

from __future__ import annotations

from collections.abc import Iterable

from wengert.core.dtypes import HALF, bool_, float32
from wengert.kernels.expressions import scalar_type, stored_type
from wengert.kernels.ir.loops import Accumulate, DType, Statement
from wengert.kernels.writer import operand_text


def state_type(total: Accumulate) -> str:
    """The C type of what accumulates."""
    kind = scalar_type(total.dtype)
    if total.position is None:
        return kind
    return f"wg_place<{kind}, {'int' if total.position.bounds()[1] < 1 << 31 else 'int64_t'}>"


def state_bytes(total: Accumulate) -> int:
    """The size of what accumulates."""
    return 16 if total.kind in ("argmax", "argmin") else 4 if total.dtype in HALF else total.dtype.itemsize


def state_dtype(total: Accumulate) -> DType:
    """The dtype that parts of a total have in memory (but for argmax and argmin)."""
    return float32 if total.dtype in HALF else total.dtype


def parts_name(total: Accumulate) -> str:
    """What the parts of a total are called."""
    return f"{total.total}_partial"


def total_name(total: Accumulate) -> str:
    """What a total is called that a launch leaves for the next one."""
    return f"{total.total}_total"


def accumulated(total: Accumulate) -> str:
    """What an element adds to what accumulates."""
    kind, value = state_type(total), operand_text(total.value)
    if total.position is not None:
        return f"{kind}{{{value}, {total.position}}}"
    return f"({kind})({value} != 0)" if total.kind in ("all", "any") else f"({kind}){value}"


def total_type(total: Accumulate) -> str:
    """The C type of a finished total."""
    return "int64_t" if total.kind in ("argmax", "argmin") else scalar_type(total.dtype)


def start(total: Accumulate) -> str:
    """What accumulating begins from."""
    if total.kind in ("argmax", "argmin"):
        return f"{state_type(total)}{{{_extreme(total)}, INT32_MAX}}"
    return {"sum": "0", "prod": "1", "all": "1", "any": "0"}.get(total.kind) or _extreme(total)


def _extreme(total: Accumulate) -> str:
    """The number that loses against every other."""
    largest = total.kind in ("min", "argmin")
    dtype = total.dtype
    if dtype in HALF or dtype.kind == "f":
        end = "" if dtype.itemsize == 8 else "f"
        return f"__builtin_inf{end}()" if largest else f"(-__builtin_inf{end}())"
    if dtype is bool_:
        return "1" if largest else "0"
    if dtype.kind == "u":
        return f"({stored_type(dtype)})-1" if largest else "0"
    return f"INT{8 * dtype.itemsize}_{'MAX' if largest else 'MIN'}"


def totals_in(statements: Iterable[Statement]) -> list[Accumulate]:
    """The reductions that a pass accumulates."""
    return [s for s in statements if isinstance(s, Accumulate)]
