"""What a notebook shows of Tensors, compiled functions, profiles, modules and pages."""

import html
from html.parser import HTMLParser

import pytest

import wengert as wg

MODEL = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.ReLU(), wg.nn.Linear(8, 3))


class Cells(HTMLParser):
    """The cells of the tables in some HTML, row by row; elements must be closed."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.open, self.folded = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1].append(data.strip())
        elif self.open and self.open[-1] == "summary":
            self.folded.append(data)


def test_a_tensor_shows_its_value_and_how_it_was_recorded():
    x = wg.tensor(2.0, requires_grad=True)
    shown = (wg.sin(x) * x)._repr_html_()
    assert "1.8186" in shown
    assert "recorded: 2 ops" in shown and "sin" in shown and "test_notebook.py" in shown


def test_a_tensor_without_a_history_shows_only_its_value():
    assert "recorded" not in wg.tensor([1.0, 2.0])._repr_html_()
    assert "recorded" not in wg.tensor([1.0, 2.0], requires_grad=True)._repr_html_()


def test_a_tensor_whose_graph_is_gone_shows_only_its_value():
    x = wg.tensor(2.0, requires_grad=True)
    y = x * x
    y.backward()
    assert "4" in y._repr_html_() and "recorded" not in y._repr_html_()


def test_a_compiled_function_shows_what_was_made_of_it():
    f = wg.compile(lambda x: wg.exp(x) + 1)
    assert "not called yet" in f._repr_html_()
    f(wg.ones(3))
    assert "&lt;compiled" in f._repr_html_() and "bytes moved" in f._repr_html_()
    cells = Cells(f._repr_html_())
    assert cells.rows[0] == ["pass or stage", "nodes", "kernels", "bytes moved", "MFLOP", "peak memory", "ms"]
    assert {"recorded", "simplify", "fuse", "build"} <= {row[0] for row in cells.rows}
    assert "1 kernel," in f._repr_html_() and "exp" in f._repr_html_()


def test_a_profile_shows_its_tables():
    f = wg.compile(lambda x: wg.relu(MODEL(x)).sum())
    with wg.no_grad(), wg.profile() as profile:
        f(wg.ones((2, 4))).item()
    cells = Cells(profile._repr_html_())
    assert cells.folded == ["by kernel", "by module", "by function", "by line"]
    by_name = {row[0]: row for row in cells.rows}
    assert by_name["Sequential.0"][3] == "1" and by_name["linear"][2].endswith("%")
    assert "ceiling" in profile._repr_html_() and "memory: at most" in profile._repr_html_()


def test_a_module_shows_its_layers_and_its_summary_their_shapes():
    rows = Cells(MODEL._repr_html_()).rows
    assert rows[1] == ["model", "Sequential", "67"] and rows[2][1:] == [
        "Linear",
        "in_features=4, out_features=8, bias=True",
        "40",
    ]
    summary = MODEL.summary(wg.zeros((2, 4)))
    assert Cells(summary._repr_html_()).rows[2] == ["0 (Linear)", "(2, 8)", "40", "128"]
    assert repr(summary) == str(summary) and summary.startswith("layer")


def test_show_is_the_page_in_a_frame(tmp_path):
    page = wg.inspect.show(lambda x, y: wg.log(x) * y, 2.0, 5.0)
    frame = page._repr_html_()
    assert frame.startswith("<iframe srcdoc=") and 'height="520"' in frame and '"log(v1)"' in html.unescape(frame)
    inside = frame.removeprefix('<iframe srcdoc="').split('" title="')[0]
    assert html.unescape(inside) == page.text and '"' not in inside
    assert page.save(tmp_path / "f.html").read_text() == page.text
    assert wg.inspect.show(lambda x: MODEL(x).sum(), wg.ones((2, 4))).height == 640
    assert wg.inspect.show(lambda x: x * x, 2.0, height=300).height == 300
    with pytest.raises(wg.errors.ArgumentError, match="number of pixels"):
        wg.inspect.show(lambda x: x * x, 2.0, height=0)
