"""The data behind a page: modules, groups by call, names, adjoints, what the compiler made of it."""

from __future__ import annotations

import sys
import threading

import pytest

import wengert as wg
from wengert.core.graph import Node, seeing_nodes
from wengert.inspect.page import data_of
from wengert.learn.derivatives.steps import steps as steps_of

MODEL = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.LayerNorm(8), wg.nn.ReLU(), wg.nn.Linear(8, 3))
X, Y = wg.ones((2, 4)), wg.tensor([0, 1])


def f(x1, x2):
    return wg.log(x1) + x1 * x2 - wg.sin(x2)


def loss(x, y):
    return wg.cross_entropy(MODEL(x), y)


def step_of(model):
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    @wg.compile
    def step(x, y):
        optimizer.zero_grad()
        found = wg.cross_entropy(model(x), y)
        found.backward()
        optimizer.step()
        return found

    return step


def by_name(data, side="forward"):
    return {node["name"]: node for node in data[side]}


def groups_of(data, side="forward"):
    return [group for group in data["groups"] if group["side"] == side]


# --- modules ------------------------------------------------------------------------------------------------------


def test_a_loss_outside_of_modules_has_no_module():
    data = data_of(loss, (X, Y))
    outside = [node for node in data["forward"] if "module" not in node and not node.get("given")]
    assert outside and {node["function"] for node in outside} == {"cross_entropy"}
    assert data["outputs"][0] in [node["id"] for node in outside]
    assert {node["module"][0] for node in data["forward"] if "module" in node} == {"Sequential"}


@pytest.mark.parametrize("compiled", [False, True])
def test_a_profile_counts_code_after_a_module_outside_of_modules(compiled):
    def after(x):
        h = MODEL(x)
        for _ in range(3):
            h = wg.cumsum(wg.exp(wg.sin(h)), axis=0)
        return h.sum()

    run = wg.compile(after) if compiled else after
    with wg.no_grad(), wg.profile() as profile:
        run(X).item()
    rows = profile.rows("module")
    last, outside = rows["Sequential.3"], rows["(outside of modules)"]
    assert outside.count >= 6 and last.count <= 3
    assert {"cumsum", "linear"} <= set(profile.rows("function"))
    assert "(function not known)" not in profile.rows("function")


def test_page_and_profile_agree_on_the_modules_of_kernels():
    step = step_of(MODEL)
    with wg.profile() as profile:
        step(X, Y)
    data = data_of(step, (X, Y), profile=profile)
    billed: dict[str, int] = {}
    for kernel in data["compiler"]["kernels"]:
        name = kernel.get("module", "(outside of modules)")
        billed[name] = billed.get(name, 0) + 1
    assert billed == {name: row.count for name, row in profile.rows("module").items()}
    assert all(kernel["seconds"] > 0 for kernel in data["compiler"]["kernels"])


# --- groups -------------------------------------------------------------------------------------------------------


def test_a_group_is_one_call_of_the_function_that_the_user_called():
    def two(x):
        return wg.softmax(wg.relu(wg.relu(x))) + x.mean()

    data = data_of(two, (X,))
    labels = [group["label"] for group in groups_of(data)]
    assert sorted(labels) == ["mean", "relu", "relu", "softmax"]
    assert all(group["line"].startswith("test_model.py") for group in groups_of(data))
    nodes = {node["id"]: node for node in data["forward"]}
    for group in groups_of(data):
        assert {nodes[number]["function"] for number in group["nodes"]} == {group["function"]}
        assert all(nodes[number]["group"] == group["id"] for number in group["nodes"])
    backward = {group["label"]: group for group in groups_of(data, "backward")}
    forward = {group["id"]: group for group in groups_of(data)}
    assert forward[backward["softmax backward"]["of"]]["label"] == "softmax"


def test_functions_that_a_public_function_calls_belong_to_it():
    data = data_of(lambda x, y: wg.cross_entropy(x, y), (wg.ones((2, 3)), Y))
    assert [group["label"] for group in groups_of(data)] == ["cross entropy"]  # which calls log_softmax


