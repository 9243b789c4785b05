"""What tests of compiled programs share: most are built without optimisation, which takes a sixth of the time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compiler.flags import compiler_flags


@pytest.fixture
def quick_builds(request: pytest.FixtureRequest) -> Iterator[None]:
    """Inside, C is compiled without optimisation, but in a quarter of the tests, which are always the same."""
    with compiler_flags(optimised=sum(map(ord, request.node.name)) % 4 == 0):
        yield
