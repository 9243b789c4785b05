"""Collectives by `simulate`: values against NumPy, derivatives against differences, in every mode and dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.distributed import cases
from wengert import distributed as dist
from wengert.core.communication import tree_sum
from wengert.core.dtypes import ALL, COMPLEX, bool_
from wengert.core.mesh import Group, Mesh

RANKS = (2, 4)
GROUPS = [group for ranks in RANKS for group in cases.groups(ranks)]


def simulated(name: str, way: str, group: Group) -> Callable[..., Any]:
    function = cases.COLLECTIVES[name]
    return dist.simulate(lambda x: cases.WAYS[way](function, group, x), group.mesh)


def by_numpy(name: str, xs: np.ndarray[Any, Any], group: Group) -> np.ndarray[Any, Any]:
    """What each rank gets."""
    collective, *numbers = name.split()
    axes = [int(n) for n in numbers if n.lstrip("-").isdigit()]
    results = []
    for rank in range(len(xs)):
        members = group.members(rank)
        own = [xs[k] for k in members]
        me, n = members.index(rank), len(members)
        total = np.asarray(tree_sum(own))
        if name.endswith("mean"):
            results.append(total / n)
        elif name.endswith("largest"):
            results.append(np.max(own, axis=0))
        elif name.endswith("least"):
            results.append(np.min(own, axis=0))
        elif collective == "all_reduce":
            results.append(total)
        elif collective == "replicate":
            results.append(xs[rank])
        elif collective == "all_gather":
            results.append(np.concatenate(own, axes[0]))
        elif collective == "reduce_scatter":
            results.append(np.split(total, n, axes[0])[me])
        elif collective == "block":
            results.append(np.split(xs[rank], n, axes[0])[me])
        elif collective == "ppermute":
            results.append(own[(me - axes[0]) % n])
        elif collective == "all_to_all":
            results.append(np.concatenate([np.split(x, n, axes[0])[me] for x in own], axes[1]))
        elif collective == "rank":
            results.append(np.asarray(float(me)))
        elif collective == "two":
            results.append(np.concatenate(np.split(total, n, 1), 0))
        elif collective == "one":
            results.append(np.asarray(tree_sum([x * x for x in own])))
        else:
            raise AssertionError(name)
    return np.stack(results)


@pytest.mark.parametrize("group", GROUPS, ids=str)
@pytest.mark.parametrize("name", cases.COLLECTIVES)
def test_values(name: str, group: Group) -> None:
    xs = cases.given(group.mesh.size)
    found = simulated(name, "value", group)(wg.tensor(xs)).numpy()
    np.testing.assert_array_equal(found, by_numpy(name, xs, group))


@pytest.mark.parametrize("group", GROUPS, ids=str)
@pytest.mark.parametrize("name", cases.LINEAR)
def test_derivatives_against_differences(name: str, group: Group) -> None:
    """The derivative of all ranks' losses, with respect to all ranks' values, in both modes and to second order."""
    function = cases.COLLECTIVES[name]

    def losses(xs: Any) -> Any:
        y = dist.simulate(lambda x: function(x, group), group.mesh)(xs)
        weights = wg.tensor(np.arange(1.0, 1.0 + y.size).reshape(y.shape) / y.size)
        return wg.sum(weights * y * y * y)

    xs = wg.tensor(np.random.default_rng(1).normal(size=(group.mesh.size, 4, 8)))
    wg.check_grads(losses, (xs,))


@pytest.mark.parametrize("name", cases.LINEAR)
def test_a_gradient_inside_is_the_gradient_of_all_losses(name: str) -> None:
    """A rank asks for the gradient of its own loss by its own value, and gets that of the sum of all ranks' losses.

    What is replicated counts once: a loss of a replicated result is one loss, and a replicated argument one argument.
    """
    mesh = Mesh(ranks=4)
    xs = cases.given(4)
    takes_replicated, gives_replicated = name.startswith(("replicate", "block")), name.startswith("all_reduce")
    if takes_replicated:
        xs[:] = xs[0]
    function = cases.COLLECTIVES[name]
    inside = dist.simulate(lambda x: cases.WAYS["gradient"](function, mesh.whole, x), mesh)(wg.tensor(xs)).numpy()

    def all_losses(xs: Any) -> Any:
        y = dist.simulate(lambda x: function(x, mesh.whole), mesh)(xs)
        weights = wg.tensor(np.arange(1.0, 1.0 + y[0].size).reshape(y[0].shape) / 8)
        return wg.sum(weights * y * y * y)

    outside = wg.grad(all_losses)(wg.tensor(xs)).numpy()
    if takes_replicated:
        outside = np.broadcast_to(outside.sum(0), outside.shape)
    np.testing.assert_allclose(inside, outside / 4 if gives_replicated else outside, rtol=1e-13)


@pytest.mark.parametrize("way", cases.WAYS)
def test_compiled_as_dynamic(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every collective that there is a way for, as one program."""
    group = Mesh(data=2, tensor=2)["data"]
    xs = wg.tensor(cases.given(4))

    def run(xs: Any) -> Any:
        return {name: simulated(name, way, group)(xs) for name in cases.names(way)}

    wanted = {name: value.numpy() for name, value in run(xs).items()}
    monkeypatch.setattr(wg.config, "tier", "compile")
    for name, value in wg.compile(run)(xs).items():
        np.testing.assert_allclose(value.numpy(), wanted[name], rtol=1e-13, err_msg=name)


