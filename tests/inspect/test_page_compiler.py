"""The compiler's view in a real browser: passes, kernels with their C, and memory."""

import re

import pytest

import wengert as wg


@pytest.fixture
def compiler(at):
    browser = at("mlp")
    browser.click('[data-view="compiler"]')
    browser.settle()
    return browser


def test_the_slider_and_the_arrows_go_through_the_passes_and_the_counter_follows(compiler):
    passes = compiler.value("model.compiler.passes.map((pass) => pass.name)")
    assert compiler.text("#step") == f"pass {len(passes)} / {len(passes)}"
    compiler.press("Home")
    compiler.settle()
    assert compiler.text("#step") == f"pass 1 / {len(passes)}" and compiler.text("#pass-name").startswith("recorded")
    for number, name in enumerate(passes[1:], 2):
        compiler.press("ArrowRight")
        compiler.settle()
        assert compiler.text("#step") == f"pass {number} / {len(passes)}"
        assert compiler.text("#pass-name").startswith(name)
    compiler.press("ArrowLeft")
    compiler.settle()
    assert compiler.text("#step") == f"pass {len(passes) - 1} / {len(passes)}"
    assert compiler.errors == []


def test_the_panel_tells_of_the_passes_and_not_of_the_graph(compiler):
    told = compiler.text("#details")
    assert "what the compiler did" in told and "the pass before, the next pass" in told
    assert "gradient" not in told and "removed 0" not in told


def test_parameters_have_their_names(compiler):
    for _ in range(2):
        names = compiler.value(
            "compiler.pane.items.filter((i) => i.node && !i.node.sources.length).map((i) => i.text[0])"
        )
        assert {"0.weight", "0.bias", "2.weight", "2.bias"} <= set(names) and "placeholder" not in names
        compiler.press("Home")
        compiler.press("e")
        compiler.settle()


def test_a_kernel_shows_its_c_under_its_own_number_and_nothing_moves(compiler):
    view = "[String(compiler.pane.transform), compiler.pane.items.length]"
    before = compiler.value(view)
    keys = compiler.value("compiler.pane.items.filter((item) => item.group).map((item) => item.key)")
    assert len(keys) == compiler.value("model.compiler.kernels.filter((kernel) => kernel.nodes.length).length")
    shown = set()
    for key in keys:
        compiler.click(f'#compiled [data-key="{key}"]')
        number = int(key.removeprefix("k:"))
        symbol = compiler.text("#details h2")
        source = compiler.text("#kernel-source")
        shown.add(source)
        label = compiler.value(f"compiler.pane.placed.get({key!r}).text[0]")
        assert label == f"{number}: {symbol}" and f"step\t{number} of" in compiler.text("#details")
        assert f"{symbol}(" in source, (label, source)
    assert len(shown) > 5 and compiler.value(view) == before
    assert compiler.errors == []


def test_an_opened_kernel_shows_its_values_at_the_same_scale(compiler):
    scale = compiler.value("compiler.pane.transform.k")
    key = compiler.value("compiler.pane.items.find((item) => item.group?.nodes.length > 3).key")
    before = compiler.count_of("#compiled .box")
    compiler.value(f"compiler.pane.expand({key!r})")
    assert compiler.count_of("#compiled .box") >= before + 3
    assert compiler.value("compiler.pane.transform.k") == scale


def test_memory_has_an_axis_figures_and_leads_to_the_kernel_of_a_step(compiler):
    steps = compiler.value("model.compiler.memory.length")
    assert compiler.count_of("#memory rect") == steps
    assert re.search(r"at most [\d.]+ k?B, at step \d+; arena", compiler.text("#memory p"))
    labels = compiler.value("[...document.querySelectorAll('#memory .axis text')].map((text) => text.textContent)")
    assert "0 B" in labels and "step 0" in labels and any(label.endswith("kB") for label in labels)
    compiler.value("document.querySelectorAll('#memory rect')[1].dispatchEvent(new Event('click', { bubbles: true }))")
    assert "step\t1 of" in compiler.text("#details")
    assert compiler.text("#memory p").startswith("step 1:") and "largest" in compiler.text("#memory p")
    assert compiler.count_of("#memory rect.now") == 1


def test_new_nodes_of_a_pass_have_a_green_frame(compiler):
    number = compiler.value("model.compiler.passes.findIndex((pass) => pass.added?.length)")
    compiler.value(f"compiler.show({number})")
    compiler.press("e")
    compiler.settle()
    added = compiler.value(f"model.compiler.passes[{number}].added.length")
    assert compiler.count_of("#compiled .box.added") == added


def test_a_large_program_comes_in_stretches_of_steps(browser, tmp_path):
    @wg.compile
    def long(x):
        for _ in range(70):
            x = wg.tanh(x @ x)
        return x

    browser.resize(1400, 1000)
    browser.open(wg.inspect.page(long, tmp_path / "long.html", wg.ones((4, 4))))
    browser.click('[data-view="compiler"]')
    browser.settle()
    labels = browser.value("compiler.pane.items.map((item) => item.text[0])")
    steps = browser.value("model.compiler.kernels.length")
    assert steps >= 70 and labels[0] == "steps 0 \u2026 19" and labels[-1].endswith(f"\u2026 {steps - 1}")
    assert all(label.startswith("steps") for label in labels)
    browser.click(f'#compiled [data-key="{browser.value("compiler.pane.items[1].key")}"]')
    assert browser.count_of("#details [data-kernel]") == 20
    browser.click('#details [data-kernel="25"]')
    browser.settle()
    assert "step\t25 of" in browser.text("#details") and browser.count_of('#compiled [data-key="k:25"].picked') == 1
    assert browser.errors == []
