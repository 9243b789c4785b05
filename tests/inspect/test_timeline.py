"""The timeline of ranks: what is exposed, who waits for whom, what the page draws, and that it ends."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from tests.inspect.bars import Bars
from wengert.core import communication
from wengert.core.evaluation import watch
from wengert.inspect.spans import COMMUNICATION, COMPUTE, RankSpans, Span, length, waits
from wengert.inspect.timeline_page import page


def rank(number: int, *spans: Span) -> RankSpans:
    return RankSpans(number, 0.0, 10.0, list(spans))


def computing(start: float, stop: float) -> Span:
    return Span(COMPUTE, "2 kernels: matmul, add", start, stop, "train.py:3")


def summing(start: float, stop: float, ranks: tuple[int, ...] = ()) -> Span:
    return Span(COMMUNICATION, "all_reduce", start, stop, "train.py:4", 1000, ranks)


def test_communication_is_exposed_where_nothing_is_computed():
    one = rank(0, computing(0, 4), summing(3, 6), computing(5, 7), summing(8, 9))
    assert one.exposed == [(4, 5), (8, 9)]
    assert one.exposed_share == pytest.approx(0.2)
    assert (length(one.computing), length(one.communicating)) == (6, 4)
    assert one.exposed_of(summing(3, 6)) == [(4, 5)]


def test_who_comes_first_waits_for_the_last():
    first, last = rank(0, summing(2, 6), summing(7, 8)), rank(1, summing(5, 6), summing(7, 8))
    assert waits([first, last]) == {(0, 0): 3, (0, 1): 0, (1, 0): 0, (1, 1): 0}


def test_collectives_of_different_groups_are_not_compared():
    ranks = [rank(0, summing(1, 2, (0, 1))), rank(1, summing(1, 2, (0, 1))), rank(2, summing(5, 6, (2, 3)))]
    assert set(waits(ranks).values()) == {0}


def test_spans_survive_their_way_to_rank_0():
    one = rank(3, computing(1, 2), summing(2, 3, (1, 3)))
    assert RankSpans.from_data(one.as_data()) == one
    assert one.moved(5).spans[1].start == 7


def test_the_page_has_two_lanes_a_rank_and_exposed_communication_in_red():
    shown = page([rank(0, computing(0, 4), summing(3, 6)), rank(1, summing(1, 6))], "<table>")
    bars = Bars()
    bars.feed(shown)
    assert bars.open == [] and len(bars.lanes) == 4
    assert [(kind, width) for kind, width, _ in bars.lanes[0]] == [("compute", 40)]
    assert [(kind, width) for kind, width, _ in bars.lanes[1]] == [("communication", 30), ("exposed", 20)]
    assert [(kind, width) for kind, width, _ in bars.lanes[3]] == [("communication", 50), ("exposed", 50)]
    told = bars.lanes[3][1][2]
    assert "all_reduce" in told and "1.0 kB" in told and "train.py:4" in told and "2000.000 ms of it waiting" in told
    assert '<b id="exposed">35.0%</b>' in shown and "&lt;table&gt;" in shown
    assert "http" not in shown and ".exposed { background: var(--exposed)" in shown and "--exposed: #dc2626" in shown


def test_a_compiled_program_s_pieces_and_a_collective_are_seen(tmp_path):
    f = wg.compile(lambda x: wg.tanh(x @ x).sum())
    x = wg.tensor(np.eye(16, dtype=np.float32))
    f(x)
    with wg.inspect.timeline(tmp_path / "timeline.html") as timeline:
        f(x).item()
        assert communication.watcher is not None
        communication.watcher.entering(1, "all_gather", 64, None, (0, 2))
        communication.watcher.left()
    (one,) = timeline.ranks
    pieces = one.of(COMPUTE)
    assert pieces and "kernel" in pieces[0].name and "test_timeline.py" in pieces[0].line
    (gather,) = one.of(COMMUNICATION)
    assert (gather.name, gather.bytes, gather.ranks) == ("all_gather", 64, (0, 2))
    assert 0 < timeline.exposed < 1
    assert "exposed communication:" in str(timeline) and "all_gather" in (tmp_path / "timeline.html").read_text()
    assert watch.observer is None and communication.watcher is None


def test_building_is_told_apart():
    f = wg.compile(lambda x: wg.exp(x) * 3.25 + 1.75)
    with wg.inspect.timeline() as timeline:
        f(wg.ones(5)).tolist()
    assert "s building programs" in str(timeline)


def test_it_ends_with_its_block_also_by_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), wg.inspect.timeline(tmp_path / "none.html"):
        1 / 0
    assert watch.observer is None and communication.watcher is None and not (tmp_path / "none.html").exists()
    with wg.profile(), pytest.raises(wg.errors.ArgumentError, match="a profile or another timeline"):
        wg.inspect.timeline().__enter__()
