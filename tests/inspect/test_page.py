"""The page in a real browser: it loads, counts and tells right, follows clicks and keys, and reports no errors."""

import io
import statistics
import zipfile

import pytest

import wengert as wg
from wengert.inspect.model import as_data
from wengert.inspect.recorded import record

pytest.importorskip("tornado", reason="the browser is driven over a websocket of tornado's")
from tests.inspect.browser import CHROMIUM, Browser

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to open pages with")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("browser"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("pages")


def textbook(x1, x2):
    return wg.log(x1) + x1 * x2 - wg.sin(x2)


class Step:
    """An MLP with its loss and its training step."""

    def __init__(self):
        wg.manual_seed(0)
        self.model = wg.nn.Sequential(wg.nn.Linear(64, 32), wg.nn.ReLU(), wg.nn.Linear(32, 10))
        self.optimizer = wg.optim.SGD(self.model.parameters(), lr=0.1)
        self.batch = wg.random.normal((16, 64)), wg.tensor([i % 10 for i in range(16)])

    def loss(self, x, y):
        return wg.nn.CrossEntropyLoss()(self.model(x), y)

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss


@pytest.fixture(scope="module")
def step():
    return Step()


def named(data, name):
    return next(node for node in [*data["forward"], *data["backward"]] if node["name"] == name)


# --- the data -------------------------------------------------------------------------------------------------------


def test_the_textbook_function_gets_its_derivatives_in_symbols_and_numbers():
    data = as_data(record(textbook, (2.0, 5.0), {}))
    told = [(node["name"], node["text"]) for node in data["forward"]]
    assert told == [
        *[("x1", "given"), ("x2", "given"), ("v1", "log(x1)"), ("v2", "x1 * x2")],
        *[("v3", "v1 + v2"), ("v4", "sin(x2)"), ("v5", "v3 - v4")],
    ]
    slopes = {
        n["name"]: [(d["symbols"], d["value"]["shown"]) for d in n.get("derivatives", [])] for n in data["forward"]
    }
    assert slopes["v1"] == [("1 / x1", ["0.5"])]
    assert slopes["v2"] == [("x2", ["5"]), ("x1", ["2"])]
    assert slopes["v4"] == [("cos(x2)", ["0.283662"])]
    assert named(data, "x\u03041")["value"]["shown"] == ["5.5"]
    assert named(data, "x\u03042")["value"]["shown"] == ["1.71634"]


def test_every_node_of_a_gradient_knows_the_forward_node_whose_rule_made_it():
    data = as_data(record(textbook, (2.0, 5.0), {}))
    sine, cosine = named(data, "v4"), next(node for node in data["backward"] if node["op"] == "cos")
    assert cosine["rule"] == sine["id"]
    assert all("rule" in node for node in data["backward"] if node["op"] != "literal")


def test_before_backward_a_gradient_is_not_computed_and_never_zero():
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    y = (x * x).sum()
    before = as_data(record(y, (), {}))
    assert before["backward"] and not before["differentiated"]
    assert not any("value" in node for node in before["backward"])
    assert all("value" in node for node in before["forward"])
    y.backward(retain_graph=True)
    after = as_data(record(y, (), {}))
    cotangent = [node for node in after["backward"] if node["id"] in after["forward"][0]["cotangents"]]
    assert after["differentiated"] and cotangent[0]["value"]["shown"] == ["2", "4"]


def test_nans_are_counted_and_left_out_of_the_range():
    data = as_data(record(lambda x: wg.log(x), (wg.tensor([-1.0, 1.0, 4.0]),), {}))
    value = data["forward"][-1]["value"]
    assert (value["nan"], value["min"], value["max"]) == (1, "0", "1.38629")


def test_nodes_belong_to_the_modules_that_recorded_them_and_gradients_go_along(step):
    data = as_data(record(step.loss, step.batch, {}))
    products = [node for node in data["forward"] if node["op"] == "matmul"]
    assert [node["module"] for node in products] == [["Sequential", "0"], ["Sequential", "2"]]
    gradients = [node["module"] for node in data["backward"] if node["op"] == "matmul"]
    assert gradients == [["Sequential", "2"]] * 2 + [["Sequential", "0"]] * 2
    assert named(data, "0.weight")["module"] == ["Sequential", "0"]


