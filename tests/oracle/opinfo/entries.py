"""The entries of OpInfo, each with its counterpart here where there is one."""

from __future__ import annotations

import random
import re
import sys
import types
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import wengert as wg
from tests.oracle.opinfo import counterparts, linear_algebra
from tests.oracle.opinfo.samples import Sample, taken_apart

SPELLED = {**counterparts.SPELLED, **linear_algebra.SPELLED}
NAMESPACES = {
    "": wg,
    "nn.functional": wg,
    "special": wg.special,
    "linalg": wg.linalg,
    "fft": wg.fft,
    "signal.windows": wg.windows,
}


@dataclass
class Entry:
    """An operator of PyTorch: how it is called there and here."""

    name: str
    info: Any
    theirs: Callable[..., Any]
    ours: Callable[..., Any]
    through_torch: bool = False

    @property
    def second_order(self) -> bool:
        return bool(self.info.supports_gradgrad)

    def samples(self, dtype: str) -> Iterator[Sample]:
        """The samples of this dtype, always the same ones; none if PyTorch does not support it."""
        kind = getattr(torch, dtype)
        if kind not in self.info.dtypes:
            return
        torch.manual_seed(0)
        random.seed(0)
        derivable = kind.is_floating_point or kind.is_complex
        tracked = derivable and self.info.supports_autograd
        for sample in self.info.sample_inputs("cpu", kind, requires_grad=tracked):
            try:
                found = taken_apart(sample)
            except TypeError:  # a sparse tensor is no array
                continue
            yield found


def database() -> list[Any]:
    """PyTorch's entries."""
    if "expecttest" not in sys.modules:
        # The module of the database imports it for PyTorch's own tests. It need not be installed to read the samples.
        try:
            import expecttest  # noqa: F401
        except ImportError:
            missing = types.ModuleType("expecttest")
            missing.TestCase = unittest.TestCase  # type: ignore[attr-defined]
            sys.modules["expecttest"] = missing
    from torch.testing._internal.common_methods_invocations import op_db

    return list(op_db)


def full_name(info: Any) -> str:
    """The name of an entry with its variant: `max/binary`."""
    return f"{info.name}/{info.variant_test_name}" if info.variant_test_name else info.name


def counterpart(name: str) -> Callable[..., Any] | None:
    """The function here that an entry is compared with."""
    plain = name.split("/")[0]
    for known in (name, plain):
        if known in SPELLED:
            return SPELLED[known]
    namespace, _, function = plain.rpartition(".")
    if plain in counterparts.OTHER_MEANING or namespace not in NAMESPACES:
        return None
    found = vars(NAMESPACES[namespace]).get(function)
    return found if callable(found) and not isinstance(found, type) else None


def entries(pattern: str = "", through_torch: bool = False) -> list[Entry]:
    """The entries with a counterpart whose names match: in Wengert by adapters, or in `wengert.torch` as they are."""
    found = []
    for info in database():
        name = full_name(info)
        ours = _through(info) if through_torch else counterpart(name)
        if ours is None or not re.search(pattern, name):
            continue
        invariant = linear_algebra.INVARIANTS.get(name.split("/")[0])
        theirs = info.op
        if getattr(info.gradcheck_wrapper, "__name__", "") == "gradcheck_wrapper_hermitian_input":
            theirs, ours = _of_hermitian(theirs), _of_hermitian(ours)
        if invariant is not None:
            theirs, ours = _followed(theirs, invariant), _followed(ours, invariant)
        found.append(Entry(name, info, theirs, ours, through_torch))
    return found


def _through(info: Any) -> Callable[..., Any] | None:
    from tests.oracle.opinfo import through

    return through.counterpart(info) if through.is_present(info) else None


def _followed(function: Callable[..., Any], by: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda *args, **kwargs: by(function(*args, **kwargs))


def _of_hermitian(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of x + xᴴ: OpInfo's samples of such functions are not symmetric themselves."""

    def applied(x: Any, *args: Any, **kwargs: Any) -> Any:
        return function(x + (x.mH if isinstance(x, torch.Tensor) else wg.conj(x.mT)), *args, **kwargs)

    return applied
