"""The names and signatures that users rely on change only on purpose."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests import public_api


def test_the_public_api_is_that_of_its_snapshot() -> None:
    found = public_api.difference()
    assert not found, (
        "the public API has changed:\n\n" + found + "\n\nIf that is meant, docs/deprecation.md says how it may change. "
        f"Then run `{public_api.COMMAND}`, and commit tests/{public_api.SNAPSHOT.name} with a line in CHANGELOG.md."
    )


def test_a_changed_signature_is_a_line_removed_and_a_line_added(monkeypatch: pytest.MonkeyPatch) -> None:
    import wengert as wg

    before = public_api.difference()
    monkeypatch.setattr(wg.optim, "clip_grad_norm_", lambda parameters, most=2.0: None)
    lines = set(public_api.difference().splitlines()) - set(before.splitlines())
    assert {line[0] for line in lines} >= {"-", "+"}
    assert "+wengert.optim.clip_grad_norm_(parameters, most=2.0)" in lines
    assert any(line.startswith("-wengert.optim.clip_grad_norm_(parameters, max_norm") for line in lines)


def test_the_snapshot_says_the_same_in_every_process() -> None:
    text = public_api.snapshot()
    assert " at 0x" not in text and len(text.splitlines()) > 1500


def test_a_module_without_a_list_has_what_it_defines_itself() -> None:
    module = ModuleType("wengert.made")
    exec("import math\nfrom typing import Any\ndef f(x, *, y=float): ...\ndef _g(): ...", vars(module))
    assert list(public_api._of_module("wengert.made", module, set())) == ["wengert.made.f(x, *, y=float)"]
