"""Which steps of a program may be done at once."""

from __future__ import annotations

from wengert.core.dtypes import float32
from wengert.core.graph import Node
from wengert.ops.core import placeholder
from wengert.plan.launches import Order
from wengert.plan.plan import Step


def step(reads: list[Node], writes: list[Node]) -> Step:
    return Step((), reads, writes)


A, B, C, D, E, F = (placeholder((), float32) for _ in range(6))


def test_at_the_last_if_nobody_needs_the_others_before() -> None:
    steps = [step([A], [B]), step([A], [C]), step([C], [D]), step([A], [E])]
    assert Order(steps, {}).place([0, 3]) == 3


def test_at_the_first_if_all_that_they_read_is_there() -> None:
    steps = [step([A], [B]), step([B], [C]), step([A], [D])]
    assert Order(steps, {}).place([0, 2]) == 0


def test_nowhere_if_one_needs_the_other_or_something_between() -> None:
    assert Order([step([A], [B]), step([B], [C])], {}).place([0, 1]) is None
    assert Order([step([A], [B]), step([B], [C]), step([C], [D])], {}).place([0, 2]) is None


def test_an_update_waits_for_those_that_read_what_it_overwrites() -> None:
    steps = [step([F], [D]), step([D], [E]), step([A], [C]), step([A], [B])]
    assert Order(steps, {}).place([0, 3]) == 0
    assert Order(steps, {B: A}).place([0, 3]) is None


def test_what_has_moved_counts_where_it_is_now() -> None:
    """0 and 2 are done at 2, so 3, which reads what 0 makes, is not done at 1 with another."""
    steps = [step([A], [B]), step([A], [E]), step([A], [C]), step([B], [D])]
    order = Order(steps, {})
    order.move([0, 2], 2)
    assert order.place([1, 3]) == 3
    steps = [step([A], [B]), step([A], [E]), step([A], [C]), step([E], [F]), step([B], [D])]
    order = Order(steps, {})
    order.move([0, 2], 2)
    assert order.place([1, 4]) is None