def test_a_layer_is_one_box_and_knows_its_class_output_and_parameters():
    data = data_of(loss, (X, Y))
    groups = {group["label"]: group for group in groups_of(data)}
    norm = groups["1"]
    assert (norm["kind"], norm["class"], norm["function"], norm["leaf"]) == ("module", "LayerNorm", "layer_norm", True)
    assert (norm["output"], norm["parameters"], norm["module"]) == ("float32[2, 8]", 16, "Sequential.1")
    assert norm["parent"] == groups["Sequential"]["id"] and not groups["Sequential"]["leaf"]
    assert groups["Sequential"]["parameters"] == sum(p.size for p in MODEL.parameters())
    assert groups["Sequential"]["inputs"] == ["float32[2, 4]"]
    assert groups["cross entropy"]["output"] == "float32[]" and "parent" not in groups["cross entropy"]


def test_resnet18_is_about_sixty_boxes():
    model = wg.models.resnet18().eval()
    data = data_of(lambda x: model(x).sum(), (wg.ones((2, 3, 8, 8)),))
    groups = groups_of(data)
    inside = {number for group in groups if group["leaf"] for number in group["nodes"]}
    boxes = sum(group["leaf"] for group in groups) + sum(node["id"] not in inside for node in data["forward"])
    assert 55 <= boxes <= 75
    assert {"Conv2d", "BatchNorm2d", "BasicBlock", "Linear"} <= {group.get("class") for group in groups}
    assert {"relu", "max pool2d"} <= {group["label"] for group in groups}


def test_functions_of_wengert_torch_have_their_names():
    import wengert.torch as torch

    data = data_of(lambda x: torch.nn.functional.silu(x).sum() + torch.softmax(x, dim=0).mean(), (torch.ones(3),))
    assert {"softmax", "mean"} <= {group["label"] for group in groups_of(data)}


def test_a_tensor_that_was_recorded_before_has_the_groups_of_modules_only():
    data = data_of(MODEL(X).sum())
    assert {group["kind"] for group in data["groups"]} == {"module"}


def test_groups_have_times_from_a_profile():
    before, wg.config.tier = wg.config.tier, "interpret"
    try:
        with wg.profile() as profile:
            loss(X, Y).item()
    finally:
        wg.config.tier = before
    dynamic = {group["label"]: group for group in groups_of(data_of(loss, (X, Y), profile=profile))}
    assert 0 < dynamic["1"]["seconds"] < dynamic["Sequential"]["seconds"]
    assert dynamic["cross entropy"]["seconds"] > 0
    step = step_of(MODEL)
    with wg.profile() as profile:
        step(X, Y)
    data = data_of(step, (X, Y), profile=profile)
    whole = sum(kernel["seconds"] for kernel in data["compiler"]["kernels"])
    outer = sum(group["seconds"] for group in data["groups"] if "parent" not in group and "seconds" in group)
    assert outer == pytest.approx(whole)


def test_the_step_of_an_optimizer_is_a_group_of_the_gradient_s_side():
    data = data_of(step_of(MODEL), (X, Y))
    assert "SGD step" in [group["label"] for group in groups_of(data, "backward")]
    assert "SGD step" not in [group["label"] for group in groups_of(data)]
    assert {"0.weight", "3.bias"} <= {node["assigns"] for node in data["backward"] if "assigns" in node}


def test_outputs_of_groups_are_what_the_next_one_reads():
    model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.BatchNorm1d(8), wg.nn.Linear(8, 3))
    optimizer = wg.optim.Adam(model.parameters())

    @wg.compile
    def step(x, y):
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        wg.optim.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    with wg.profile() as profile:
        for _ in range(2):  # in the second call there are gradients from before
            step(X, Y)
    data = data_of(step, (X, Y), profile=profile)
    assert "seconds" in next(group for group in data["groups"] if group["label"] == "clip grad norm")
    forward = {group["label"]: group.get("output") for group in groups_of(data)}
    assert forward["1"] == "float32[2, 8]" and forward["Sequential"] == "float32[2, 3]"  # no running statistics
    backward = {group["label"]: group.get("output") for group in groups_of(data, "backward")}
    assert backward["2"] == backward["1"] == "float32[2, 8]"  # and no gradients of parameters
    assert backward["Adam step"] is None and "clip grad norm" in backward
    assert [node["role"] for node in data["backward"] if node["name"] == "0.weight.exp_avg"] == ["buffer"]


