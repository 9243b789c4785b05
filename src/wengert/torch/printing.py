"""How a tensor looks: as PyTorch prints it."""

from __future__ import annotations

import math
import re
import sys
from typing import Any

import numpy as np

from wengert.core.errors import AbstractValueError
from wengert.tensor import engine
from wengert.torch import dtypes
from wengert.torch.tensor import Tensor

options: dict[str, Any] = {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80, "sci_mode": None}


_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed: a profile ("default", "short", "full") and individual settings."""
    options.update(_PROFILES[profile] if profile is not None else {})
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options.update({name: value for name, value in given.items() if value is not None})
    options["sci_mode"] = sci_mode


def text(x: Tensor) -> str:
    """`tensor([1., 2.], dtype=torch.float64, requires_grad=True)`; reads the value."""
    name = "Parameter containing:\ntensor" if type(x).__name__ == "Parameter" else "tensor"
    if hasattr(type(x), "_asks_torch_function"):  # a class that a program derived from Tensor
        name = type(x).__name__
    facts = []
    if x.node.device != "cpu":
        facts.append(f"device='{x.device}'")
    if x.node.device.startswith("meta"):
        return _without_values(x, name, [*facts, f"size={tuple(x.shape)}"])
    try:
        array = engine.value(x.detach().node)
    except AbstractValueError:
        return f"{name}(..., size={tuple(x.shape)}, dtype={x.dtype})"
    shown = _values(array, f"{name.rpartition(chr(10))[2]}(")
    if array.size == 0 and array.ndim != 1:
        facts.append(f"size={tuple(x.shape)}")
    if not _is_implied(x.node.dtype) or (array.size == 0 and x.node.dtype is not dtypes.default()):
        facts.append(f"dtype={x.dtype}")
    return f"{name}({', '.join([shown, *facts, *_history(x)])})"


def _without_values(x: Tensor, name: str, facts: list[str]) -> str:
    """A tensor on the device "meta"."""
    dtype = [] if _is_implied(x.node.dtype) else [f"dtype={x.dtype}"]
    return f"{name}({', '.join(['...', *facts, *dtype, *_history(x)])})"


def _is_implied(dtype: np.dtype[Any]) -> bool:
    """Whether a tensor's numbers tell its dtype."""
    return dtype in (dtypes.default(), np.dtype(np.int64), np.dtype(np.bool_), dtypes.d.complex_of(dtypes.default()))


def _history(x: Tensor) -> list[str]:
    if not x.node.tracked:
        return []
    return ["requires_grad=True" if x._is_variable() else f"grad_fn={x.grad_fn!r}"]


def _values(array: np.ndarray[Any, Any], prefix: str) -> str:
    if array.dtype.kind == "V":
        array = array.astype(np.float32)
    style: Any = None
    if array.dtype.kind == "f" and array.size:
        style = {"float_kind": _float_style(array)}
    elif array.dtype.kind == "b" and array.size:
        width = max(len(str(value)) for value in np.unique(array))
        style = {"bool": lambda value: str(value).rjust(width)}
    shown = np.array2string(
        array,
        separator=", ",
        prefix=prefix,
        threshold=min(options["threshold"], sys.maxsize),
        edgeitems=options["edgeitems"],
        max_line_width=options["linewidth"],
        precision=options["precision"],
        formatter=style,
    )
    return re.sub(r", \.\.\., ", ",  ..., ", shown)


def _float_style(array: np.ndarray[Any, Any]) -> Any:
    """PyTorch's choice between integers with a point, fixed and scientific notation, all of one width."""
    finite = array[np.isfinite(array) & (array != 0)]
    precision = options["precision"]
    if finite.size == 0 or np.all(finite == np.floor(finite)):
        plain = finite.size == 0 or np.abs(finite).max() < 1e8
        form = "{:.0f}." if plain else f"{{:.{precision}e}}"
    else:
        high, low = np.abs(finite).max(), np.abs(finite).min()
        scientific = options["sci_mode"]
        if scientific is None:
            scientific = high / low > 1000 or high > 1e8 or low < 1e-4
        form = f"{{:.{precision}e}}" if scientific else f"{{:.{precision}f}}"

    def write(value: Any) -> str:
        return form.format(value) if np.isfinite(value) else str(float(value))

    width = max((len(write(value)) for value in array.ravel()[: min(4 * options["threshold"], array.size)]), default=0)
    return lambda value: write(value).rjust(width)
