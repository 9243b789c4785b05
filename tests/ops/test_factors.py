"""Every op cut along every factor it states: the blocks make up the whole. And a factor that is wrong is found.

Samples are the nodes that the cases of `cases_*.py` record, forward and backward, and some with sizes that divide.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ops import cuts, suite
from tests.ops.case import Case, arrays
from tests.ops.test_every_op import CASES, record_everything, recorded_nodes
from wengert import distributed as dist
from wengert.core.graph import Node
from wengert.ops import addressing, attention, collective, convolve, core, linalg, movement, reduce, registry, running
from wengert.ops.core import data
from wengert.ops.factors import Factors, divisor, factors, local_attributes
from wengert.ops.op import PACK, Op
from wengert.ops.random import RANDOM_BITS, random_block
from wengert.ops.transfer import TRANSFER

OPS = dict(registry)  # tests may register ops of their own later

COMPILER = "recorded by the compiler, after programs are cut"
FUNCTIONS = "runs functions: what is inside them is cut, not the op"
VALUES = "a value from nowhere: where it comes from, it is placed"
WITHOUT: dict[str, str] = {
    **dict.fromkeys(
        ("checkpoint", "cond", "custom_jvp", "custom_vjp", "implicit", "scan", "while_gradient", "while_loop"),
        FUNCTIONS,
    ),
    **dict.fromkeys(("solved", "stopped", "converged"), "it is what it is given"),
    **dict.fromkeys(("data", "placeholder"), VALUES),
    **dict.fromkeys(("csr_product", "sampled_product", "sparse_solve"), "a sparse matrix is whole on every rank"),
    "literal": "one number",
    "rank": "one number",
    "bincount": "every bin is a sum over all elements",
    "flat_nonzero": "how many there are depends on all elements",
    **dict.fromkeys(("microbatch", "settled"), "marks of the compiler, cut as any op element by element"),
    "iota": "an element is its place in the whole: it is made whole and cut",
    "cuda_kernel": "a kernel of the user's own, of which nothing is known",
    "all_reduce_many": COMPILER,
    **dict.fromkeys(("convolve_last", "convolve_input_last", "convolve_weight_last"), COMPILER),
    **dict.fromkeys(("sum_pool_last", "max_pool_last", "max_pool_back_last"), COMPILER),
    **dict.fromkeys(("tree_sum", "tree_prod", "tree_max", "tree_min", "tree_matmul", "tree_scatter_add"), COMPILER),
    **dict.fromkeys(("tree_convolve", "tree_convolve_input", "tree_convolve_weight"), COMPILER),
}
"""Ops that have no factor, and why."""
COLLECTIVES = {name for name, op in OPS.items() if op.collective} | {"block"}


def divisible_cases() -> list[Case]:
    """Calls whose sizes are multiples of 4."""
    a, b, c, many, rows = arrays(1, (4, 8), (8, 4), (4, 4), (4, 8, 8), (4, 1, 8))
    images, weight, grouped, depthwise = arrays(2, (4, 8, 5, 5), (4, 8, 3, 3), (8, 2, 3, 3), (8, 1, 3, 3))
    query, key, value, few = arrays(3, (4, 4, 8, 4), (4, 4, 8, 4), (4, 4, 8, 8), (4, 2, 8, 4))
    bias, allowed = arrays(4, (8, 8))[0], np.tri(8, dtype=bool)
    indices = np.array([[3, 0, 0, 1], [2, 2, 1, 3], [0, 3, 3, 0], [1, 1, 2, 2]])
    spread = many @ many.mT + np.eye(8)
    attend = "scaled_dot_product_attention"
    return [
        Case("matmul", (a, b)),
        Case("matmul", (rows, many)),
        Case("conv2d", (images, weight)),
        Case("conv2d", (images, grouped), {"groups": 4}),
        Case("conv2d", (images, depthwise), {"groups": 8}),
        Case(attend, (query, key, value)),
        Case(attend, (query, key, value, allowed)),
        Case(attend, (query, key, value, bias)),
        Case(attend, (query, key, value), {"is_causal": True}),
        Case(attend, (query, few, few), {"enable_gqa": True}),
        Case("embedding", (indices, b)),
        Case("take", (a, indices), {"axis": 1}),
        Case("take_along_axis", (c, indices), {"axis": 1}),
        Case("index_add", (a, 0, indices[0], a)),
        Case("scatter", (c, 1, indices, c)),
        Case("scatter_add", (c, 0, indices, c)),
        Case("reshape", (many, (16, 2, 8))),
        Case("reshape", (many, (2, 2, 1, 64))),
        Case("broadcast_to", (rows, (4, 4, 8, 8))),
        Case("searchsorted", (np.sort(a), np.sort(a) + 0.1), differentiable=False),
        Case("linalg.solve", (spread, many)),
        Case("linalg.triangular_solve", (spread, many)),
        Case("sort", (many,), {"axis": 1}),
        Case("argmax", (many,), {"axis": 1}, differentiable=False),
        Case("cumsum", (many,), {"axis": 1}),
        Case("concat", ([many, many],), {"axis": 1}),
        Case("flip", (many,), {"axis": 1}),
        Case("pad", (many, (1, 1))),
        Case("max_pool2d", (images, 2)),
        Case("unfold", (images, 2)),
        Case("fft.rfft", (many,)),
        Case("cross_entropy", (a, indices[:, 0])),
    ]


def direct_samples() -> list[Node]:
    """What no public function records, with sizes that divide."""
    a, b = (data(x) for x in arrays(5, (4, 8), (4, 4)))
    key, counter = np.arange(8, dtype=np.uint32).reshape(4, 2), np.arange(4, dtype=np.uint64)
    return [
        PACK(a, b),
        core.TO_DEVICE(a, device=a.device),
        core.RECOMPUTE_BARRIER(a),
        addressing.PUT_SLICE(a, b, starts=(0, 1), steps=(1, 1)),
        addressing.PUT_SLICE(a, b, starts=(0, 1), steps=(1, 2)),
        addressing.SCATTER(a, a, data(np.array([3, 0, 0, 1])), axis=0),
        movement.SLICE(a, starts=(0, 1), steps=(1, 2), sizes=(4, 4)),
        movement.PLACE(b, shape=(4, 8), starts=(0, 1), steps=(1, 2)),
        RANDOM_BITS(data(key), data(counter), shape=(4,), stream=0),
        RANDOM_BITS(data(key), data(counter[0]), shape=(4,), stream=0),
        collective.REPLICATE(a, group=dist.Mesh(data=2)["data"]),
    ]


@functools.cache
def samples() -> cuts.Samples:
    """The nodes to be cut."""
    found, rng = cuts.Samples(), np.random.default_rng(0)  # cotangents of ones would hide a block in a wrong place
    for case in (*divisible_cases(), *CASES):
        with recorded_nodes(pytest.MonkeyPatch()) as nodes:
            record_everything(suite.Call(case), lambda shape: np.asarray(rng.normal(size=shape)))
        found.take(nodes)
    found.take(direct_samples())
    return found


@pytest.mark.slow
def test_blocks_make_up_the_whole() -> None:
    found = samples()
    faults = cuts.faults(found.nodes.values(), found.values)
    assert not faults, "\n".join(faults[:10])


def test_every_op_decides_how_it_is_cut() -> None:
    found = samples()
    cuttable = {node.op.name for node in found.nodes.values() if cuts.all_factors(node, factors(node))}
    undecided = OPS.keys() - cuttable - WITHOUT.keys() - COLLECTIVES
    assert not undecided, f"state the fact `factors`, or why there is none in WITHOUT: {sorted(undecided)}"
    assert not (stale := cuttable & WITHOUT.keys()), f"these can be cut: {sorted(stale)}"


def test_every_role_of_a_factor_is_proved() -> None:
    """Of each op each kind of factor was cut: no rule is believed because no sample divides."""
    found, stated, proved = samples(), set(), set()
    for node in found.nodes.values():
        rule = factors(node)
        stated |= {(node.op.name, cuts.role(node, rule, factor)) for factor in cuts.all_factors(node, rule)}
        proved |= {(node.op.name, cuts.role(node, rule, cut.factor)) for cut in cuts.cuts_of(node, rule)}
    assert not (missing := stated - proved), f"no sample divides: {sorted(missing)}"


def test_factors_come_in_the_order_of_the_axes() -> None:
    """Not in that of a set, which is another in each process: ranks that choose the first of equals choose alike."""
    for node in samples().nodes.values():
        found = factors(node)
        assert list(found.reduction) == [f for f in cuts.all_factors(node, found) if f in found.reduction]


def test_two_factors_are_cut_one_after_the_other() -> None:
    """The attributes of a node that is cut already are those that its rule reads."""
    x = data(arrays(6, (4, 8, 4))[0])
    node = movement.RESHAPE(x, shape=(32, 4))
    once = movement.RESHAPE(data(x.buffer[:2]), **local_attributes(node, 0, 2))
    assert local_attributes(once, 1, 4) == {"shape": (16, 1)}


# --- collectives: over the ranks of a mesh, each with its block along an axis that the collective leaves alone ------

MESH = dist.Mesh(data=2)
GROUP = MESH["data"]


CALLS: list[tuple[Op, dict[str, Any]]] = [
    (collective.ALL_REDUCE, {}),
    (collective.ALL_REDUCE_MAX, {}),
    (collective.ALL_GATHER, {"axis": 1}),
    (collective.REDUCE_SCATTER, {"axis": 1}),
    (collective.BLOCK, {"axis": 0}),
    (collective.PPERMUTE, {"shift": 1}),
    (TRANSFER, {"source": 0, "target": 1}),
    (collective.ALL_TO_ALL, {"split": 0, "join": 2}),
]


@pytest.mark.parametrize(("op", "attrs"), CALLS, ids=[op.name for op, _ in CALLS])
def test_collectives_leave_other_axes_alone(op: Op, attrs: dict[str, Any]) -> None:
    (x,) = arrays(7, (2, 4, 8, 4))
    over_ranks = dist.simulate(lambda own: wg.Tensor(op(own.node, group=GROUP, **attrs)), ranks=MESH)
    run = lambda x: over_ranks(wg.tensor(x)).numpy()
    node = op(data(x[0]), group=GROUP, **attrs)
    found = factors(node)
    ways = list(cuts.cuts_of(node, found))
    named = {attrs[key] for key in ("axis", "split", "join") if key in attrs}
    assert {cut.factor for cut in ways} == {0, 1, 2} - named
    for cut in ways:
        axis = cut.factor + 1
        joined = np.concatenate([run(block) for block in np.split(x, cut.n, axis)], axis)
        np.testing.assert_array_equal(joined, run(x))


def test_every_collective_is_cut() -> None:
    assert {op.name for op, _ in CALLS} == COLLECTIVES - WITHOUT.keys()


# --- draws ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lanes", [(), (2,)])
@pytest.mark.parametrize("shape", [(8,), (4, 6), (4, 2), (1, 8, 3), (4, 4, 4), (6,)])
def test_a_block_of_a_draw_is_drawn_to_the_bit(lanes: tuple[int, ...], shape: tuple[int, ...]) -> None:
    key = data(np.random.default_rng(0).integers(0, 1 << 32, (*lanes, 2), np.uint32))
    counter = data(np.full(lanes, 2**64 - 3, np.uint64))  # it goes round
    node = RANDOM_BITS(key, counter, shape=shape, stream=0)
    drawn = wg.Tensor(node).numpy()
    node = RANDOM_BITS(key, counter, shape=shape, stream=0)
    for axis, size in enumerate(drawn.shape):
        for n in (n for n in (2, 3, 4) if size % n == 0):
            for index, block in enumerate(np.split(drawn, n, axis)):
                for known in (index, data(np.asarray(index))):
                    np.testing.assert_array_equal(wg.Tensor(random_block(node, axis, n, known)).numpy(), block)


def test_the_first_axis_is_drawn_alone() -> None:
    node = RANDOM_BITS(data(np.zeros(2, np.uint32)), data(np.uint64(5)), shape=(4, 3, 4), stream=0)
    assert random_block(node, 0, 4, 1).attrs["shape"] == (1, 3, 4)
    assert random_block(node, 1, 3, 1).op is movement.SLICE


# --- what is wrong is found -----------------------------------------------------------------------------------------


def everywhere(node: Node) -> Factors:
    """A rule that lets every axis be cut."""
    labels = tuple(range(node.ndim))
    return Factors((labels,) * len(node.sources), (labels,))


def changed(op: Op, change: Callable[[Factors], Factors]) -> Callable[[Node], Factors]:
    """An op's rule with something changed."""
    rule = op.factors
    assert rule is not None
    return lambda node: change(rule(node))


