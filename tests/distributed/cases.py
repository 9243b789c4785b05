"""What the tests of collectives run: functions of one rank, over a group, and the derivatives that are taken of them.

Every case is `function(x, group)`. `simulate` runs it for all ranks in one process, and an engine in as many processes
as there are ranks; both must give the same bits, since nothing but collectives does arithmetic in them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg
from wengert import distributed as dist
from wengert.core.communication import Communicator
from wengert.core.dtypes import ALL, COMPLEX, bfloat16, float32
from wengert.core.mesh import Group, Mesh

RankFunction = Callable[[Any, Group], Any]

COLLECTIVES: dict[str, RankFunction] = {
    "all_reduce": lambda x, g: dist.all_reduce(x, g),
    "all_reduce of a mean": lambda x, g: dist.all_reduce(x, g, "mean"),
    "all_reduce of the largest": lambda x, g: dist.all_reduce(x, g, "max"),
    "all_reduce of the least": lambda x, g: dist.all_reduce(x, g, "min"),
    "replicate": lambda x, g: dist.replicate(x, g),
    "all_gather 0": lambda x, g: dist.all_gather(x, 0, g),
    "all_gather 1": lambda x, g: dist.all_gather(x, 1, g),
    "reduce_scatter 0": lambda x, g: dist.reduce_scatter(x, 0, g),
    "reduce_scatter 1": lambda x, g: dist.reduce_scatter(x, 1, g),
    "block 0": lambda x, g: dist.block(x, 0, g),
    "block 1": lambda x, g: dist.block(x, 1, g),
    "ppermute 1": lambda x, g: dist.ppermute(x, 1, g),
    "ppermute -1": lambda x, g: dist.ppermute(x, -1, g),
    "ppermute 2": lambda x, g: dist.ppermute(x, 2, g),
    "all_to_all 0 1": lambda x, g: dist.all_to_all(x, 0, 1, g),
    "all_to_all 1 0": lambda x, g: dist.all_to_all(x, 1, 0, g),
    "all_to_all 1 1": lambda x, g: dist.all_to_all(x, 1, 1, g),
    "rank": lambda x, g: dist.rank(g) + 0 * wg.sum(x),
    "two in a row": lambda x, g: dist.all_gather(dist.reduce_scatter(x, 1, g), 0, g),
    "one of squares": lambda x, g: dist.all_reduce(x * x, g),
}

LINEAR = [name for name in COLLECTIVES if name not in ("rank", "one of squares")]


def _loss(function: RankFunction, group: Group) -> Callable[[Any], Any]:
    """A number of a rank's own: with weights that no symmetry hides, cubed, so that there are second derivatives."""

    def loss(x: Any) -> Any:
        y = function(x, group)
        weights = wg.tensor(np.arange(1.0, 1.0 + y.size).reshape(y.shape) / 8)
        return wg.sum(weights * y * y * y)

    return loss


def _gradient(function: RankFunction, group: Group, x: Any) -> Any:
    return wg.grad(_loss(function, group))(x)


def _tangent(function: RankFunction, group: Group, x: Any) -> Any:
    return wg.jvp(lambda x: function(x, group), (x,), (x * x,))[1]


def _second(function: RankFunction, group: Group, x: Any) -> Any:
    return wg.grad(lambda x: wg.sum(wg.grad(_loss(function, group))(x) ** 2))(x)


def _batched(function: RankFunction, group: Group, x: Any) -> Any:
    return wg.vmap(lambda x: function(x, group))(wg.stack([x, 2 * x, x - 1]))


def _batched_gradient(function: RankFunction, group: Group, x: Any) -> Any:
    return wg.vmap(wg.grad(_loss(function, group)))(wg.stack([x, 2 * x, x - 1]))


WAYS: dict[str, Callable[[RankFunction, Group, Any], Any]] = {
    "value": lambda function, group, x: function(x, group),
    "gradient": _gradient,
    "tangent": _tangent,
    "second": _second,
    "vmap": _batched,
    "vmap of the gradient": _batched_gradient,
}


