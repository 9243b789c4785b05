"""Schedules of a pipeline: the bubble is what the formula says, and 1F1B keeps few activations."""

from __future__ import annotations

import pytest

from wengert.compiler.schedules import Piece, Schedule, gpipe, needs, one_forward_one_backward, timeline
from wengert.core.errors import ArgumentError

SIZES = [(2, 1), (2, 8), (3, 5), (4, 4), (4, 16), (8, 8)]
TIMES = [(1, 1), (1, 2), (3, 5)]


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
@pytest.mark.parametrize(("forward", "backward"), TIMES)
@pytest.mark.parametrize("make", [gpipe, one_forward_one_backward])
def test_the_bubble_is_what_the_formula_says(make, ranks, microbatches, forward, backward):
    played = timeline(make(ranks, microbatches), forward, backward)
    assert played.bubble == pytest.approx((ranks - 1) / (microbatches + ranks - 1))
    assert played.ticks == (microbatches + ranks - 1) * (forward + backward)


@pytest.mark.parametrize(("ranks", "microbatches", "chunks"), [(2, 4, 2), (2, 8, 4), (4, 8, 2), (4, 8, 3), (4, 4, 2)])
@pytest.mark.parametrize(("forward", "backward"), [(1, 1), (1, 2)])
def test_interleaving_makes_the_bubble_so_many_times_smaller(ranks, microbatches, chunks, forward, backward):
    played = timeline(one_forward_one_backward(ranks, microbatches, ranks * chunks), forward, backward)
    assert played.bubble == pytest.approx((ranks - 1) / (chunks * microbatches + ranks - 1))


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
def test_how_many_activations_are_kept(ranks, microbatches):
    assert timeline(gpipe(ranks, microbatches)).live == (microbatches,) * ranks
    wanted = tuple(min(ranks - rank, microbatches) for rank in range(ranks))
    assert timeline(one_forward_one_backward(ranks, microbatches)).live == wanted


@pytest.mark.parametrize("stages", [4, 8])
@pytest.mark.parametrize("make", [gpipe, one_forward_one_backward])
def test_every_piece_runs_once_on_its_rank_after_what_it_needs(make, stages):
    schedule = make(4, 8, stages)
    played = timeline(schedule)
    assert sorted(played.begins) == sorted(
        Piece(phase, stage, m) for phase in ("forward", "backward") for stage in range(stages) for m in range(8)
    )
    for rank, pieces in enumerate(schedule.table):
        assert {piece.stage % 4 for piece in pieces} == {rank}
        assert [played.begins[piece] for piece in pieces] == sorted({played.begins[piece] for piece in pieces})
        for piece in pieces:
            assert all(played.begins[need] < played.begins[piece] for need in needs(piece, stages))


def test_a_table_that_never_ends_is_refused():
    backwards = Schedule("wrong", 1, 1, 1, ((Piece("backward", 0, 0), Piece("forward", 0, 0)),))
    with pytest.raises(ArgumentError, match="never ends: rank 0 at B0"):
        timeline(backwards)


def test_what_cannot_be_shared_is_refused():
    with pytest.raises(ArgumentError, match="cannot share 3 stages"):
        gpipe(2, 4, 3)
    with pytest.raises(ArgumentError, match="a multiple of 4 micro-batches"):
        one_forward_one_backward(4, 6, 8)
