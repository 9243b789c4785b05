"""What is to be seen of a page in a real browser: how much and how large, on a desktop and a phone, near and far."""

import pytest

import wengert as wg
from tests.inspect.conftest import DESKTOP, PHONE


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("name", ["textbook", "mlp", "resnet", "gpt"])
def test_at_first_sight_everything_in_view_can_be_read(at, name, size):
    browser = at(name, size)
    sizes = browser.value("measures.sizes()")
    assert len(sizes) > 10 and min(sizes) >= 10
    assert min(browser.value("measures.inView()")) >= 4
    assert browser.value("measures.tooWide()") == []
    assert browser.errors == []


@pytest.mark.parametrize(("name", "least", "most"), [("textbook", 7, 7), ("resnet", 55, 80), ("gpt", 15, 80)])
def test_how_many_boxes_a_page_opens_with(at, name, least, most):
    browser = at(name)
    assert least <= browser.count_of("#forward .box") <= most
    assert sum(browser.value("measures.inView()")[:1]) == browser.count_of("#forward .box")  # all of them in view


def test_a_resnet_opens_with_textbook_names_classes_shapes_and_parameters(at):
    browser = at("resnet")
    boxes = browser.value("forward.items.map((item) => item.text)")
    assert ["conv1 · Conv2d", "[2, 64, 16, 16]", "9,408 param."] in boxes
    seen = browser.value(
        "forward.items.map((item) => [...item.element.querySelectorAll('text')].map((t) => t.textContent))"
    )
    assert ["conv1 Conv2d", "[2, 64, 16, 16]", "9,408 param."] in seen  # on the screen, at first sight
    names = [box[0] for box in boxes]
    assert names.count("relu") == 17 and "cross entropy" in names and sum("BatchNorm2d" in name for name in names) == 20
    colours = browser.value("""["Conv2d", "BatchNorm2d", "relu", "cross entropy"].map((name) => getComputedStyle(
        forward.items.find((item) => item.text[0].includes(name)).element.querySelector("rect")).fill)""")
    assert len(set(colours)) == 4


def test_numbers_stand_in_their_boxes_with_their_adjoints(at):
    browser = at("textbook")
    boxes = dict(browser.value("forward.items.map((item) => item.text)"))
    assert boxes["v2 = x2"] == "5 | v\u03042 1.71634"
    assert boxes["v6 = sin(v2)"] == "-0.958924 | v\u03046 -1"
    assert boxes["v7 = v5 - v6"] == "11.6521 | v\u03047 1"
    x1, x2 = browser.value("forward.items.slice(0, 2).map((item) => item.x)")
    assert x1 < x2


def test_from_near_a_box_says_more_and_from_afar_less(at):
    browser = at("resnet")
    lines = "forward.items.find((item) => item.text[0].startsWith('bn1')).element.querySelectorAll('text').length"
    counts = []
    for scale in (0.1, 0.3, 1.0, 3.0):
        browser.value(f"forward.view(d3.zoomIdentity.scale({scale})), 0")
        browser.settle()
        counts.append(browser.value(lines))
        assert min(browser.value("measures.sizes()")) >= 10
        assert browser.value("measures.tooWide()") == []
    assert counts == sorted(counts) and counts[0] == 0 and counts[-1] > counts[-2] > counts[1]


def test_the_minimap_shows_where_one_is_and_goes_there(at):
    browser = at("resnet")
    hidden = "document.querySelector('#forward-pane .minimap').hidden"
    assert browser.value(hidden) is True  # all is in view
    browser.value("zoomBy(4)")
    assert browser.value(hidden) is False
    before = browser.value("[forward.transform.x, forward.transform.y, forward.transform.k]")
    browser.click("#forward-pane .minimap")
    x, y, k = browser.value("[forward.transform.x, forward.transform.y, forward.transform.k]")
    assert [x, y] != before[:2] and k == before[2]
    middle = browser.value(
        "forward.transform.invert([forward.svg.node().clientWidth / 2, forward.svg.node().clientHeight / 2])"
    )
    size = browser.value("[forward.size.width, forward.size.height]")
    assert middle == pytest.approx([side / 2 for side in size], rel=0.05)


