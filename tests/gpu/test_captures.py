"""What a compiled function reads from outside, on the GPU: arrays of the host's are read at every call."""

from __future__ import annotations

import numpy as np

import wengert as wg


def test_arrays_from_outside_are_read_at_every_call() -> None:
    scale, shift = np.arange(1.0, 4.0, dtype=np.float32), np.ones(3, np.float32)
    fast = wg.compile(lambda x: wg.exp(x) * scale + wg.tensor(shift, device="cuda"))
    x = wg.zeros(3, device="cuda", dtype=wg.float32)
    for _ in range(8):  # recorded, replayed, and replayed by the fast path
        np.testing.assert_array_equal(fast(x).numpy(), scale + shift)
        scale *= 2
        shift += 1
    assert len(fast.why()) == 1


def test_attributes_are_followed() -> None:
    settings = {"scale": 2.0}
    fast = wg.compile(lambda x: x * settings["scale"])
    x = wg.ones(3, device="cuda")
    assert [fast(x).tolist() for _ in range(4)] == [[2.0] * 3] * 4
    settings["scale"] = 5.0
    assert fast(x).tolist() == [5.0] * 3
