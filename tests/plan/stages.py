"""What tests of the plan share: a stage in the place of another."""

from __future__ import annotations

import pytest

from wengert.plan import pipeline

STAGES = pipeline.STAGES


def with_stage(monkeypatch: pytest.MonkeyPatch, name: str, stage: pipeline.Stage) -> None:
    """Have another function run in the place of the stage of this name."""
    assert name in [each.__name__ for each in STAGES]
    stages = tuple(stage if each.__name__ == name else each for each in STAGES)
    monkeypatch.setattr(pipeline, "STAGES", stages)
