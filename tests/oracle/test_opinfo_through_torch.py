"""A slice of OpInfo through `wengert.torch`; `python -m tests.oracle.opinfo --through torch` compares all of it."""

from __future__ import annotations

import warnings
from itertools import islice
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch, the other implementation to compare with, is not installed")

from tests.oracle.opinfo import through
from tests.oracle.opinfo.entries import Entry, database, entries
from tests.oracle.opinfo.judge import Unsuitable, judge

NAMES = (  # noqa: SIM905
    "add div/trunc_rounding clamp where sum mean std/unbiased max/reduction_with_dim max/binary median sort topk "
    "gather scatter index_add masked_fill nonzero unique cumsum quantile einsum addmm matmul tensordot linalg.solve "
    "linalg.norm fft.fft full arange linspace randn bernoulli new_zeros tril diag_embed polygamma/polygamma_n_1 "
    "special.xlog1py logsumexp norm select_scatter __rsub__"
).split()
SAMPLES = 3
PRESENT = 640  # of the 702 entries; the bar is 500


@pytest.fixture(scope="module")
def chosen() -> dict[str, Entry]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = entries("^(" + "|".join(NAMES) + ")$", through_torch=True)
    return {entry.name: entry for entry in found}


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("name", NAMES)
def test_samples_agree(name: str, dtype: str, chosen: dict[str, Entry]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample in islice(chosen[name].samples(dtype), SAMPLES):
            try:
                verdict = judge(chosen[name], sample, compiled=False, vmapped=False)
            except Unsuitable:
                continue
            assert not verdict.wrong, (verdict.wrong, str(sample))
            assert not verdict.refused, (verdict.refused, str(sample))
            assert verdict.agree


def test_entries_are_present() -> None:
    assert sum(through.is_present(info) for info in database()) >= PRESENT


def test_a_base_tensor_or_another_number_is_seen(chosen: dict[str, Entry]) -> None:
    import wengert as wg

    entry = chosen["cumsum"]
    sample = next(iter(entry.samples("float64")))

    def verdict(ours: Any) -> Any:
        return judge(Entry(entry.name, entry.info, entry.theirs, ours, True), sample, compiled=False, vmapped=False)

    assert verdict(lambda x, *a, **k: entry.ours(x, *a, **k) + 1e-3).wrong[0][0] == "value"
    assert verdict(lambda x, *a, **k: wg.Tensor(entry.ours(x, *a, **k).node)).refused[0][0] == "value"
