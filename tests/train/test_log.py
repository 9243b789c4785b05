"""What a run writes for people to look at: TensorBoard's events, the plot."""

from __future__ import annotations

import struct
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest

from wengert.train.events import EventFile, masked
from wengert.train.plot import _pieces, plot


def records(content):
    """The records of an event file, with their checksums verified."""
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        assert struct.unpack("<I", content[8:12])[0] == masked(content[:8])
        data = content[12 : 12 + length]
        assert struct.unpack("<I", content[12 + length : 16 + length])[0] == masked(data)
        yield data
        content = content[16 + length :]


def fields(message):
    """The fields of a protocol-buffer message by number, as integers, bytes or floats."""
    place = 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = message[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    found = {}
    while place < len(message):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value = message[place : place + size]
            value = struct.unpack("<d" if kind == 1 else "<f", value)[0] if kind in (1, 5) else value
            place += size
        found.setdefault(key >> 3, []).append(value)
    return found


def test_events_have_their_steps_names_and_numbers(tmp_path):
    events = EventFile(tmp_path)
    events.add(3, {"train/loss": 0.25, "train/accuracy": 0.5})
    events.add(70_000, {"test/loss": -1.0})
    events.close()
    (path,) = tmp_path.iterdir()
    first, second, third = [fields(data) for data in records(path.read_bytes())]
    assert first[3] == [b"brain.Event:2"] and first[1][0] > 1.6e9
    assert second[2] == [3] and third[2] == [70_000]
    shown = [fields(value) for value in fields(second[5][0])[1]]
    assert [(v[1], v[2]) for v in shown] == [([b"train/loss"], [0.25]), ([b"train/accuracy"], [0.5])]


def test_tensorboard_reads_the_events(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = EventFile(tmp_path)
    for step in range(5):
        events.add(step, {"train/loss": 1 / (1 + step)})
    events.close()
    read = accumulator.EventAccumulator(str(tmp_path))
    read.Reload()
    assert [(e.step, round(e.value, 4)) for e in read.Scalars("train/loss")][-1] == (4, 0.2)


@pytest.mark.parametrize("curve", [[(0, 2.0), (50, 0.5)], [(0, 1.0)], [(0, 0.0), (1, float("nan"))], []])
def test_plots_are_drawings_with_a_panel_for_each_measure(curve):
    panels = {"loss": {"train": curve, "test": curve}, "accuracy": {"test": curve}}
    root = ElementTree.fromstring(plot("a <run>", panels, 10.0))
    lines = [element for element in root if element.tag.endswith("polyline")]
    assert len(lines) == (3 if curve else 0)
    assert not [element for element in root if element.tag.endswith("rect")]  # no background: pages may be dark
    for line in lines:
        for pair in line.get("points").split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= float(root.get("width")) and 0 <= y <= float(root.get("height"))


def test_what_lies_beyond_a_panel_is_marked_and_not_drawn_along_its_edge():
    """A loss that starts at 2.3 and is soon below 0.5."""
    curve = [(step, 2.3 if step < 3 else 0.4 - step / 1000) for step in range(100)]
    root = ElementTree.fromstring(plot("run", {"loss": {"train": curve}}))
    (mark,) = [element for element in root if element.get("class") == "beyond"]
    assert mark.text == "▲ 2.3"
    (line,) = [element for element in root if element.tag.endswith("polyline")]
    pairs = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
    top = min(y for _, y in pairs)
    assert sum(y == top for _, y in pairs) == 1 and len(pairs) == 1 + 97


def test_a_curve_that_leaves_its_panel_and_comes_back_is_two_lines():
    assert [list(piece) for piece in _pieces([(0, 1.0), (2, 3.0), (4, 1.0)], 0.0, 2.0)] == [
        [(0, 1.0), (1.0, 2.0)],
        [(3.0, 2.0), (4, 1.0)],
    ]
    assert list(_pieces([(0, -1.0), (3, 2.0)], 0.0, 1.0)) == [[(1.0, 0.0), (2.0, 1.0)]]
    assert list(_pieces([(0, 1.0), (1, 2.0), (2, 3.0), (4, 1.0)], 0.0, 2.0)) == [
        [(0, 1.0), (1, 2.0)],
        [(3.0, 2.0), (4, 1.0)],
    ]
    assert list(_pieces([(0, 5.0), (1, 6.0)], 0.0, 1.0)) == []


def test_epochs_stand_below_the_steps():
    text = plot("run", {"loss": {"train": [(step, 1 / (1 + step)) for step in range(0, 1201, 10)]}}, 300)
    row = [e for e in ElementTree.fromstring(text) if e.get("y") == "260"]
    assert [e.text for e in row] == ["epoch", "0", "1", "2", "3", "4"]
    places = [float(e.get("x")) for e in row[1:]]
    steps = [after - before for before, after in pairwise(places)]
    assert max(steps) - min(steps) < 0.2
    assert "epoch" not in plot("run", {"loss": {"train": [(0, 1.0)]}})
