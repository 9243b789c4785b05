"""Threads on the GPU: they take turns, and may end what others made."""

from __future__ import annotations

import numpy as np

import wengert as wg
from tests.backends.test_cuda_threads import function, in_threads

X = np.random.default_rng(0).normal(size=(400, 400)).astype(np.float32)


def test_a_thread_that_never_used_the_gpu() -> None:
    held = [wg.tensor(X, device="cuda")]
    held[0].numpy()
    live = wg.cuda.memory().live

    def work() -> None:
        doubled = wg.compile(lambda x: x * 2)
        assert (doubled(wg.tensor(X, device="cuda")).numpy() == 2 * X).all()

    in_threads(work)
    in_threads(held.clear)
    assert wg.cuda.memory().live <= live - X.nbytes


def test_launches_captures_and_copies_of_threads_do_not_mix() -> None:
    given = wg.tensor(X, device="cuda")
    functions = [wg.compile(function(k)) for k in range(4)]
    expected = [f(given).numpy() for f in functions]

    def compiled(k: int) -> None:
        for i in range(40):
            if i % 8 == 0:
                functions[k]._specializations.clear()  # so that it is launched one by one, captured and replayed again
            np.testing.assert_array_equal(functions[k](given).numpy(), expected[k])

    def dynamic() -> None:
        for i in range(100):
            assert ((wg.tensor(X[:9] + i, device="cuda") + 1).numpy() == X[:9] + i + 1).all()

    in_threads(*[lambda k=k: compiled(k) for k in range(4)], dynamic, dynamic)
