"""A page in use, in a real browser: pointing, steps, search, keys, sliders, pictures; and what stays in its place."""

import io
import struct
import zipfile

import pytest

import wengert as wg
from tests.inspect.conftest import PHONE

ZIPPED = "(async () => Array.from(zipped(await allSteps())))()"


def key_of(browser, start):
    """The box whose text starts so."""
    return browser.value(
        f"[...forward.items, ...backward.items].find((item) => item.text[0].startsWith({start!r})).key"
    )


# --- pointing and reading ---


def test_a_click_tells_of_a_node_and_lights_its_gradient(at):
    browser = at("textbook")
    browser.click(f'#forward [data-key="{key_of(browser, "v6 =")}"]')
    told = browser.text("#details")
    assert "v6 = sin(v2)" in told and "conftest.py" in told and "cos(v2)" in told and "0.283662" in told
    assert "-0.958924" in told and "NaN" not in told
    lit = browser.value("[...document.querySelectorAll('#backward .lit text')].map((text) => text.textContent)")
    assert any("cos(v2)" in text for text in lit)
    browser.press("g")
    assert browser.text("#details h2").startswith("v\u03046 = -v\u03047")
    browser.press("Escape")
    assert "Hover over a node" in browser.text("#details")
    assert browser.errors == []


def test_an_adjoint_over_two_paths_is_told_as_their_sum(at):
    browser = at("textbook")
    browser.click(f'#forward [data-key="{key_of(browser, "v2 =")}"]')
    told = browser.text("#details")
    assert "the sum over 2 paths: -0.283662 + 2 = 1.71634" in told
    assert "\u2202v6/\u2202v2" in told and "\u2202v4/\u2202v2" in told
    browser.press("g")
    assert "The accumulation at v2" in browser.text("#details") and "-0.283662 + 2 = 1.71634" in browser.text(
        "#details"
    )


def test_a_node_of_the_gradient_tells_its_rule_in_symbols_and_numbers(at):
    browser = at("textbook")
    key = key_of(browser, "v\u03046 =")
    browser.click(f'#backward [data-key="{key}"]')
    told = browser.text("#details")
    assert "v\u03047 * \u2202v7/\u2202v6 = 1 * -1 = -1" in told and "rule of" in told
    browser.click(f'#backward [data-key="{key_of(browser, "g2 =")}"]')
    told = browser.text("#details").lower()
    assert "a term of v\u03042" in told and "= -1 * 0.283662 = -0.283662" in told


def test_adjoints_that_are_the_same_node_say_so(at):
    browser = at("textbook")
    browser.click(f'#forward [data-key="{key_of(browser, "v3 =")}"]')
    assert "adjoint v\u03043 = v\u0304" in browser.text("#details").replace("ADJOINT", "adjoint")


def test_a_group_tells_what_it_is_and_opens_by_a_second_click(at):
    browser = at("resnet")
    key = key_of(browser, "conv1")
    browser.click(f'#forward [data-key="{key}"]')
    told = browser.text("#details")
    assert "Conv2d" in told and "9,408" in told and "float32[2, 64, 16, 16]" in told and "ResNet.conv1" in told
    browser.value(f"forward.view(d3.zoomIdentity), forward.bringIntoView({key!r}), 0")
    before = browser.count_of("#forward .box")
    for _ in range(2):
        browser.click(f'#forward [data-key="{key}"]')
    browser.settle()
    assert browser.count_of("#forward .box") > before
    browser.click(f'#forward .frame[data-key="{key}"] .sign')
    browser.settle()
    assert browser.count_of("#forward .box") == before
    assert browser.errors == []


