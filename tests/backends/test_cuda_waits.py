"""Which steps wait for which: whatever order that leaves open, memory ends up the same."""

from __future__ import annotations

import random

import pytest

from wengert.plan.memory import MemoryRange, waits_of

Step = tuple[list[MemoryRange], list[MemoryRange]]


def test_reading_does_not_wait_for_reading() -> None:
    a, b, c = (MemoryRange(i, 0, 4) for i in range(3))
    assert waits_of([([a], [b]), ([a], [c])]) == [[], []]


def test_overwriting_waits_for_all_who_read() -> None:
    a, b, c = (MemoryRange(i, 0, 4) for i in range(3))
    assert waits_of([([a], [b]), ([a], [c]), ([], [a])]) == [[], [], [0, 1]]


def test_places_that_overlap_in_part_are_one_memory() -> None:
    first, middle, last = MemoryRange(0, 0, 8), MemoryRange(0, 4, 12), MemoryRange(0, 8, 16)
    assert waits_of([([], [first]), ([], [last]), ([], [middle]), ([first], [])]) == [[], [], [0, 1], [2]]


def test_what_others_wait_for_already_is_left_out() -> None:
    a = MemoryRange(0, 0, 4)
    assert waits_of([([], [a]), ([a], [a]), ([a], [a])]) == [[], [0], [1]]


def test_steps_that_fill_the_device_follow_one_another() -> None:
    a, b, c, d, e = (MemoryRange(i, 0, 4) for i in range(5))
    steps = [([a], [b]), ([a], [c]), ([a], [d]), ([b, c], [e])]
    assert waits_of(steps, filling={0, 2, 3}) == [[], [], [0], [1, 2]]


def memory_after(steps: list[Step], order: list[int]) -> dict[tuple[int, int], int]:
    """What each byte holds when every step writes a number that follows from all it reads."""
    memory: dict[tuple[int, int], int] = {}
    for number in order:
        reads, writes = steps[number]
        seen = hash((number, *[memory.get((p.memory, i)) for p in reads for i in range(p.start, p.end)]))
        memory.update({(p.memory, i): hash((seen, i)) for p in writes for i in range(p.start, p.end)})
    return memory


@pytest.mark.parametrize("seed", range(20))
def test_any_order_that_is_left_open_gives_the_same(seed: int) -> None:
    draw = random.Random(seed)

    def places() -> list[MemoryRange]:
        starts = [(draw.randrange(3), draw.randrange(12)) for _ in range(draw.randrange(3))]
        return [MemoryRange(memory, start, start + draw.randrange(1, 5)) for memory, start in starts]

    steps = [(places(), places()) for _ in range(25)]
    needed = waits_of(steps, filling=set(draw.sample(range(25), seed % 4 * 5)))
    waiting, order = set(range(len(steps))), []
    while waiting:
        order.append(max(n for n in waiting if waiting.isdisjoint(needed[n])))
        waiting.remove(order[-1])
    assert memory_after(steps, order) == memory_after(steps, list(range(len(steps))))