def names(way: str) -> list[str]:
    """The collectives that there is a way for: a rank's number has no derivative."""
    return [name for name in COLLECTIVES if name != "rank" or way in ("value", "vmap")]


def groups(ranks: int) -> list[Group]:
    """The groups that cases run over: all ranks, and both axes of a square."""
    found = [Mesh(ranks=ranks).whole]
    if ranks == 4:
        square = Mesh(data=2, tensor=2)
        found += [square["data"], square["tensor"]]
    return found


def given(ranks: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """A matrix for each rank. They are eighths, so that sums of products are exact and only collectives round."""
    rng = np.random.default_rng(ranks)
    return (rng.integers(-40, 40, size=(ranks, 4, 8)) / 8).astype(dtype)


def rough(ranks: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Values of any dtype, whose sums round."""
    rng = np.random.default_rng(ranks + 7)
    made = rng.normal(size=(ranks, 4, 8)) * 30
    if np.dtype(dtype).kind == "c":
        made = made + 1j * rng.normal(size=made.shape)
    return (
        made > 0
        if dtype == np.bool_
        else np.abs(made).astype(dtype)
        if np.dtype(dtype).kind == "u"
        else made.astype(dtype)
    )


def typed(ranks: int) -> dict[str, np.ndarray[Any, Any]]:
    """Values of all ranks, in every dtype; and more than a chunk of some, with a rest."""
    found = {str(dtype): rough(ranks, dtype) for dtype in ALL}
    for dtype in (float32, bfloat16):
        found[f"large {dtype}"] = np.tile(rough(ranks, dtype), (1, 1, 40_000))[:, :, :-8]
    return found


def on_communicator(c: Communicator, x: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The digest of what each method gives."""
    found = {
        "sum": c.all_reduce(x),
        "scatter": c.reduce_scatter(x, 1),
        "gather": c.all_gather(x, 1),
        "permute": c.ppermute(x, 1),
        "exchange": c.all_to_all(x, 1, 0),
    }
    if x.dtype not in COMPLEX:
        found["max"] = c.all_reduce_max(x)
    return {name: digest(value) for name, value in found.items()}


def digest(value: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """An array in short: what is equal if all bits are."""
    return value.shape, str(value.dtype), hashlib.md5(np.ascontiguousarray(value).tobytes()).hexdigest()


# --- networks by hand -------------------------------------------------------------------------------------------------

WIDTH, HIDDEN, ROWS = 8, 16, 12


def weights() -> tuple[np.ndarray[Any, Any], ...]:
    """Inputs and two matrices of tanh(tanh(x a) b)."""
    rng = np.random.default_rng(5)
    shapes = ((ROWS, WIDTH), (WIDTH, HIDDEN), (HIDDEN, WIDTH))
    return tuple(rng.normal(size=shape) / 2 for shape in shapes)


def alone(x: Any, a: Any, b: Any) -> Any:
    """The network's loss in one process."""
    return wg.sum(wg.tanh(wg.tanh(x @ a) @ b) ** 2)


def tensor_parallel(x: Any, a: Any, b: Any, group: Group) -> Any:
    """Columns of the first matrix and rows of the second on each rank."""
    hidden = wg.tanh(dist.replicate(x, group) @ a)
    return wg.sum(wg.tanh(dist.all_reduce(hidden @ b, group)) ** 2)


def zero3(x: Any, a: Any, b: Any, group: Group) -> Any:
    """Rows of the batch, and rows of each matrix, on each rank; matrices are gathered for use."""
    whole = [dist.all_gather(w, 0, group) for w in (a, b)]
    return dist.all_reduce(alone(x, *whole), group)


def _gradients(loss: Callable[..., Any]) -> Callable[..., Any]:
    return wg.grad(loss, (0, 1, 2))


def _second_order(loss: Callable[..., Any]) -> Callable[..., Any]:
    def squares(*args: Any) -> Any:
        return sum(wg.sum(g * g) for g in wg.grad(loss, (0, 1, 2))(*args))

    return wg.grad(squares, (0, 1, 2))


ORDERS = {"first": _gradients, "second": _second_order}