def test_a_tensors_nodes_belong_to_modules_too(step):
    data = as_data(record(step.loss(*step.batch), (), {}))
    products = [node["module"] for node in data["forward"] if node["op"] == "matmul"]
    assert products == [["Sequential", "0"], ["Sequential", "2"]]
    gradients = {tuple(node["module"]) for node in data["backward"] if node["op"] == "matmul"}
    assert gradients == {("Sequential", "0"), ("Sequential", "2")}
    assert named(data, "2.weight")["module"] == ["Sequential", "2"]


def test_looking_changes_nothing(step):
    norm = wg.nn.BatchNorm1d(64)
    before = norm.running_mean.detach().numpy().copy(), step.model[0].weight.detach().numpy().copy()
    record(lambda x: norm(x).sum(), (step.batch[0],), {})
    record(wg.compile(step.step), step.batch, {})
    assert (norm.running_mean.detach().numpy() == before[0]).all() and (
        step.model[0].weight.detach().numpy() == before[1]
    ).all()
    assert step.model[0].weight.grad is None


@pytest.mark.parametrize(
    ("subject", "args", "message"),
    [
        (3, (), "takes a Tensor, or a function"),
        (wg.tensor(1.0), (2.0,), "those go with a function"),
        (lambda x: None, (2.0,), "in which there is no tensor"),
    ],
)
def test_what_cannot_be_shown_says_so(subject, args, message):
    with pytest.raises(wg.errors.ArgumentError, match=message):
        record(subject, args, {})


def test_a_step_that_is_not_compiled_says_what_to_do_and_leaves_the_gradients(step):
    with pytest.raises(wg.errors.GradientError, match=r"wg\.compile\(step\)"):
        record(step.step, step.batch, {})
    assert step.model[0].weight.grad is None


def test_a_graph_that_backward_let_go_says_so():
    x = wg.tensor(2.0, requires_grad=True)
    y = x * x
    y.backward()
    with pytest.raises(wg.errors.GradientError, match="retain_graph=True"):
        record(y, (), {})


# --- the page -------------------------------------------------------------------------------------------------------


@needs_browser
def test_nodes_are_drawn_and_a_click_tells_of_one(browser, folder):
    browser.open(wg.inspect.page(textbook, folder / "textbook.html", 2.0, 5.0))
    assert (browser.count_of("#forward .box"), browser.count_of("#backward .box")) == (7, 10)
    browser.click('#forward [data-key="n:5"]')
    told = browser.text("#details")
    assert "v4 = sin(x2)" in told and "test_page.py" in told and "cos(x2)" in told and "0.283662" in told
    assert "-0.958924" in told
    assert browser.value(
        "[...document.querySelectorAll('#backward .lit text')].some((t) => t.textContent.includes('cos(x2)'))"
    )
    browser.press("g")
    assert "negative" in browser.text("#details")
    assert browser.errors == []


@needs_browser
def test_steps_go_one_op_at_a_time_and_what_is_to_come_is_not_computed(browser, folder):
    browser.open(wg.inspect.page(textbook, folder / "textbook.html", 2.0, 5.0))
    browser.press("Home")
    assert browser.text("#step") == "0 / 15"
    assert browser.count_of("#forward .box.later") == 5
    browser.press("ArrowRight")
    assert browser.text("#step") == "1 / 15" and "0.693147" in browser.text("#details")
    assert "not computed yet" in browser.text("#details")  # its gradient
    browser.press("End")
    assert browser.count_of(".box.later") == 0
    svg = browser.value("asSvg()")
    assert svg.startswith("<svg xmlns") and "log(x1)" in svg
    browser.press("Home")
    assert browser.value("asSvg()") != svg
    with zipfile.ZipFile(io.BytesIO(bytes(browser.value("Array.from(zipped(allSteps()))")))) as steps:
        assert steps.testzip() is None
        assert steps.namelist() == [f"step-{i:03}.svg" for i in range(16)]
        texts = [steps.read(name).decode() for name in steps.namelist()]
    assert len(set(texts)) > 10 and all("log(x1)" in text for text in texts)
    assert browser.text("#step") == "0 / 15"
    assert browser.errors == []