def _typed() -> list[tuple[str, Any]]:
    """Every linear collective with every dtype that it takes: complex numbers have no order, truths no mean."""
    return [
        (name, dtype)
        for name in cases.LINEAR
        for dtype in ALL
        if not (dtype in COMPLEX and name.endswith(("largest", "least")))
        and not (dtype is bool_ and name.endswith("mean"))
    ]


@pytest.mark.parametrize(("name", "dtype"), _typed(), ids=str)
def test_every_dtype(name: str, dtype: Any) -> None:
    group = Mesh(data=2, tensor=2)["tensor"]
    xs = cases.rough(4, dtype)
    found = simulated(name, "value", group)(wg.tensor(xs)).numpy()
    with np.errstate(all="ignore"):
        wanted = by_numpy(name, xs, group)
    if name.endswith("mean"):
        np.testing.assert_allclose(found.astype(_wide(dtype)), wanted.astype(_wide(dtype)), rtol=1e-2)
    else:
        assert found.dtype == dtype and found.tobytes() == wanted.astype(dtype).tobytes()


def _wide(dtype: Any) -> Any:
    return np.complex128 if dtype in COMPLEX else np.float64


@pytest.mark.parametrize("ranks", RANKS)
def test_networks_by_hand(ranks: int) -> None:
    x, a, b = cases.weights()
    group = Mesh(ranks=ranks).whole
    wanted = wg.grad(cases.alone, (0, 1, 2))(*map(wg.tensor, (x, a, b)))

    def columns(w: Any) -> Any:
        return wg.tensor(np.stack(np.split(w, ranks, 1)))

    def rows(w: Any) -> Any:
        return wg.tensor(np.stack(np.split(w, ranks, 0)))

    def whole(blocks: Any, axis: int) -> Any:
        return np.concatenate(list(blocks.numpy()), axis)

    parallel = wg.grad(lambda x, a, b: cases.tensor_parallel(x, a, b, group), (0, 1, 2))
    of_x, of_a, of_b = dist.simulate(parallel, group.mesh, (None, 0, 0))(wg.tensor(x), columns(a), rows(b))
    for found, want in ((of_x.numpy()[0], wanted[0]), (whole(of_a, 1), wanted[1]), (whole(of_b, 0), wanted[2])):
        np.testing.assert_allclose(found, want.numpy(), rtol=1e-13, atol=1e-14)

    split = wg.grad(lambda x, a, b: cases.zero3(x, a, b, group), (0, 1, 2))
    found_by = dist.simulate(split, group.mesh)(rows(x), rows(a), rows(b))
    for found, want in zip(found_by, wanted):
        np.testing.assert_allclose(whole(found, 0), want.numpy(), rtol=1e-13, atol=1e-14)
