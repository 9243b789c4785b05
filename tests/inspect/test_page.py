"""The data of a page, before it is drawn: nodes, derivatives, gradients, modules; and what cannot be shown."""

import re
from collections import Counter
from importlib.resources import files

import pytest

import wengert as wg
from tests.inspect.conftest import Step, textbook
from wengert.inspect.model import as_data
from wengert.inspect.page import _SCRIPTS
from wengert.inspect.recorded import record


@pytest.fixture(scope="module")
def step():
    return Step()


def named(data, name):
    return next(node for node in [*data["forward"], *data["backward"]] if node["name"] == name)


def test_the_textbook_function_gets_its_derivatives_in_symbols_and_numbers():
    data = as_data(record(textbook, (2.0, 5.0), {}))
    told = [(node["name"], node["text"]) for node in data["forward"]]
    assert told == [
        *[("v1", "x1"), ("v2", "x2"), ("v3", "log(v1)"), ("v4", "v1 * v2")],
        *[("v5", "v3 + v4"), ("v6", "sin(v2)"), ("v7", "v5 - v6")],
    ]
    slopes = {
        n["name"]: [(d["symbols"], d["value"]["shown"]) for d in n.get("derivatives", [])] for n in data["forward"]
    }
    assert slopes["v3"] == [("1 / v1", ["0.5"])]
    assert slopes["v4"] == [("v2", ["5"]), ("v1", ["2"])]
    assert slopes["v6"] == [("cos(v2)", ["0.283662"])]
    assert named(data, "v\u03041")["value"]["shown"] == ["5.5"]
    assert named(data, "v\u03042")["value"]["shown"] == ["1.71634"]


def test_every_node_of_a_gradient_knows_the_forward_node_whose_rule_made_it():
    data = as_data(record(textbook, (2.0, 5.0), {}))
    sine, cosine = named(data, "v6"), next(node for node in data["backward"] if node["op"] == "cos")
    assert cosine["rule"] == sine["id"]
    assert all("rule" in node for node in data["backward"] if node["role"] == "step")
    by_id = {node["id"] for node in data["forward"]}
    assert all(node["at"] in by_id for node in data["backward"] if node["role"] == "accumulation")


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
        (wg.tensor(1.0), (2.0,), "a Tensor takes no arguments"),
        (lambda x: None, (2.0,), "which contains no tensor"),
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


def test_the_scripts_of_a_page_define_no_name_twice():
    """They share one scope, in which a second function of a name would silently replace the first."""
    texts = [(files("wengert.inspect") / f"{name}.js").read_text() for name in _SCRIPTS]
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", "\n".join(texts), re.M)
    assert len(names) > 100 and [name for name, count in Counter(names).items() if count > 1] == []
