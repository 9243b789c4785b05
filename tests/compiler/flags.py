"""The C compiler's flags: those of users' programs, or none that optimise, for tests of what programs compute."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from wengert.backends.cpu import toolchain


@contextmanager
def compiler_flags(optimised: bool) -> Iterator[None]:
    """Inside, compile as users do, or without optimisation."""
    flags = toolchain.FLAGS if optimised else [*toolchain.FLAGS, "-O0"]
    toolchain._fingerprint.cache_clear()
    with patch.object(toolchain, "FLAGS", flags):
        yield
    toolchain._fingerprint.cache_clear()
