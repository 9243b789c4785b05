"""A slice of PyTorch's OpInfo; `python -m tests.oracle.opinfo` compares every sample of every entry."""

from __future__ import annotations

import warnings
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch, the other implementation to compare with, is not installed")

from tests.oracle.opinfo.entries import Entry, counterpart, entries
from tests.oracle.opinfo.judge import Unsuitable, Verdict, judge

NAMES = (  # noqa: SIM905
    "add sub mul div/floor_rounding pow exp log1p sqrt sigmoid tanh maximum clamp where sum mean prod amax "
    "logsumexp cumsum sort topk gather scatter_add cat stack reshape transpose flip roll tril diagonal "
    "diag_embed matmul einsum linalg.solve linalg.cholesky linalg.eigh nn.functional.softplus "
    "nn.functional.layer_norm nn.functional.cross_entropy nn.functional.conv2d nn.functional.max_pool2d "
    "nn.functional.pad/reflect sinc xlogy fmod cov cdist trapezoid "
).split()
SAMPLES = 3
REFUSALS = (
    "value is 0-d",  # which has an axis 0 in PyTorch, and none here
    "0-d value has no axis",
    "takes floating-point values",
    "'fweights'",
)


@pytest.fixture(scope="module")
def chosen() -> dict[str, Entry]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = entries("^(" + "|".join(NAMES) + ")$")
    return {entry.name: entry for entry in found}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("name", NAMES)
def test_samples_agree(name: str, dtype: str, chosen: dict[str, Entry]) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for sample in islice(chosen[name].samples(dtype), SAMPLES):
            verdict = judge(chosen[name], sample, compiled=False, vmapped=True)
            assert not verdict.wrong, (verdict.wrong, str(sample))
            assert verdict.agree or verdict.refused
            for check, error in verdict.refused:
                assert any(words in str(error) for words in REFUSALS), (check, str(sample))


def _verdict(entry: Entry, ours: Any) -> Verdict:
    sample = next(iter(entry.samples("float64")))
    return judge(replace(entry, ours=ours), sample, compiled=False, vmapped=False)


def test_a_wrong_number_a_wrong_derivative_and_an_error_are_told_apart(chosen: dict[str, Entry]) -> None:
    """The judge itself: it has to see what is put before it."""
    import wengert as wg

    right = counterpart("exp")
    assert right is not None and not _verdict(chosen["exp"], right).wrong
    assert _verdict(chosen["exp"], lambda x: right(x) * (1 + 1e-6)).wrong[0][0] == "value"
    assert _verdict(chosen["exp"], lambda x: wg.astype(right(x), wg.float32)).wrong[0][0] == "value"
    crooked = _verdict(chosen["exp"], lambda x: wg.stop_gradient(right(x)) + 1e-300 * x)
    assert [check for check, _ in crooked.wrong] == ["vjp", "jvp", "hvp"]
    bent = lambda x: right(x) + (x - wg.stop_gradient(x)) ** 2  # wrong in second order only
    assert [check for check, _ in _verdict(chosen["exp"], bent).wrong] == ["hvp"]

    def fails(x: Any) -> Any:
        raise ValueError("no")

    assert [check for check, _ in _verdict(chosen["exp"], fails).refused] == ["value"]


def test_what_pytorch_does_not_compute_is_left_out(chosen: dict[str, Entry]) -> None:
    entry = chosen["exp"]
    sample = next(iter(entry.samples("float64")))

    def fails(x: Any) -> Any:
        raise RuntimeError("no")

    with pytest.raises(Unsuitable):
        judge(Entry(entry.name, entry.info, fails, entry.ours), sample, compiled=False, vmapped=False)
