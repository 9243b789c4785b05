"""Large draws by C: the reference's bits, and the reference where there is no compiler."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import wengert as wg
from wengert.backends.cpu import draws, toolchain
from wengert.ops import random


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every draw is a large one, and nothing is remembered."""
    monkeypatch.setattr(random, "_LARGE", 1)
    draws._function.cache_clear()
    yield
    draws._function.cache_clear()


@pytest.mark.skipif(toolchain.compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("counter", [0, 5, 2**32 - 2, 2**64 - 3])
@pytest.mark.parametrize("stream", [0, 2])
def test_the_bits_are_those_of_the_reference(counter: int, stream: int) -> None:
    key, first = np.array([7, 2**32 - 1], np.uint32), np.uint64(counter)
    words, want = np.empty((101, 4), np.uint32), np.empty((101, 4), np.uint32)
    assert draws.fill(words, key, first, stream)
    random._fill(want, key, first, stream)
    np.testing.assert_array_equal(words, want)


def drawn(shape: tuple[int, ...]) -> bytes:
    """Normal numbers of one seed."""
    return bytes(wg.random.normal(shape, generator=wg.random.Generator(3)).numpy().tobytes())


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (33, 7)])
def test_a_model_is_the_same_whoever_draws_it(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    by_c = drawn(shape)
    monkeypatch.setattr(random, "drawer", None)
    assert drawn(shape) == by_c


@pytest.mark.parametrize("failing", ["compiler", "load"])
def test_without_a_compiler_the_reference_draws(failing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(units: list[str]) -> None:
        raise wg.errors.CompilerError("cannot build")

    want = drawn((50,))
    draws._function.cache_clear()
    monkeypatch.setattr(toolchain, failing, load if failing == "load" else lambda: None)
    assert drawn((50,)) == want and draws._function() is None
