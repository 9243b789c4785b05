"""`torch.testing`: `assert_close`, and `make_tensor` for samples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import wengert as wg
from wengert.torch import dtypes
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.tensor import Tensor, of

_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Any = None,
) -> None:
    """Raise AssertionError unless values agree within tolerances, which follow from the dtype; also in containers."""
    if isinstance(expected, Mapping):
        if not isinstance(actual, Mapping) or actual.keys() != expected.keys():
            raise AssertionError("The keys of the mappings do not match")
        pairs = [(actual[key], expected[key]) for key in expected]
    elif isinstance(expected, Sequence) and not isinstance(expected, str):
        if not isinstance(actual, Sequence) or len(actual) != len(expected):
            raise AssertionError("The length of the sequences mismatch")
        pairs = list(zip(actual, expected))
    else:
        wrong = _difference(actual, expected, rtol, atol, equal_nan, check_dtype, check_device)
        if wrong is not None:
            raise AssertionError(msg(wrong) if callable(msg) else msg or wrong)
        return
    options: dict[str, Any] = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "msg": msg}
    for one, other in pairs:
        assert_close(one, other, check_dtype=check_dtype, check_device=check_device, **options)


def _difference(
    actual: Any, expected: Any, rtol: float | None, atol: float | None, equal_nan: bool, dtype: bool, device: bool
) -> str | None:
    """What differs, in PyTorch's words; None if nothing does."""
    if actual is None or expected is None:
        return None if actual is expected else f"Expected {expected!r} but got {actual!r}."
    a, b = (x if isinstance(x, wg.Tensor) else of(x) for x in (actual, expected))
    if a.node.shape != b.node.shape:
        return f"The values for attribute 'shape' do not match: {a.shape} != {b.shape}."
    if device and a.node.device != b.node.device:
        return f"The values for attribute 'device' do not match: {a.device} != {b.device}."
    both = isinstance(actual, wg.Tensor) and isinstance(expected, wg.Tensor)
    if dtype and both and a.node.dtype is not b.node.dtype:
        return f"The values for attribute 'dtype' do not match: {a.dtype} != {b.dtype}."
    x, y = (np.array(v.detach().numpy()) for v in (a, b))
    known = [_TOLERANCES.get(dtypes.of(v.dtype).name, (0.0, 0.0)) for v in (x, y)]
    relative = max(t[0] for t in known) if rtol is None else rtol
    absolute = max(t[1] for t in known) if atol is None else atol
    wide = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
    close = np.isclose(x.astype(wide), y.astype(wide), relative, absolute, equal_nan)
    if close.all():
        return None
    apart = np.abs(x.astype(wide) - y.astype(wide))
    greatest = float(np.nanmax(np.where(close, 0, apart)))
    count = int((~close).sum())
    return (
        f"Tensor-likes are not close!\n\nMismatched elements: {count} / {x.size} ({100 * count / x.size:.1f}%)\n"
        f"Greatest absolute difference: {greatest} (up to {absolute} allowed)"
    )


def assert_allclose(actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, **_: Any) -> None:
    """`assert_close`, whatever the dtypes and devices."""
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True, check_dtype=False, check_device=False)


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    exclude_zero: bool = False,
    **options: Any,
) -> Tensor:
    """Random values of a shape and dtype, between two bounds."""
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    kind = np.dtype(dtype)
    whole = kind.kind in "iub"
    least = (0 if kind.kind in "ub" else -9) if low is None else low
    most = (2 if kind.kind == "b" else 10 if whole else 9) if high is None else high
    if whole:
        made = of(wg.random.randint(int(least), math.ceil(most), sizes), kind)
    elif kind.kind == "c":
        parts = [of(wg.random.uniform(sizes, least, most, dtype=dtypes.d.real_of(kind))) for _ in range(2)]
        made = of(parts[0] + parts[1] * 1j, kind)
    else:
        made = of(wg.random.uniform(sizes, least, most), kind)
    if exclude_zero:
        made = of(wg.where(made == 0, wg.ones_like(made), made))
    made = of(made.to(str(device)))
    if requires_grad:
        made.requires_grad = True
    return made


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.testing", name)