def _causal_rows(node: Node) -> Factors:
    return attention._factors(Node(node.op, node.sources, {**node.attrs, "causal": False}, node.shape, *_rest(node)))


def _rest(node: Node) -> tuple[Any, ...]:
    return node.dtype, node.device, node.tracked, None


def _ungrouped(node: Node) -> Factors:
    return Factors(
        (("batch", "in", None, None), ("out", "in", None, None)), (("batch", "out", None, None),), {"in": "sum"}
    )


def _counted_twice(node: Node) -> Factors:
    """A sum into values that are not zeros: every part has them."""
    x, named, indices = addressing.ARRAYS.labels(node.sources[0], *node.sources[2:], **node.attrs)
    return Factors((x, named, *indices), (x,), dict.fromkeys({*named} - {*x}, "sum"))


WRONG: list[tuple[Op, Callable[[Node], Factors]]] = [
    (movement.FLIP, everywhere),
    (movement.CONCAT, everywhere),
    (running.CUMSUM, everywhere),
    (registry["argsort"], everywhere),
    (registry["fft"], everywhere),
    (movement.SLICE, everywhere),
    (addressing.PUT_SLICE, everywhere),
    (addressing.TAKE_ALONG, everywhere),
    (linalg.INV, everywhere),
    (movement.PERMUTE, everywhere),
    (movement.RESHAPE, lambda node: movement.reshaping(node)._replace(localized=None)),
    (movement.BROADCAST, lambda node: movement.repeating(node)._replace(localized=None)),
    (reduce.SUM, changed(reduce.SUM, lambda found: found._replace(reduction=dict.fromkeys(found.reduction, "max")))),
    (reduce.MAX, changed(reduce.MAX, lambda found: found._replace(reduction=dict.fromkeys(found.reduction, "sum")))),
    (reduce.ARGMAX, lambda node: Factors((tuple(range(node.sources[0].ndim)),), ((),), {node.attrs["axis"]: "max"})),
    (linalg.MATMUL, changed(linalg.MATMUL, lambda found: found._replace(sources=found.sources[:1] * 2))),
    (linalg.MATMUL, changed(linalg.MATMUL, lambda found: found._replace(reduction={"depth": "max"}))),
    (convolve.CONVOLVE, _ungrouped),
    (convolve.CONVOLVE, changed(convolve.CONVOLVE, lambda found: found._replace(localized=None))),
    (convolve.CONVOLVE_WEIGHT, changed(convolve.CONVOLVE_WEIGHT, lambda found: found._replace(divisors={}))),
    (addressing.SCATTER_ADD, _counted_twice),
    (addressing.SCATTER, _counted_twice),
    (attention.ATTENTION, _causal_rows),
    (registry["pick"], lambda node: Factors(((),), (tuple(range(node.ndim)),))),
]


@pytest.mark.parametrize(("op", "rule"), WRONG, ids=[f"{i}-{op.name}" for i, (op, _) in enumerate(WRONG)])
def test_a_wrong_factor_is_found(op: Op, rule: Callable[[Node], Factors], monkeypatch: pytest.MonkeyPatch) -> None:
    found = samples()
    assert not cuts.faults(found.of(op), found.values)
    monkeypatch.setattr(op, "factors", rule)
    assert cuts.faults(found.of(op), found.values), f"{op.name} is cut wrongly, and no sample shows it"


def test_a_cut_needs_what_the_op_says_to_divide() -> None:
    x, weight = (data(a) for a in arrays(8, (4, 12, 5, 5), (12, 4, 3, 3)))
    node = convolve.CONVOLVE(x, weight, stride=(1, 1), padding=((0, 0),) * 2, dilation=(1, 1), groups=3)
    assert divisor(node, factors(node), "group") == 3
    assert divisor(node, factors(node), "batch") == 4
