"""The sections on derivatives: the all-reduce of data parallelism is one, and AccumulateGrad is an addition."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert.distributed import all_reduce, replicate, simulate
from wengert.inspect.model import as_data
from wengert.inspect.recorded import record
from wengert.learn.derivatives.section import Section, Table
from wengert.learn.distributed.drawings import Ladder
from wengert.runtime.static.compile import Compiled

RANKS = 4


def loss(w: Any, x: Any) -> Any:
    """The loss of all ranks: each has its own x, all have the same w."""
    return all_reduce(((replicate(w) * x) ** 2).sum())


def gradients() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The gradient with respect to w on each of 4 ranks, and that of one process with all of x."""
    x = wg.tensor(np.random.default_rng(0).normal(size=(RANKS, 3)))
    w = wg.tensor([1.0, -2.0, 0.5])
    per_rank = simulate(wg.grad(loss), RANKS, in_axes=(None, 0))(w, x)
    whole = wg.grad(lambda w: ((w * x) ** 2).sum())(w)
    return per_rank.numpy(), whole.numpy()


def ladder() -> Ladder:
    """The recorded nodes of the loss, each beside its gradient's: the very graph that a page shows."""
    data = as_data(record(loss, (wg.tensor([1.0, -2.0, 0.5]), wg.tensor([0.3, 0.1, 2.0])), {}))
    backward = {node["id"]: node for node in data["backward"]}
    rungs = []
    for node in data["forward"]:
        if node.get("label") == "x":
            continue
        gradient = backward.get(next(iter(node["cotangents"]), -1))
        value = f"{node['name']} = {node['text']}"
        rungs.append((value, "" if gradient is None else f"{gradient['name']} = {gradient['text']}"))
    return Ladder(rungs)


def section() -> Section:
    """All-reduce as a derivative."""
    per_rank, whole = gradients()
    difference = float(np.abs(per_rank - whole).max())
    rows = [[f"rank {r}", *[f"{value:.6f}" for value in row]] for r, row in enumerate(per_rank)]
    rows.append(["one process", *[f"{value:.6f}" for value in whole]])
    return Section(
        "The all-reduce of data parallelism is a derivative",
        "Every rank has the same parameter w and its own examples x. `replicate(w)` says that w meets values which "
        "differ by rank. It moves nothing. But w is used on every rank, so the paths from w to the loss go through "
        "all of them, and the chain rule adds over all paths: the derivative of `replicate` is `all_reduce`. The "
        "derivative of `all_reduce` is `replicate`: the loss has one gradient, and every rank has it. Here is the "
        "recorded graph, and beside each value its gradient, which is found from below:",
        [ladder(), Table(["gradient", "w1", "w2", "w3"], rows)],
        f"Run on {RANKS} ranks by `simulate`, the gradient is on every rank that of one process with all examples "
        f"(difference {difference:.1g}). Nobody wrote a sum of gradients: it came out of differentiating. With "
        "`wg.compile(mesh=...)` you write the program of one process, and the collectives are put in for you.",
    )


# --- AccumulateGrad ---------------------------------------------------------------------------------------------------


def accumulated() -> list[dict[str, Any]]:
    """The nodes of a compiled `backward()` while a gradient is there already."""
    w = wg.tensor([1.0, 2.0], requires_grad=True)

    def add_gradient(x: Any) -> Any:
        (w * x).sum().backward()

    accumulate = Compiled(add_gradient)
    accumulate(wg.tensor([3.0, 4.0]))
    found: list[dict[str, Any]] = as_data(record(accumulate, (wg.tensor([30.0, 40.0]),), {}))["backward"]
    return [node for node in found if not node.get("given")]


def accumulate_section() -> Section:
    """AccumulateGrad as a node."""
    rows = []
    for node in accumulated():
        shown = ", ".join(node["value"]["shown"])
        role = f"= AccumulateGrad of {node['accumulates']}" if "accumulates" in node else ""
        rows.append([f"{node['name']} = {node['text']}", f"[{shown}]", role])
    return Section(
        "AccumulateGrad is an addition",
        "`backward()` adds to the `grad` that is there. In the graph this is one node: PyTorch calls it "
        "AccumulateGrad. It is where DDP hangs its hooks, and where gradients of several micro-batches come together. "
        "Here w.grad was [3, 4] from a first call; the second one is recorded:",
        [Table(["gradient's nodes", "value", "what it is"], rows)],
        "On a page (wg.inspect.page) the node says the same. Since it is a node like any other, it can be moved: with "
        "micro-batches each rank adds up its own first, and the all-reduce comes once, behind it.",
    )
