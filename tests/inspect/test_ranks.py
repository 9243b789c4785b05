"""The page of a function that is compiled for a mesh: the graph of a rank, with its collectives."""

from __future__ import annotations

import json
import re

import pytest

import wengert as wg
from wengert.distributed import Mesh, Split, place, shard
from wengert.inspect import ranks
from wengert.inspect.model import as_data
from wengert.inspect.recorded import record

pytest.importorskip("tornado", reason="the browser is driven over a websocket of tornado's")
from tests.inspect.browser import CHROMIUM, Browser


class Training:
    """A step of a small network on a mesh, whose optimizer's state or parameters may be sharded."""

    def __init__(self, mesh: Mesh, stage: int = 0) -> None:
        wg.manual_seed(0)
        self.model = wg.nn.Sequential(wg.nn.Linear(8, 16), wg.nn.Tanh(), wg.nn.Linear(16, 4))
        if stage == 3:
            shard(self.model, mesh["data"])
        self.optimizer = wg.optim.Adam(self.model.parameters(), lr=0.1)
        if stage == 1:
            shard(self.optimizer.state, mesh["data"])
        self.batch = wg.random.normal((8, 8)), wg.tensor([i % 4 for i in range(8)])
        self.compiled = wg.compile(self.step, mesh=mesh)

    def step(self, x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
        self.optimizer.zero_grad()
        loss = wg.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss


def page_of(training: Training, path):
    """The data of the page, as its script has it."""
    text = wg.inspect.page(training.compiled, path, *training.batch).read_text()
    return json.loads(re.search(r"const model = (.*?);</script>", text, re.DOTALL)[1].replace("<\\/", "</"))


def collectives(data):
    nodes = {node["id"]: node for node in data["ranks"]["nodes"]}
    return [nodes[number] for number in data["ranks"]["collectives"]]


def test_collectives_are_told_with_group_ranks_bytes_and_line(tmp_path):
    data = page_of(Training(Mesh(data=4)), tmp_path / "step.html")
    assert (data["ranks"]["mesh"], data["ranks"]["rank"], data["ranks"]["size"]) == ("Mesh(data=4)", 0, 4)
    sums = collectives(data)
    assert {node["op"] for node in sums} <= {"all_reduce", "all_reduce_many"}
    parameters = 4 * (8 * 16 + 16 + 16 * 4 + 4)
    assert max(node["collective"]["bytes"] for node in sums) == parameters
    for node in sums:
        assert node["collective"]["group"] == "data" and node["collective"]["ranks"] == [0, 1, 2, 3]
        assert node["line"].startswith("test_ranks.py:") and ("loss" in node["source"] or "step()" in node["source"])
    assert [entry["name"] for entry in data["compiler"]["passes"]][1] == "partition"


@pytest.mark.parametrize(
    ("stage", "expected"), [(1, {"reduce_scatter": 4, "all_gather": 4}), (3, {"reduce_scatter": 4, "all_gather": 5})]
)
def test_a_page_of_sharded_values_needs_no_other_rank(tmp_path, stage, expected):
    data = page_of(Training(Mesh(data=4), stage), tmp_path / "step.html")
    counted = {name: sum(node["op"] == name for node in collectives(data)) for name in expected}
    assert counted == expected
    grads = {node["accumulates"]: node["type"] for node in data["ranks"]["nodes"] if "accumulates" in node}
    assert grads["0.weight"] == "float32[4, 8]"  # a block of the gradient of 16 by 8
    assert all("value" not in node for node in data["forward"])  # other ranks have the rest of the parameters


def test_only_the_ranks_of_a_group_are_named():
    mesh = Mesh(data=2, tensor=2)
    training = Training(mesh)
    plan = {"0.*": Split(0, "tensor"), "2.weight": Split(1, "tensor")}
    place(training.model, plan, mesh)
    recorded = record(training.compiled, training.batch, {})
    ranked = ranks.rank_program(training.compiled, recorded.specialization, recorded.leaves)
    rows = ranks.collective_rows(ranked.distributed.graph, rank=1)
    assert {(row.axes, row.ranks) for row in rows} == {("data", (1, 3)), ("tensor", (0, 1))}


def test_a_pipeline_shows_its_transfers_and_its_schedule(tmp_path):
    first, second = wg.nn.Linear(8, 8), wg.nn.Linear(8, 4)

    def loss(x):
        with wg.distributed.stage(0):
            x = wg.tanh(first(x))
        with wg.distributed.stage(1):
            return (second(x) ** 2).mean()

    staged = wg.compile(loss, mesh=Mesh(data=1, stage=2), microbatches=2)
    text = wg.inspect.page(staged, tmp_path / "staged.html", wg.zeros((4, 8))).read_text()
    data = json.loads(re.search(r"const model = (.*?);</script>", text, re.DOTALL)[1].replace("<\\/", "</"))
    transfers = [node["collective"] for node in collectives(data) if node["op"] == "transfer"]
    assert [0, 1] in [told["ranks"] for told in transfers] and {told["group"] for told in transfers} == {"stage"}
    assert "F0" in data["ranks"]["schedule"] and "compiler" not in data


def test_without_a_mesh_there_is_no_rank(tmp_path):
    training = Training(Mesh(data=1))
    assert "ranks" not in page_of(training, tmp_path / "step.html")


def test_what_becomes_a_gradient_is_an_accumulate_grad_node(tmp_path):
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    @wg.compile
    def accumulate(x):
        (w * x).sum().backward()

    x = wg.tensor([3.0, 4.0])
    accumulate(x)  # now w.grad is there, and the next call adds to it
    data = as_data(record(accumulate, (x,), {}))
    (node,) = [node for node in data["backward"] if "accumulates" in node]
    assert (node["accumulates"], node["op"], node["value"]["shown"]) == ("w", "add", ["6", "8"])
    named = {each["id"]: each["name"] for each in [*data["forward"], *data["backward"]]}
    assert "w.grad" in [named[source] for source in node["sources"]]


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium to open pages with")
def test_the_rank_s_graph_is_drawn_and_its_table_leads_to_the_nodes(tmp_path):
    path = wg.inspect.page((training := Training(Mesh(data=4))).compiled, tmp_path / "step.html", *training.batch)
    browser = Browser(tmp_path / "browser")
    try:
        browser.open(path)
        browser.click('[data-view="rank"]')
        browser.settle()
        assert "rank 0 of 4, Mesh(data=4)" in browser.text("#rank-title")
        assert browser.count_of("#collectives tr[data-id]") == 2
        browser.click("#collectives tr[data-id]")  # boxes are there where they are looked at
        browser.until('document.querySelectorAll("#ranked .box.collective").length > 0')
        told = browser.text("#details")
        assert "0, 1, 2, 3" in told and "test_ranks.py" in told
        assert browser.errors == []
    finally:
        browser.close()
