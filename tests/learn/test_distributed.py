"""The lesson on many ranks: what it tells is what the ranks did, and it fits into 80 columns and on a page."""

from __future__ import annotations

import html.parser

import numpy as np
import pytest

import wengert as wg
from wengert.cli import main
from wengert.learn.distributed import bubble, derivative, memory, ring
from wengert.learn.distributed.drawings import Bars, Ladder


@pytest.fixture(autouse=True)
def compiled_tier(_tier, monkeypatch):
    """Working memory is that of compiled programs."""
    monkeypatch.setattr(wg.config, "tier", "auto")


def test_the_ring_ends_with_every_sum_on_every_rank():
    held = ring.states(3)
    assert len(held) == 5
    assert np.array_equal(held[-1], np.full((3, 3, 1), 111.0))
    own = [[ring.sources(held[2][r, k, 0], 3) for k in range(3)] for r in range(3)]
    assert [own[r][(r + 1) % 3] for r in range(3)] == ["0+1+2"] * 3  # after the reduce-scatter, one chunk each
    assert "1500 elements in all, 1.5 times the vector" in ring.section().after


def test_the_gradient_of_ranks_is_that_of_one_process():
    per_rank, whole = derivative.gradients()
    np.testing.assert_allclose(per_rank, np.stack([whole] * 4), rtol=1e-13)


def test_the_graph_shows_all_reduce_as_the_derivative_of_replicate():
    rungs = derivative.ladder().rungs
    assert rungs[0] == ("v1 = w", "v\u03041 = all_reduce(v\u03043)")
    assert rungs[1][0] == "v3 = replicate(v1)"
    assert rungs[-1][0].endswith("all_reduce(v6)") and rungs[-2][1].endswith("replicate(v\u03047)")


def test_accumulate_grad_is_a_node_with_its_value():
    (table,) = derivative.accumulate_section().shown
    assert table.rows[-1] == ["g5 = w.grad + g4", "[33, 44]", "= AccumulateGrad of w"]


@pytest.fixture(scope="module")
def stages():
    return memory.stages()


def test_the_stages_hold_what_their_names_say(stages):
    parameters = memory.LAYERS * (memory.WIDTH + 1) * memory.WIDTH * 4
    assert stages[0][:3] == (parameters, parameters, 2 * parameters)
    assert stages[2][:3] == (parameters, parameters // 4, 2 * parameters // 4)
    assert stages[3][:3] == (parameters // 4, parameters // 4, 2 * parameters // 4)
    assert all(held.working > 0 for held in stages.values())


@pytest.mark.slow
def test_micro_batches_and_halves_save_working_memory_alone():
    found = memory.ways()
    at_once = found["at once"]
    assert all(held[:3] == at_once[:3] for held in found.values())
    assert found["4 micro-batches"].working < at_once.working / 3
    assert found["bfloat16"].working < at_once.working / 2


def test_the_bubble_is_played():
    found = bubble.played()
    assert found["GPipe"].bubble == found["1F1B"].bubble == pytest.approx(3 / 7)
    assert found["interleaved, 2 stages a rank"].bubble < 0.3
    text = bubble.Ticks("GPipe", found["GPipe"]).to_text()
    assert text.splitlines()[1] == "  rank 0  F0 F1 F2 F3 .  .  .  .  .  .  B0 B1 B2 B3"


class Balanced(html.parser.HTMLParser):
    """Tags that are open."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_bars_are_as_long_as_their_bytes():
    bars = Bars(["a", "b"], [("whole", [300, 100]), ("half", [100, 100])])
    whole, half = (line.split() for line in bars.to_text().splitlines()[1:])
    assert len(whole[1]) == 2 * len(half[1]) == 58 and (whole[1].count("#"), half[1].count("#")) == (44, 14)
    assert "width:45.000%" in bars.to_html() and "width:15.000%" in bars.to_html()


def test_a_ladder_is_two_columns():
    shown = Ladder([("x", "dx"), ("y = f(x)", "dy = 1")])
    assert shown.to_text().splitlines()[0].split() == ["x", "dx"]
    assert shown.to_html().count("<rect") == 4


def test_the_command_tells_all_sections_in_80_columns_and_writes_a_page(tmp_path, capsys):
    path = tmp_path / "ranks.html"
    assert main(["learn", "distributed", "--page", str(path)]) == 0
    told = capsys.readouterr().out
    titles = [
        *("A ring all-reduce, step by step", "The all-reduce of data parallelism is a derivative"),
        *("AccumulateGrad is an addition", "What each stage of ZeRO holds", "The bubble of a pipeline"),
        "Gradient accumulation and mixed precision",
    ]
    places = [told.index(title) for title in titles]
    assert places == sorted(places)
    wide = [line for line in told.splitlines() if len(line) > 80 and str(path) not in line]
    assert wide == []
    page = path.read_text()
    parser = Balanced()
    parser.feed(page)
    assert parser.open == [] and page.count("<h2>") == len(titles) and "http" not in page