def test_opening_a_group_leaves_it_where_it_was_and_the_scale_as_it_was(at):
    browser = at("resnet")
    browser.value("forward.view(d3.zoomIdentity.translate(200, 50)), 0")
    key = key_of(browser, "relu")
    x, y = browser.value(f"forward.onScreen({key!r})")
    browser.value(f"forward.expand({key!r})")
    now = browser.value(f"[...forward.onScreen({key!r}), forward.transform.k]")
    assert now[1:] == [pytest.approx(y, abs=2), 1] and abs(now[0] - x) < 200
    before = browser.value("forward.items.map((item) => item.key)")
    browser.value(f"forward.collapse({key!r})")
    assert set(browser.value("forward.items.map((item) => item.key)")) < {*before, key}
    assert browser.value(f"forward.onScreen({key!r})[1]") == pytest.approx(y, abs=2)


def test_what_is_opened_comes_into_view_and_the_rest_keeps_its_form(at):
    browser = at("resnet")
    form = """(() => { const inside = forward.items.filter((item) => forward.isInside(item, forward.groups[0].key));
        return inside.map((item) => [item.x - inside[0].x, item.y - inside[0].y]); })()"""
    before = browser.value(form)
    key = key_of(browser, "cross entropy")
    browser.value(f"forward.expand({key!r})")
    assert browser.value(form) == before and len(before) > 60
    frame = browser.value(f"document.querySelector('.frame[data-key=\"{key}\"]').getBoundingClientRect().toJSON()")
    pane = browser.value("forward.svg.node().getBoundingClientRect().toJSON()")
    assert pane["top"] <= frame["top"] and frame["bottom"] <= pane["bottom"] + 1
    browser.value(f"forward.collapse({key!r})")
    assert browser.value(form) == before


# --- steps ---


def test_steps_go_one_op_at_a_time_and_what_is_to_come_is_not_computed(at):
    browser = at("textbook")
    browser.press("Home")
    assert browser.text("#step") == "0 / 15"
    assert browser.count_of("#forward .box.later") == 5
    box = "document.querySelector('#forward [data-key=\"n:2\"]').textContent"
    assert "not computed yet" in browser.value(box)
    browser.press("ArrowRight")
    assert browser.text("#step") == "1 / 15" and "0.693147" in browser.text("#details")
    assert "not computed yet" in browser.text("#details")  # its gradient
    assert "0.693147" in browser.value(box) and "|" not in browser.value(box)
    browser.press("End")
    assert browser.count_of(".box.later") == 0
    assert browser.errors == []


def test_a_layer_whose_ops_are_to_come_is_faded_though_its_parameters_are_there(at):
    browser = at("resnet")
    browser.press("Home")
    shown = "forward.items.filter((item) => !item.isLater).map((item) => item.text[0])"
    assert browser.value(shown) == ["v1 = x", "v2 = y"]
    browser.press("ArrowRight")
    assert browser.value(shown) == ["v1 = x", "v2 = y", "conv1 \u00b7 Conv2d"]


def test_stepping_and_picking_move_the_view_only_to_what_is_out_of_it(at):
    browser = at("textbook")
    view = "[forward, backward].map((pane) => String(pane.transform))"
    before = browser.value(view)
    browser.press("Home")
    for _ in range(15):
        browser.press("ArrowRight")
    browser.settle()
    assert browser.value(view) == before
    browser.value("forward.view(d3.zoomIdentity.translate(-5000, 0)), pick(2)")
    browser.settle()
    x, y = browser.value('measures.place("n:2")')
    assert 0 < x < 560 and 0 < y < 1000


def test_stepping_by_boxes_takes_a_closed_group_as_one_step(at):
    browser = at("mlp")
    browser.press("Home")
    boxes = []
    for _ in range(4):
        browser.press("ArrowRight", shift=True)
        browser.settle()
        boxes.append(browser.value("forward.tree.keyOf(order[state.step - 1].id)"))
    assert len(set(boxes)) == 4
    assert browser.count_of("#forward .frame") == 1  # nothing was opened by it


# --- search ---


def type_in(browser, text):
    browser.value("byName('search').value = ''")
    browser.press("/")
    for key in text:
        browser.press(key)


