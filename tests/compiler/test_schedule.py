"""Schedule: an order that is right, and frees memory early."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.backends.cpu.toolchain import compiler
from wengert.core.graph import Graph, Node
from wengert.kernels.ir.loops import IndexMap
from wengert.ops.core import placeholder
from wengert.plan.groups import LARGE, FusionGroup, Read, ordered

A, B, C, D = ((size,) for size in (4, 3, 2, 1))


def value(shape: Any) -> Node:
    return placeholder(shape, wg.float32)


def group(number: int, reads: list[Node], root: Node) -> FusionGroup:
    return FusionGroup(
        number, [root], root.shape, (), reads=[Read(leaf, IndexMap(None)) for leaf in reads], stored=[root]
    )


def numbers(groups: list[FusionGroup], outputs: list[Node], *others: Any) -> list[int]:
    return [group.number for group in ordered(Graph([], outputs, nodes=[]), groups, *others)]


def test_the_order_is_the_programs_where_memory_does_not_matter() -> None:
    x, a, b, c = map(value, (A, A, A, A))
    first, second, third = group(2, [x], a), group(0, [x], b), group(1, [a, b], c)
    assert numbers([first, second, third], [c]) == [0, 2, 1]  # 1 needs 2, which comes right before it


def test_what_frees_more_than_it_takes_runs_as_soon_as_it_can() -> None:
    x, large, small, other, last = map(value, (A, A, D, B, C))
    groups = [group(0, [x], large), group(1, [x], other), group(2, [large], small), group(3, [small, other], last)]
    assert numbers(groups, [last]) == [0, 2, 1, 3]


def test_numbers_are_made_early_but_not_first() -> None:
    for size, found in ((LARGE // 4, [0, 2, 1, 3]), (LARGE // 4 - 1, [0, 1, 2, 3])):
        x, count, a, b, number, new = map(value, ((size,), (), (size,), (size,), (), (size,)))
        groups = [group(0, [x], a), group(1, [a], b), group(2, [count], number), group(3, [b, number], new)]
        assert numbers(groups, [new]) == found
        assert numbers(groups, [new, number], [(count, number)], [1]) == [0, 1, 2, 3]


def test_what_is_written_over_an_input_waits_for_its_readers_and_for_what_may_fail() -> None:
    weight, x, gradient, new, other = map(value, (A, A, A, A, A))
    groups = [group(0, [x], gradient), group(1, [gradient, weight], new), group(2, [weight], other)]
    assert numbers(groups, [new, other]) == [0, 1, 2]
    assert numbers(groups, [new, other], [(weight, new)]) == [0, 2, 1]
    assert numbers([*groups[:2], group(2, [x], other)], [new, other], [(x, new)], [2]) == [0, 2, 1]


def test_groups_that_would_wait_for_each_other_stay_in_their_order() -> None:
    p, q, new_p, new_q = map(value, (A, A, A, A))
    groups = [group(0, [p, q], new_p), group(1, [q, p], new_q)]
    assert numbers(groups, [new_p, new_q], [(p, new_p), (q, new_q)]) == [0, 1]


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
def test_updates_run_early_and_in_place() -> None:
    weights = [wg.tensor(np.eye(64, dtype=np.float32), requires_grad=True) for _ in range(6)]

    @wg.compile
    def step(x: Any) -> None:
        for weight in weights:
            x = wg.tanh(x @ weight)
        x.sum().backward()
        with wg.no_grad():
            for weight in weights:
                weight.assign(weight - 0.1 * weight.grad)
                weight.grad = None

    step(wg.ones((64, 64)))
    program = step._latest[1].program
    assert len(program.plan.donated) == len(weights)
    live = [moment.live for moment in step.memory()]
    assert live[-5] <= 0.65 * max(live)  # every second step of the backward pass lets go of an activation