def test_a_window_of_another_size_is_fitted_again_unless_the_view_was_moved(at):
    browser = at("textbook")
    for size in ((900, 600), (844, 390), PHONE, DESKTOP):
        browser.resize(*size)
        browser.settle()
        assert min(browser.value("measures.inView()")) == 7, size
    browser.value("forward.isMoved = true, forward.view(d3.zoomIdentity.scale(2)), 0")
    browser.resize(1300, 900)
    browser.settle()
    assert browser.value("forward.transform.k") == 2


@pytest.mark.parametrize(("size", "is_stacked"), [((1900, 600), False), ((1000, 1400), True)])
def test_two_graphs_are_beside_or_above_each_other_as_shows_them_larger(at, size, is_stacked):
    browser = at("textbook", size)
    (left, top), (right, bottom) = browser.value("""[forward, backward].map((pane) => {
        const box = pane.svg.node().getBoundingClientRect();
        return [box.left, box.top]; })""")
    assert (left == right and bottom > top) if is_stacked else (right > left and top == bottom)
    assert browser.value("measures.inView()") == [7, 10]


def test_a_phone_has_help_without_keys_and_one_graph_at_a_time(at):
    browser = at("textbook", PHONE)
    told = browser.text("#details")
    assert "Tap a box" in told and browser.count_of("#details kbd") == 0
    assert browser.value("shownPanes().length") == 1
    browser.click('[data-view="backward"]')
    browser.settle()
    assert browser.value("[byName('forward-pane').hidden, byName('backward-pane').hidden]") == [True, False]
    assert browser.value("measures.inView()") == [browser.value("model.backward.length")]
    assert browser.value("document.documentElement.scrollWidth") <= 390


def test_dark_mode_keeps_text_apart_from_its_box(at):
    browser = at("resnet", scheme="dark")
    contrasts = browser.value("measures.contrasts()")
    assert len(contrasts) > 50 and min(contrasts) >= 4.5  # what WCAG asks of text
    browser.press("d")
    assert browser.value("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_layout_is_in_a_worker_and_nothing_waits_long_for_it(at):
    """The times are printed; they decide only at ten times what is promised, when the page would be frozen."""
    browser = at("gpt")
    assert browser.value("layouter.threaded") is True
    paint = browser.value("performance.getEntriesByName('first-paint')[0].startTime")
    blocks = "forward.items.filter((item) => item.group?.about.class === 'Block').map((item) => item.key)"
    times = [browser.value(f"measures.timed(() => forward.expand({key!r}))") for key in browser.value(blocks)]
    everything = browser.value("measures.timed(() => forward.fold(true))")
    print(f"first paint {paint:.0f} ms, a block {max(times):.0f} ms at most, everything {everything:.0f} ms")
    assert len(times) == 12 and max(paint, everything, *times) < 10_000
    assert browser.count_of("#forward .box") == browser.value("model.forward.length")


def test_a_long_program_without_modules_comes_in_parts(browser, tmp_path):
    def long(x):
        for _ in range(120):
            x = wg.sin(x) * x
        return x

    browser.resize(*DESKTOP)
    browser.open(wg.inspect.page(long, tmp_path / "long.html", wg.ones(4)))
    browser.settle()
    labels = browser.value("forward.items.map((item) => item.text[0])")
    assert labels[:2] == ["v1 \u2026 v40", "v41 \u2026 v80"] and len(labels) == 7
    browser.press("e")
    browser.settle()
    assert browser.count_of("#forward .box") == browser.value("model.forward.length") == 241
    assert browser.errors == []


def test_without_workers_the_page_lays_out_itself(browser, tmp_path):
    page = wg.inspect.page(lambda x: wg.sin(x) * x, tmp_path / "page.html", 2.0)
    page.write_text(page.read_text().replace("<head>", "<head><script>delete window.Worker</script>", 1))
    browser.resize(*DESKTOP)
    browser.open(page)
    browser.settle()
    assert browser.value("layouter.threaded") is False
    assert browser.count_of("#forward .box") == 3 and browser.errors == []


def test_boxes_never_overlap_and_stand_inside_their_groups(at):
    browser = at("resnet")
    browser.value("forward.fold(true)")
    assert browser.value("measures.misplaced(forward)") == []
