"""Case: one call of a public function that the registry-driven suite checks from every side.

Each family lists its cases in `tests/ops/cases_FAMILY.py` as `CASES: list[Case]`; `test_every_op.py` finds them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass
class Case:
    """A call `wg.NAME(*args, **kwargs)` and what it is checked against.

    Arrays among the arguments (also inside lists) are NumPy arrays, floating ones in float64; the suite turns them into
    tensors, into torch tensors, and into other dtypes.
    """

    name: str  # the public name, dotted within a namespace: "sum", "linalg.inv"
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    numpy: Callable[..., Any] | None = None  # the same call on NumPy arrays (args and kwargs passed as they are)
    torch: Callable[..., Any] | None = None  # the same call on torch tensors
    differentiable: bool = True  # by all floating array arguments; the result's floating parts
    second_order: bool = True
    vmap: bool = True  # compared with a Python loop over lanes, every floating array argument mapped
    half: bool = True  # also run in float32, float16, bfloat16 against float64 rounded
    invariant: Callable[..., Any] | None = None  # applied to the result before differentiating (gauge-invariant part)
    note: str = ""  # why something is switched off

    def __str__(self) -> str:
        shapes = ",".join(str(a.shape) if isinstance(a, np.ndarray) else repr(a)[:20] for a in self.args)
        options = ",".join(f"{k}={v!r}"[:30] for k, v in self.kwargs.items())
        return f"{self.name}({shapes}{';' if options else ''}{options})"


def arrays(seed: int, *shapes: tuple[int, ...], low: float = -2.0, high: float = 2.0) -> tuple[np.ndarray, ...]:
    """Random float64 arrays of these shapes, uniform between low and high."""
    rng = np.random.default_rng(seed)
    return tuple(rng.uniform(low, high, shape) for shape in shapes)
