"""`autocast`: mixed precision, through casts that are recorded with the ops.

Every op has a `precision` (see `ops.op`), and inside `autocast` its operands are cast accordingly before it is
recorded. A public function made of several ops may have a precision as a whole: then its arguments are cast, and
autocast is off inside it. The table is PyTorch's for CUDA; docs/mixed-precision.md has it.

The casts are nodes like others. So a parameter in float32 gets its gradient in float32: the gradient of a lowered
matrix product is computed in the low dtype, added up in float32 within the product, and cast back. On a device that
cast belongs to the product where its kernel is ours, which then writes its float32 sums without rounding them; a
library's product rounds them first.

What is recorded from nodes that are there already (derivatives, vmap's lanes, the bodies of scan, cond and checkpoint,
rewriting) is recorded with autocast off, since its operands have the right dtypes. So it makes no difference whether
`loss.backward()` is called inside or outside.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from wengert.core.context import Setting
from wengert.core.devices import is_kind
from wengert.core.dtypes import HALF, as_dtype, bfloat16
from wengert.core.errors import DTypeError


def autocast(dtype: Any = bfloat16, enabled: bool = True) -> AbstractContextManager[None]:
    """A context for mixed precision: matrix products, convolutions and attention are computed in `dtype`; ops that need
    more precision (exp, log, sums, norms, losses) in float32; all others in the promoted dtype of their operands.

    `dtype` is bfloat16 or float16 (which needs `wg.optim.GradScaler`). Parameters stay in float32, and so do their
    gradients; float64 operands are never lowered. `enabled=False` switches autocast off inside, also when nested. It
    applies per thread and task, and also works as a decorator.

    >>> import wengert as wg
    >>> w, x = wg.ones((2, 2), requires_grad=True), wg.ones((2, 2))
    >>> with wg.autocast():
    ...     y = x @ w
    ...     loss = (y * y).sum()
    >>> y.dtype.name, loss.dtype.name
    ('bfloat16', 'float32')
    >>> loss.backward()
    >>> w.grad.dtype.name
    'float32'
    """
    if isinstance(dtype, str) and is_kind(dtype):
        raise DTypeError(f"autocast: {dtype!r} is a device, but autocast applies to all devices; leave it out")
    low = as_dtype(dtype)
    if enabled and low not in HALF:
        raise DTypeError(f"autocast: the dtype must be bfloat16 or float16, not {low}")
    return Setting("autocast", low if enabled else None)
