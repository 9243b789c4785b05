"""What a reduction accumulates, in CUDA C++: its type, its size, what it begins from."""

from __future__ import annotations

from collections.abc import Iterable

from wengert.core.dtypes import HALF, bool_, float32
from wengert.kernels.ir.loops import Accumulate, DType, Statement
from wengert.kernels.writer import operand_text, scalar_type, stored_type


def state_type(reduction: Accumulate) -> str:
    """The C type of what accumulates."""
    kind = scalar_type(reduction.dtype)
    if reduction.position is None:
        return kind
    return f"wg_place<{kind}, {'int' if reduction.position.bounds()[1] < 1 << 31 else 'int64_t'}>"


def state_bytes(reduction: Accumulate) -> int:
    """The size of what accumulates."""
    return 16 if reduction.kind in ("argmax", "argmin") else 4 if reduction.dtype in HALF else reduction.dtype.itemsize


def state_dtype(reduction: Accumulate) -> DType:
    """The dtype that parts of a reduction have in memory (but for argmax and argmin)."""
    return float32 if reduction.dtype in HALF else reduction.dtype


def partials_name(reduction: Accumulate) -> str:
    """What the parts of a reduction are called."""
    return f"{reduction.name}_partial"


def result_name(reduction: Accumulate) -> str:
    """What a reduction is called that a launch leaves for the next one."""
    return f"{reduction.name}_total"


def accumulated(reduction: Accumulate) -> str:
    """What an element adds to what accumulates."""
    kind, value = state_type(reduction), operand_text(reduction.value)
    if reduction.position is not None:
        return f"{kind}{{{value}, {reduction.position}}}"
    return f"({kind})({value} != 0)" if reduction.kind in ("all", "any") else f"({kind}){value}"


def result_type(reduction: Accumulate) -> str:
    """The C type of a finished reduction."""
    return "int64_t" if reduction.kind in ("argmax", "argmin") else scalar_type(reduction.dtype)


def start(reduction: Accumulate) -> str:
    """What accumulating begins from."""
    if reduction.kind in ("argmax", "argmin"):
        return f"{state_type(reduction)}{{{_extreme(reduction)}, INT32_MAX}}"
    return {"sum": "0", "prod": "1", "all": "1", "any": "0"}.get(reduction.kind) or _extreme(reduction)


def _extreme(reduction: Accumulate) -> str:
    """The number that loses against every other."""
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


def reductions_in(statements: Iterable[Statement]) -> list[Accumulate]:
    """The reductions that a pass accumulates."""
    return [s for s in statements if isinstance(s, Accumulate)]
