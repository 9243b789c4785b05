"""Running out of memory on the GPU: a hundred times in one process, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.backends.cuda.memory import opened


@pytest.mark.alone
def test_a_hundred_times_out_of_memory() -> None:
    weight = wg.tensor(np.ones(1 << 20, np.float32), requires_grad=True, device="cuda")
    optimizer = wg.optim.SGD([weight], lr=0.1)

    def step() -> float:
        optimizer.zero_grad()
        loss = (weight * weight).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    first = step()
    wg.synchronize()
    before = wg.cuda.memory()
    pieces = int(before.free // 10 // 4)
    double = wg.compile(lambda x: (x + 1, x * 2, x - 1, wg.exp(x)))
    for i in range(100):
        held = []
        with pytest.raises(MemoryError, match=r"tensors hold [\d.]+ GB(.|\n)*test_memory.py:\d+"):
            while True:  # a tenth of the memory at a time, dynamically and by a program
                made = double(held[-1]) if held and i % 2 else (wg.zeros(pieces, dtype=wg.float32, device="cuda") + i,)
                held += made
                for tensor in made:
                    tensor[:1].numpy()
        del held, made, tensor
        if i % 10 == 0:
            assert step() < first
    wg.synchronize()
    opened("cuda:0").trim()  # what the pool keeps for the next tensors
    after = wg.cuda.memory()
    assert after.live <= before.live and after.reserved <= before.reserved
    assert after.free >= before.free - (after.arena - before.arena) - (8 << 20)
    assert step() < first


def test_more_than_there_is_is_refused_at_once() -> None:
    total = wg.cuda.memory().total
    with pytest.raises(MemoryError, match=r"cannot allocate [\d.]+ GB"):
        (wg.zeros(total, dtype=wg.float32, device="cuda") + 1)[:1].numpy()
    assert (wg.ones(3, device="cuda") + 1).tolist() == [2.0, 2.0, 2.0]