def test_groups_are_the_same_under_a_debugger():
    seen = []
    sys.settrace(lambda frame, event, arg: lambda *inner: seen.append(1))
    try:
        data = data_of(lambda x: wg.relu(wg.relu(x)), (X,))
    finally:
        sys.settrace(None)
    assert [group["label"] for group in groups_of(data)] == ["relu", "relu"] and seen


# --- seeing nodes -------------------------------------------------------------------------------------------------


def test_nodes_are_seen_by_those_who_look_and_only_of_their_thread():
    plain = Node.__init__
    first, second = [], []
    with seeing_nodes(first.append):
        with seeing_nodes(second.append):
            other = threading.Thread(target=lambda: wg.exp(X))
            other.start()
            other.join()
            made = wg.exp(X)
        wg.sin(X)
    assert [node.op.name for node in first] == ["exp", "sin"] and second == [made.node]
    assert Node.__init__ is plain
    with pytest.raises(ZeroDivisionError), seeing_nodes(first.append):
        1 / 0
    assert Node.__init__ is plain


# --- names, values and adjoints --------------------------------------------------------------------------------------


def test_names_are_those_of_compare():
    nodes = by_name(data_of(f, (2.0, 5.0)))
    steps = steps_of(f, (2.0, 5.0))
    assert list(nodes) == [step.name for step in steps] == [f"v{i}" for i in range(1, 8)]
    assert [nodes["v1"]["label"], nodes["v2"]["label"]] == ["x1", "x2"]
    assert nodes["v3"]["text"] == steps[2].formula == "log(v1)"
    for step in steps:
        assert float(nodes[step.name]["scalar"]) == pytest.approx(step.value, rel=1e-5)
        assert float(nodes[step.name]["adjoint"]["scalar"]) == pytest.approx(step.adjoint, rel=1e-5)


def test_inputs_are_in_the_order_of_the_arguments():
    data = data_of(lambda b, a: wg.exp(a) * b, (wg.tensor(2.0), wg.tensor(1.0)))
    names = {node["id"]: node["label"] for node in data["forward"] if node.get("given")}
    assert [names[number] for number in data["inputs"]] == ["b", "a"]
    assert [node["name"] for node in data["forward"]][:2] == ["v1", "v2"]


def test_every_adjoint_exists_and_says_which_other_it_is():
    nodes = by_name(data_of(f, (2.0, 5.0)))
    assert {name: node["adjoint"]["name"] for name, node in nodes.items()} == {f"v{i}": f"v̄{i}" for i in range(1, 8)}
    same = {name: node["adjoint"].get("same_as") for name, node in nodes.items()}
    assert same == {"v1": None, "v2": None, "v3": "v̄5", "v4": "v̄5", "v5": "v̄7", "v6": None, "v7": None}
    assert [name for name, node in nodes.items() if node["adjoint"].get("seed")] == ["v7"]


def test_an_accumulation_is_shown_as_the_sum_over_paths():
    data = data_of(f, (2.0, 5.0))
    adjoint = by_name(data)["v2"]["adjoint"]
    assert adjoint["sum"] == "-0.283662 + 2 = 1.71634"
    assert [term["text"] for term in adjoint["terms"]] == ["v̄6 * ∂v6/∂v2", "v̄4 * ∂v4/∂v2"]
    assert [term["numbers"] for term in adjoint["terms"]] == ["-1 * 0.283662", "1 * 2"]
    nodes = {node["id"]: node for node in data["backward"]}
    total = nodes[adjoint["node"]]
    assert (total["role"], total["at"], "rule" in total) == ("accumulation", data["inputs"][1], False)
    assert total["terms"] == [term["node"] for term in adjoint["terms"]]
    assert [nodes[number]["scalar"] for number in total["terms"]] == ["-0.283662", "2"]


