"""Random functions over shared state: what compiled functions are fuzzed with.

A World has slots of whole numbers, so that every device agrees to the last bit, and two functions that read, assign and
partly replace them and return values: new ones, one of them twice, arguments and slots as they are. `run` calls them
compiled in one world and not compiled in another, in turns with what people do between calls: they assign slots, hold
on to results, slots and views of them, and let go again. Whatever they look at is the same in both worlds, and what
they hold never changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

SHAPE = (4, 6)
Body = Callable[..., list[wg.Tensor]]


class World(NamedTuple):
    """Slots, and the functions over them."""

    slots: list[wg.Tensor]
    functions: list[Callable[..., list[wg.Tensor]]]


def values(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Small whole numbers."""
    return rng.integers(-9, 9, SHAPE).astype(np.int32)


def world(seed: int, device: str, compiled: bool) -> World:
    """The world of a seed."""
    rng = np.random.default_rng(seed)
    slots = [wg.tensor(values(rng), device=device) for _ in range(3)]
    bodies = [body(seed * 2 + k, slots) for k in range(2)]
    return World(slots, [wg.compile(one) for one in bodies] if compiled else bodies)


def body(seed: int, slots: list[wg.Tensor]) -> Body:
    """A function of one argument: the same steps at every call."""

    def function(x: wg.Tensor) -> list[wg.Tensor]:
        rng = np.random.default_rng(seed)
        pool = [x, *slots]
        for _ in range(rng.integers(4, 12)):
            a, b = (pool[rng.integers(len(pool))] for _ in range(2))
            step = STEPS[rng.integers(len(STEPS))]
            made = step(rng, a, b)
            if rng.random() < 0.3:
                slots[rng.integers(len(slots))].assign(made)
            elif rng.random() < 0.2:
                replaced(rng, slots[rng.integers(len(slots))], made)
            else:
                pool.append(made)
        returned = [pool[k] for k in rng.integers(len(pool), size=rng.integers(1, 4))]
        return [*returned, returned[0]] if rng.random() < 0.3 else returned

    return function


def replaced(rng: np.random.Generator, slot: wg.Tensor, by: wg.Tensor) -> None:
    """A part of a slot, given the same part of another value, or that turned round."""
    start, step = int(rng.integers(3)), int(rng.integers(1, 3))
    if rng.random() < 0.5:
        slot[start::step] = by[start::step]
    else:
        slot[:, start:] = wg.flip(by, axis=1)[:, start:]


STEPS: list[Callable[[np.random.Generator, wg.Tensor, wg.Tensor], wg.Tensor]] = [
    lambda rng, a, b: a + b,
    lambda rng, a, b: a - b,
    lambda rng, a, b: a * int(rng.integers(-2, 3)),
    lambda rng, a, b: a % 7 + b % 5,
    lambda rng, a, b: wg.maximum(a, b),
    lambda rng, a, b: wg.where(a > b, a, b + 1),
    lambda rng, a, b: wg.flip(a, axis=int(rng.integers(2))),
    lambda rng, a, b: wg.roll(a, int(rng.integers(1, 4)), axis=int(rng.integers(2))),
    lambda rng, a, b: a.reshape(SHAPE[::-1]).T,
    lambda rng, a, b: wg.concat([a[2:], b[:2]], axis=0),
    lambda rng, a, b: wg.cumulative_sum(a % 9, axis=int(rng.integers(2)), dtype=wg.int32),
    lambda rng, a, b: a + (b % 9).sum(axis=int(rng.integers(2)), keepdims=True, dtype=wg.int32),
    lambda rng, a, b: a - b.max(axis=0),
    lambda rng, a, b: a[b[:, 0] % SHAPE[0]],
    lambda rng, a, b: wg.sort(a, axis=1),
    lambda rng, a, b: a,
]


def run(seed: int, device: str, calls: int = 12) -> None:
    """Call the functions of a seed on a device, in turns with what people do, beside the same that is not compiled."""
    rng = np.random.default_rng(seed)
    there, here = world(seed, device, compiled=True), world(seed, "cpu", compiled=False)
    held: list[tuple[Callable[[], np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = []
    for number in range(calls):
        k, x = int(rng.integers(2)), values(rng)
        results = there.functions[k](wg.tensor(x, device=device))
        expected = here.functions[k](wg.tensor(x))
        wanted = [tensor.detach().numpy().copy() for tensor in (*expected, *here.slots)]
        for tensor, want in zip((*results, *there.slots), wanted):
            np.testing.assert_array_equal(tensor.detach().numpy(), want, f"call {number} of function {k}, seed {seed}")
        kind = rng.integers(5)
        if kind == 0:
            new = values(rng)
            for one, place in ((there, device), (here, "cpu")):
                one.slots[k].assign(wg.tensor(new, device=place))
        elif kind < 4:
            tensor = [*results, *there.slots][rng.integers(len(wanted))]
            hold = HOLDS[rng.integers(len(HOLDS))](tensor)
            held.append((hold, hold().copy()))
        else:
            del held[: len(held) // 2]
        del results, expected
        for look, before in held:
            np.testing.assert_array_equal(look(), before, f"what was held before call {number}, seed {seed}")


HOLDS: list[Callable[[wg.Tensor], Callable[[], np.ndarray[Any, Any]]]] = [
    lambda tensor: tensor.detach().numpy,
    lambda tensor: (tensor + 0).numpy,
    lambda tensor: wg.from_dlpack(tensor).numpy,
    lambda tensor: tensor.detach()[1:3].numpy,
    lambda tensor: tensor.detach().numpy().view,
]
