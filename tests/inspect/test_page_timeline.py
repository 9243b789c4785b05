"""Timelines in a real browser: what a bar tells, zooming, moving, and colours by module."""

import pytest

from wengert.inspect.timeline_page import document

MODULES = {"GPT.h.0": (0, 20, 40), "GPT.h.1": (10, 30), "": (50,)}


@pytest.fixture
def timeline(browser, tmp_path):
    """A hundred milliseconds in a lane: bars of ten percent, of modules."""
    bars = "".join(
        f'<i class="compute" style="left:{at}%;width:9%" title="kernel {at}\n9 ms" data-module="{module}"></i>'
        for module, starts in MODULES.items()
        for at in starts
    )
    lanes = f'<div class="lane">{bars}</div>'
    path = tmp_path / "timeline.html"
    path.write_text(document("a run", "100 ms", 0.1, names='<div class="single">CPU</div>', lanes=lanes))
    browser.resize(1400, 1000)
    browser.open(path)
    return browser


def test_a_bar_tells_what_it_is_and_the_arrows_go_on_in_time(timeline):
    timeline.click(".lane i")
    assert timeline.text("#bar") == "kernel 0\n9 ms\nfrom 0 \u00b5s"
    told = []
    for _ in range(5):
        timeline.press("ArrowRight")
        told.append(timeline.text("#bar").splitlines()[0])
    assert told == [f"kernel {at}" for at in (10, 20, 30, 40, 50)]
    assert timeline.count_of(".lane i.chosen") == 1
    timeline.press("Escape")
    assert "Hover over a bar" in timeline.text("#bar") and timeline.errors == []


def test_zooming_keeps_the_time_under_the_mouse_and_shows_finer_ticks(timeline):
    where = "(scroll.scrollLeft + 400) / time.clientWidth"
    before, ticks = timeline.value(where), timeline.value("[...ticks.children].map((tick) => tick.textContent)")
    left, top = timeline.value("[scroll.getBoundingClientRect().left, scroll.getBoundingClientRect().top]")
    timeline.send("Input.dispatchMouseEvent", type="mouseWheel", x=left + 400, y=top + 30, deltaX=0, deltaY=-2000)
    timeline.until("percent > 150")
    assert timeline.value(where) == pytest.approx(before, abs=0.01)
    finer = timeline.value("[...ticks.children].map((tick) => tick.textContent)")
    assert finer != ticks and 3 < len(finer) < 30 and all(text.endswith(("ms", "s")) for text in finer)
    timeline.press("f")
    assert timeline.value("percent") == 100


def test_modules_have_colours_and_their_share_and_can_be_looked_at_alone(timeline):
    shown = timeline.value("[...document.querySelectorAll('#modules button')].map((button) => button.innerText)")
    assert shown == ["GPT.h.0 50.0%", "GPT.h.1 33.3%", "outside of modules 16.7%"]
    colours = "new Set([...document.querySelectorAll('.lane i')].map((bar) => bar.style.background)).size"
    assert timeline.value(colours) == 3
    timeline.click("#modules button")
    assert timeline.count_of(".lane i.kept") == 3 and timeline.count_of(".some") == 1
    timeline.click("#modules button")
    assert timeline.count_of(".some") == 0
