"""The kernel of recurrences on a GPU: layers' scans against the reference, and whole training steps against the CPU."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.backends.test_cuda_recurrent import losses
from tests.gpu.harness import run, this_device
from tests.kernels.test_recurrent_cuda import check_results, trained, work_for
from wengert.core.dtypes import bfloat16, float16, float32, float64

PRECISIONS = {"float32": (float32, False, 5e-5), "tf32": (float32, True, 5e-3), "float64": (float64, False, 1e-12)}
PRECISIONS |= {"bfloat16": (bfloat16, False, 4e-2), "float16": (float16, False, 3e-2)}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("sizes", [(16, 64, 256), (5, 3, 40), (7, 33, 132)], ids=str)
def test_scans(kind: str, sizes: tuple[int, int, int], precision: str) -> None:
    dtype, tf32, tolerance = PRECISIONS[precision]
    device = replace(this_device(), tf32=tf32)
    for scan in trained(kind, *sizes, dtype=dtype):
        done, arrays = work_for(scan, device)
        first, again = run(done, arrays), run(done, arrays)
        assert all(first[name].tobytes() == again[name].tobytes() for name in arrays)  # the same bits every time
        check_results(scan, first, tolerance)


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"proj_size": 24}], ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_training(kind: str, options: dict[str, Any]) -> None:
    """Three compiled steps, the later ones replayed as a graph, give the CPU's losses."""
    if "proj_size" in options and kind != "LSTM":
        pytest.skip("only an LSTM has projections")
    expected, _ = losses("cpu", kind, False, {"num_layers": 2, **options}, (9, 20, 48), 64)
    found, explained = losses("cuda", kind, False, {"num_layers": 2, **options}, (9, 20, 48), 64)
    np.testing.assert_allclose(found, expected, rtol=2e-4)
    assert "wg_recurrent" in explained
