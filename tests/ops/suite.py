"""The parts of the registry-driven suite: collecting the cases, calling a case in some dtype, comparing results.

`test_every_op.py` is the tests themselves. A case's arguments are taken apart into their arrays and put together again
around tensors, so every check is a function of a list of arrays.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from tests.ops.case import Case
from wengert.core import tree

NAMESPACES = ("linalg", "fft", "special", "windows")
LANES = 3


def collect() -> list[Case]:
    """The cases of every family, file by file."""
    found: list[Case] = []
    for path in sorted(Path(__file__).parent.glob("cases_*.py")):
        found += importlib.import_module(f"tests.ops.{path.stem}").CASES
    return found


def identifier(case: Case) -> str:
    """What the case is called in reports: the same in every process, so without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(case)).encode("ascii", "replace").decode()


def public_functions() -> dict[str, Callable[..., Any]]:
    """What users call, by dotted name: the functions of the package, of linalg, fft and special."""
    from wengert.api import functions

    found = {name: getattr(functions, name) for name in functions.__all__}
    for space in NAMESPACES:
        module = getattr(wg, space, None)
        names = getattr(module, "__all__", [n for n in dir(module) if not n.startswith("_")]) if module else []
        found.update((f"{space}.{name}", getattr(module, name)) for name in names)
    return {name: f for name, f in found.items() if callable(f) and not inspect.isclass(f) and not inspect.ismodule(f)}


def function_of(case: Case) -> Callable[..., Any]:
    """The public function a case calls."""
    target: Any = wg
    for part in case.name.split("."):
        target = getattr(target, part)
    return target


class Call:
    """A case as a function of its arrays."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.leaves, self.structure = tree.flatten((case.args, case.kwargs))
        self.floating = [i for i, leaf in enumerate(self.leaves) if _is_array(leaf) and leaf.dtype == np.float64]
        self.integers = [i for i, leaf in enumerate(self.leaves) if _is_array(leaf) and leaf.dtype.kind in "iu"]

    def __call__(self, *moving: wg.Tensor, places: Sequence[int] | None = None) -> Any:
        """The function with tensors in these places (those of the floating arrays, if not said)."""
        filled = [wg.tensor(leaf, copy=False) if _is_array(leaf) else leaf for leaf in self.leaves]
        for i, value in zip(self.floating if places is None else places, moving):
            filled[i] = value
        args, kwargs = tree.unflatten(self.structure, filled)
        return function_of(self.case)(*args, **kwargs)

    def invariant(self, *moving: wg.Tensor) -> Any:
        """The part of the result that has a derivative."""
        result = self(*moving)
        return self.case.invariant(result) if self.case.invariant else result

    def tensors(self, dtype: Any = np.float64) -> list[wg.Tensor]:
        """The floating arrays as tensors."""
        return [wg.tensor(self.leaves[i].astype(dtype, copy=False), copy=False) for i in self.floating]


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray)


def values(result: Any) -> list[np.ndarray]:
    """The leaves of a result (of Wengert, NumPy or torch) as arrays."""
    return [_value(leaf) for leaf in tree.flatten(result)[0]]


def _value(leaf: Any) -> np.ndarray:
    if hasattr(leaf, "detach") and not isinstance(leaf, wg.Tensor):
        return leaf.detach().resolve_conj().resolve_neg().numpy()
    return leaf.numpy() if isinstance(leaf, wg.Tensor) else np.asarray(leaf)


def assert_equal(found: Any, expected: Any, rtol: float = 1e-7, atol: float = 1e-9, dtype: Any = None) -> None:
    """Raise unless two results have the same shapes and values; `dtype` is one the expected values are rounded to."""
    got, wanted = values(found), values(expected)
    assert len(got) == len(wanted), f"{len(got)} results instead of {len(wanted)}"
    for a, b in zip(got, wanted):
        assert a.shape == b.shape, f"shape {a.shape} instead of {b.shape}"
        if dtype is not None and b.dtype.kind == "f":
            with np.errstate(over="ignore"):
                a, b = a.astype(np.float64), b.astype(dtype).astype(np.float64)
        np.testing.assert_allclose(a, b, rtol, atol, equal_nan=True)


# --- lanes ----------------------------------------------------------------------------------------------------------


def lanes_of(array: np.ndarray, seed: int) -> np.ndarray:
    """Lanes of values near an array's: the array itself, and others a few percent away, which stay in any open domain.

    The lanes of an integer array are all the same: other indices might not exist.
    """
    if array.dtype.kind != "f":
        return np.stack([array] * LANES)
    noise = np.random.default_rng(seed).uniform(-0.03, 0.03, (LANES, *array.shape))
    noise[0] = 0
    return array * (1 + noise)


def mapped_places(call: Call) -> list[list[int]]:
    """Which arrays get lanes: all floating ones, each of them alone, and the indices."""
    choices = [call.floating]
    if len(call.floating) > 1:
        choices += [[i] for i in call.floating]
    if call.integers:
        choices.append(call.integers)
    return [choice for choice in choices if choice]


def over_lanes(call: Call, places: list[int]) -> tuple[Any, Any]:
    """The results of a case over lanes, by vmap and by a Python loop with the results stacked."""
    stacked = [lanes_of(call.leaves[i], seed=i) for i in places]
    function = lambda *moving: call(*moving, places=places)
    found = wg.vmap(function)(*map(wg.tensor, stacked))
    rows = [values(function(*[wg.tensor(lanes[k]) for lanes in stacked])) for k in range(LANES)]
    return found, [np.stack(column) for column in zip(*rows)]


# --- dtypes ---------------------------------------------------------------------------------------------------------

# Each op rounds once; a composition of a dozen rounds a dozen times, and cancellation magnifies that.
TOLERANCES = {wg.float32: (1e-4, 1e-5), wg.float16: (1e-2, 1e-2), wg.bfloat16: (6e-2, 6e-2)}


def check_dtype(call: Call, dtype: Any) -> None:
    """The result in a narrower dtype: that of float64 on the rounded inputs, and of that dtype."""
    narrow = call.tensors(dtype)
    found = call(*narrow)
    exact = call(*[wg.tensor(t.numpy().astype(np.float64)) for t in narrow])
    rtol, atol = TOLERANCES[dtype]
    assert_equal(found, exact, rtol, atol * _scale(exact), dtype)
    if "dtype" in call.case.kwargs:
        return
    for got, wide in zip(tree.flatten(found)[0], tree.flatten(exact)[0]):
        if isinstance(got, wg.Tensor) and wide.dtype is wg.float64:
            assert got.dtype is dtype, f"the result of {dtype} operands has dtype {got.dtype}"


def _scale(result: Any) -> float:
    """The size of a result's largest finite element, and at least 1: rounding errors of a sum are of that order."""
    sizes = [float(np.max(np.abs(v[np.isfinite(v)]), initial=0)) for v in values(result) if v.dtype.kind in "fc"]
    return max([1.0, *(s for s in sizes if math.isfinite(s))])