@needs_browser
def test_before_backward_the_page_says_not_computed_yet(browser, folder):
    x = wg.tensor(3.0, requires_grad=True)
    browser.open(wg.inspect.page(x * x, folder / "before.html"))
    browser.click('#backward [data-key^="n:"]')
    assert "not computed yet" in browser.text("#details")
    assert "not computed yet" in browser.text("#backward-title")
    assert browser.errors == []


@needs_browser
def test_an_mlp_is_small_and_can_be_searched_folded_and_darkened(browser, folder, step):
    path = wg.inspect.page(step.loss, folder / "mlp.html", *step.batch)
    assert path.stat().st_size < 2_000_000
    assert "http://" not in path.read_text().replace("http://www.w3.org/", "")
    browser.open(path, "dark")
    dark = browser.value("getComputedStyle(document.body).backgroundColor")
    browser.press("d")
    assert browser.value("getComputedStyle(document.body).backgroundColor") != dark
    data = as_data(record(step.loss, step.batch, {}))
    assert browser.count_of("#forward .box") == len(data["forward"])
    browser.press("c")
    assert browser.count_of("#forward .box") == 2
    browser.click('#forward [data-key="m:Sequential"]')
    assert browser.count_of("#forward .box") == 4
    browser.press("/")
    for key in "matmul":
        browser.press(key)
    expected = sum("matmul" in node["op"] for node in [*data["forward"], *data["backward"]])
    assert browser.text("#found") == f"{expected} found"
    browser.press("Enter")
    assert "matmul" in browser.text("#details")
    assert browser.errors == []


@needs_browser
def test_a_compiled_step_shows_its_passes_kernels_and_memory(browser, folder, step):
    compiled = wg.compile(step.step)
    browser.open(wg.inspect.page(compiled, folder / "step.html", *step.batch))
    browser.click('[data-view="compiler"]')
    assert browser.text("#pass-name").startswith("recorded (1 of ")
    passes = browser.value("model.compiler.passes.map((pass) => pass.name)")
    for _ in passes[1:]:
        browser.press("ArrowRight")
    assert browser.text("#pass-name").startswith(f"fuse ({len(passes)} of {len(passes)})")
    assert browser.count_of("#compiled .cluster") > 3
    browser.value("document.querySelector('#compiled .cluster').dispatchEvent(new Event('click'))")
    assert "io[" in browser.text("#kernel-source")
    steps = browser.value("model.compiler.kernels.length")
    assert browser.count_of("#memory rect") == steps
    assert browser.errors == []


@needs_browser
def test_resnet18_is_grouped_by_module_and_ready_in_two_seconds(browser, folder):
    model = wg.models.resnet18().eval()
    path = wg.inspect.page(lambda x: model(x).sum(), folder / "resnet.html", wg.random.normal((1, 3, 32, 32)))
    seconds = statistics.median(browser.open(path) for _ in range(5))
    assert seconds < 2, f"{seconds:.2f} s until ready"
    assert 3 < browser.count_of("#forward .box") <= 40
    assert browser.count_of("#forward .box.group") > 3
    assert browser.errors == []


@needs_browser
def test_a_gpt_block_opens_down_to_its_nodes(browser, folder):
    model = wg.models.GPT(wg.models.GPTConfig(vocab_size=20, n_positions=8, n_embd=16, n_layer=1, n_head=2))
    tokens = wg.tensor([[1, 2, 3, 4]])
    browser.open(wg.inspect.page(lambda t: model(t).sum(), folder / "gpt.html", tokens))
    browser.press("e")
    assert browser.count_of("#forward .box") == browser.value("model.forward.length")
    assert browser.value("model.forward.some((node) => (node.module ?? []).join('.').includes('transformer.h.0.attn'))")
    assert browser.errors == []