FOUND = [
    ("relu", "relu"),
    ("batchnorm2d", "BatchNorm2d"),
    (r"layer[34].*conv\d", "conv1"),
    ("cross entropy", "cross entropy"),
    ("[2, 64, 16, 16]", "conv1"),
    ("conftest.py", "conftest.py"),
    ("(", ""),
]


def test_search_finds_functions_modules_shapes_and_lines(at):
    browser = at("resnet")
    for text, expected in FOUND:
        type_in(browser, text)
        assert int(browser.text("#found").split()[0]) > 0, text
        assert expected in browser.text("#hits li"), text
        browser.press("Escape")
    assert browser.errors == []


def test_search_results_are_reached_by_keys_and_lead_into_closed_groups(at):
    browser = at("resnet")
    type_in(browser, "less_equal")
    browser.press("ArrowDown")
    assert browser.count_of("#hits li[aria-selected=true]") == 1
    browser.press("ArrowDown")
    chosen = browser.text("#hits li[aria-selected=true] b")
    browser.press("Enter")
    browser.settle()
    assert browser.text("#details h2") == chosen
    assert browser.count_of("#forward .box.picked") == 1
    browser.press("Escape")
    assert browser.value("byName('hits').hidden") is True
    type_in(browser, "nothing like it")
    assert browser.text("#found") == "0 found"


# --- without a mouse ---


def test_every_box_is_named_for_a_screen_reader_and_one_of_them_is_reached_by_tab(at):
    browser = at("resnet")
    told = "(b) => [b.getAttribute('role'), b.getAttribute('aria-label'), b.tabIndex]"
    boxes = browser.value(f"[...document.querySelectorAll('#forward .box')].map({told})")
    assert all(role == "button" and len(label) > 5 for role, label, _ in boxes)
    assert sum(index == 0 for *_, index in boxes) == 1
    assert any("conv1 · Conv2d, [2, 64, 16, 16], 9,408 param." in label for _, label, _ in boxes)
    assert browser.count_of("[aria-live=polite]") == 1


def test_boxes_are_gone_through_and_opened_by_keys(at):
    browser = at("resnet")
    browser.value("document.querySelector('#forward .box[tabindex=\"0\"]').focus()")
    labels = []
    for _ in range(4):
        browser.press("ArrowDown")
        labels.append(browser.value("document.activeElement.getAttribute('aria-label')"))
    assert len(set(labels)) == 4
    group = browser.value("forward.items.find((item) => item.group).key")
    browser.value(f"forward.painter.focus({group!r}), 0")
    before = browser.count_of("#forward .box")
    browser.press("Enter")
    browser.until(f'document.querySelectorAll("#forward .box").length > {before}')
    frame = f"document.querySelector('.frame[data-key=\"{group}\"]')"
    assert browser.value(f"{frame}.getAttribute('aria-expanded')") == "true"
    focused = "document.activeElement.dataset.key"
    browser.until(f"forward.placed.get({focused})?.parent === {group!r}")  # into the group
    browser.press("Enter", shift=True)
    browser.until(f"{focused} === {group!r}")  # and out of it
    assert browser.count_of("#forward .box") == before
    browser.press("ArrowDown")
    keys = "forward.items.map((item) => item.key)"
    assert browser.value(f"{keys}.indexOf({focused}) - {keys}.indexOf({group!r})") == 1
    assert browser.value("byName('announced').textContent") != ""
    assert browser.errors == []


def test_everything_can_be_folded_and_opened(at):
    browser = at("gpt")
    browser.press("c")
    browser.settle()
    assert browser.count_of("#forward .box") < 10
    browser.press("e")
    browser.settle()
    assert browser.count_of("#forward .box") == browser.value("model.forward.length")
    assert browser.value("model.forward.some((node) => (node.module ?? []).join('.').includes('transformer.h.0.attn'))")
    assert browser.errors == []