def test_three_paths_and_a_value_read_twice_by_one_op_are_terms_too():
    adjoint = by_name(data_of(lambda x: x * x + wg.sin(x), (3.0,)))["v1"]["adjoint"]
    assert len(adjoint["terms"]) == 3 and all("scalar" in term for term in adjoint["terms"])
    assert sum(float(term["scalar"]) for term in adjoint["terms"]) == pytest.approx(float(adjoint["scalar"]), rel=1e-5)
    assert adjoint["sum"].endswith(f"= {adjoint['scalar']}")


def test_a_result_that_is_read_on_has_the_1_it_begins_with_among_its_terms():
    def two(x):
        y = x * x
        return y, wg.exp(y)

    adjoint = by_name(data_of(two, (0.5,)))["v2"]["adjoint"]
    assert adjoint["seed"] and adjoint["sum"] == "1 + 1.28403 = 2.28403"
    assert adjoint["terms"][0]["text"] == "1, because it is a result"


def test_a_path_through_an_op_of_several_results_is_a_term_too():
    lstm = wg.nn.LSTM(3, 4)
    nodes = by_name(data_of(lambda x: lstm(x)[0].sum(), (wg.ones((2, 1, 3)),)))
    adjoint = nodes["bias_hh_l0"]["adjoint"]
    assert "seed" not in adjoint and adjoint["terms"][0]["text"].startswith("the rule of scan, applied to v̄")
    assert [name for name, node in nodes.items() if node.get("adjoint", {}).get("seed")] == [list(nodes)[-1]]


def test_a_compiled_step_accumulates_over_paths_too():
    w = wg.tensor(2.0, requires_grad=True)

    @wg.compile
    def step(x):
        y = w * x + wg.sin(w)
        y.backward()
        return y

    data = data_of(step, (3.0,))
    weight = by_name(data)["w"]
    assert weight["role"] == "parameter" and len(weight["adjoint"]["terms"]) == 2
    assert by_name(data, "backward")["v̄4"]["role"] == "seed"
    assert float(weight["adjoint"]["scalar"]) == pytest.approx(2.583853, rel=1e-5)


def test_the_shown_value_of_one_element_has_no_count_of_nans():
    assert "nan" not in by_name(data_of(f, (2.0, 5.0)))["v3"]["value"]


def test_leaves_of_a_tensor_are_its_inputs():
    x = wg.tensor(2.0, requires_grad=True)
    data = data_of(wg.sin(x) * x)
    assert [node["name"] for node in data["forward"]] == ["v1", "v2", "v3"]
    assert data["forward"][0]["role"] == "leaf" and data["inputs"] == [0]


# --- the compiler -------------------------------------------------------------------------------------------------


def test_the_compiler_s_view_has_names_symbols_and_figures():
    compiler = data_of(step_of(MODEL), (X, Y))["compiler"]
    given = {node["name"] for node in compiler["nodes"] if node.get("given")}
    assert {"v1 = x", "v2 = y", "0.weight", "1.bias", "lr", "step"} <= given and "placeholder" not in given
    own = [kernel for kernel in compiler["kernels"] if kernel["symbol"].startswith("kernel")]
    assert own and all(f"{kernel['symbol']}(" in kernel["source"] for kernel in own)
    assert [kernel["number"] for kernel in compiler["kernels"]] == list(range(len(compiler["kernels"])))
    last = compiler["passes"][-1]
    assert last["change"].startswith("grouped ") and last["change"].endswith(f"into {len(compiler['kernels'])} kernels")
    assert compiler["passes"][0]["change"] == "the graph as it was recorded"
    assert compiler["peak_bytes"] == max(moment["live"] for moment in compiler["memory"])
    assert compiler["arena_bytes"] > 0
