"""The cases' files are read by `case`, not imported; functions are compiled as they are for users."""

from __future__ import annotations

import pytest

collect_ignore_glob = ["cases/*"]


@pytest.fixture(autouse=True)
def _tier() -> None:
    """Instead of the one that has dynamic code interpreted."""