def test_a_phone_taps_twice_to_open_and_sees_the_gradient_of_a_step(at):
    browser = at("resnet", PHONE)
    key = browser.value("forward.items.find((item) => item.group).key")
    browser.value(f"forward.bringIntoView({key!r}), 0")
    before = browser.count_of("#forward .box")
    x, y = browser.value(f"measures.place({key!r})")
    for _ in range(2):
        browser.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        browser.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    browser.settle()
    assert browser.count_of("#forward .box") > before
    browser.value("go(model.forward.length + 20)")
    browser.settle()
    assert browser.value("state.view") == "backward"
    assert browser.errors == []


# --- sliders ---


def test_sliders_compute_every_number_anew(at):
    browser = at("textbook")
    assert browser.count_of("#sliders input[type=range]") == 2
    browser.value("""(() => { const slider = document.querySelector('#sliders input'); slider.value = 3;
        slider.dispatchEvent(new Event('input', { bubbles: true })); })()""")
    boxes = dict(browser.value("forward.items.map((item) => item.text)"))
    dx, dy = wg.grad(lambda x, y: wg.log(x) + x * y - wg.sin(y), argnums=(0, 1))(wg.tensor(3.0), wg.tensor(5.0))
    assert boxes["v1 = x1"].startswith("3 |") or boxes["v1 = x1"].startswith("3.0")
    x1 = float(boxes["v1 = x1"].split()[0])
    assert float(boxes["v1 = x1"].split()[-1]) == pytest.approx(1 / x1 + 5, rel=1e-4)
    assert float(boxes["v2 = x2"].split()[-1]) == pytest.approx(x1 - 0.2836622, rel=1e-4)
    assert (dx.item(), dy.item()) == pytest.approx((1 / 3 + 5, 3 - 0.2836622), rel=1e-4)
    browser.click(f'#forward [data-key="{key_of(browser, "v2 =")}"]')
    assert f"-0.283662 + {x1:g} = " in browser.text("#details")
    browser.press("Escape")
    browser.click("[data-reset]")
    assert dict(browser.value("forward.items.map((item) => item.text)"))["v2 = x2"] == "5 | v\u03042 1.71634"
    assert browser.errors == []


# --- pictures ---


def test_what_is_shown_is_saved_as_svg_and_png_and_every_step_in_a_zip(at):
    browser = at("textbook")
    svg = browser.value("asSvg()")
    assert svg.startswith("<svg xmlns") and "log(v1)" in svg and "-0.958924" in svg and "tabindex" not in svg
    png = bytes(browser.value("(async () => Array.from(new Uint8Array(await (await asPng()).arrayBuffer())))()"))
    assert png[:4] == b"\x89PNG"
    width, height = struct.unpack(">II", png[16:24])
    assert width > 1000 and height > 400
    browser.press("Home")
    assert browser.value("asSvg()") != svg
    with zipfile.ZipFile(io.BytesIO(bytes(browser.value(ZIPPED)))) as steps:
        assert steps.testzip() is None
        assert steps.namelist() == [f"step-{i:03}.svg" for i in range(16)]
        texts = [steps.read(name).decode() for name in steps.namelist()]
    assert len(set(texts)) > 10 and all("log(v1)" in text for text in texts)
    assert browser.text("#step") == "0 / 15"
    assert browser.errors == []


# --- other pages ---


def test_before_backward_the_page_says_not_computed_yet(browser, tmp_path):
    x = wg.tensor(3.0, requires_grad=True)
    browser.resize(1400, 1000)
    browser.open(wg.inspect.page(x * x, tmp_path / "before.html"))
    browser.settle()
    browser.click('#backward [data-key^="n:"]')
    assert "not computed yet" in browser.text("#details")
    assert "not computed yet" in browser.text("#backward-title")
    assert browser.errors == []


def test_a_page_needs_no_network_and_is_small(page_of):
    path = page_of("mlp")
    assert path.stat().st_size < 2_000_000
    assert "http://" not in path.read_text().replace("http://www.w3.org/", "")
