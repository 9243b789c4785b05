"""Random loops and branches: nested, with random numbers, with slots assigned inside, and their gradients.

    loop_graph(seed) -> Sample

A body is a few ops over its carries, what it steps through and constants; each carry it returns is squashed, so that
rounding stays where it is from step to step. Shapes are small (every element a variable), long along one axis (lanes),
or neither (the body is called). Branches are chosen by counters, which no rounding moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import wengert as wg
from tests.compiler.wide_graphs import Sample
from wengert.autodiff.reverse import reverse
from wengert.core.dtypes import bfloat16, float16, float32, float64
from wengert.core.graph import Graph, Node, now, recorded_as
from wengert.ops.core import data, placeholder

ALLOWED = {float64: 1e-9, float32: 2e-3, float16: 6e-2, bfloat16: 3e-1}  # of the largest number, or of 1
SHAPES = [(), (1,), (3,), (2, 3), (3, 3), (70,), (1000,), (300, 3), (3, 300), (66, 66)]


class LoopBuilder:
    """Records a random program of loops."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.dtype = self.choice([float32, float32, float64, float64, float16, bfloat16])
        self.shape: tuple[int, ...] = self.choice(SHAPES)
        self.arrays: list[np.ndarray] = []
        self.inputs: list[Node] = []
        self.draws = self.dtype in (float32, float64) and self.chance(0.25)

    def choice(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def given(self, *lead: int) -> wg.Tensor:
        shape = (*lead, *self.shape)
        self.arrays.append(self.rng.uniform(-1, 1, shape).astype(self.dtype))
        self.inputs.append(placeholder(shape, self.dtype))
        return wg.Tensor(self.inputs[-1])

    def sample(self) -> Sample:
        """A graph, its arrays, and what it gives by the references."""
        counter = data(np.zeros((), np.int64))
        wg.random.manual_seed(int(self.rng.integers(1000)))  # so that the generator's counter is no earlier sample's
        since = now()
        with recorded_as(None, True):
            carry = (self.given(), self.given())
            constant, steps = self.given(), int(self.choice([0, 1, 2, 3, 5]))
            xs = self.given(steps)
            count = wg.Tensor(counter)
            kind = self.choice([self.scan, self.scan, self.scan, self.until, self.branch, self.lanes])
            results = kind(carry, xs, constant, count, 2)
            outputs = [leaf.node for leaf in wg.tree.flatten(results)[0]]
            outputs += [count.node] if count.node is not counter else []
            outputs += self.gradients(outputs)
        graph = Graph(self.inputs, outputs, since)
        with np.errstate(all="ignore"):
            expected = [np.asarray(array) for array in graph(*self.arrays)]
        return Sample(graph, self.arrays, expected, [ALLOWED.get(node.dtype, 0.0) for node in outputs])

    def gradients(self, outputs: Sequence[Node]) -> list[Node]:
        """Cotangents of the inputs, of a program that a walk back goes through."""
        targets = [node for node in outputs if node.dtype is self.dtype]
        if self.dtype in (float16, bfloat16) or not self.chance(0.5) or not targets or self.loops_forward:
            return []
        seeds = [data(self.rng.uniform(-1, 1, node.shape).astype(node.dtype)) for node in targets]
        return [one for one in reverse(targets, seeds, self.inputs) if one is not None]

    loops_forward = False  # whether a while_loop is inside

    # --- loops --------------------------------------------------------------------------------------------------------

    def scan(self, carry: Any, xs: wg.Tensor, constant: wg.Tensor, count: wg.Tensor, depth: int) -> Any:
        swaps, stacks, counts = self.chance(0.3), self.chance(0.7), self.chance(0.4)
        inside = self.choice([None, None, self.scan, self.until, self.branch]) if depth > 1 else None
        plan = [self.step() for _ in range(int(self.rng.integers(1, 5)))]

        def body(c: Any, x: wg.Tensor) -> Any:
            a, b = c
            if counts:
                count.assign(count + 1)
            if inside is not None:
                rows = wg.stack([x, b])
                (a, b), _ = inside((a, b), rows, constant, count, depth - 1)
            values = [a, b, x, constant]
            for op, *places in plan:
                values.append(op(*[values[place % len(values)] for place in places]))
            made = wg.tanh(values[-1]) * 0.5
            if self.draws:
                made = made + wg.random.uniform(self.shape, dtype=self.dtype) * 0.1
            following = (b, made) if swaps else (made, wg.tanh(b + a) * 0.5)
            return following, (a, made) if stacks else None

        return wg.scan(body, carry, xs, reverse=self.chance(0.4))

    def until(self, carry: Any, xs: wg.Tensor, constant: wg.Tensor, count: wg.Tensor, depth: int) -> Any:
        self.loops_forward = True
        trips, (op, *places) = int(self.rng.integers(0, 4)), self.step()

        def body(c: Any) -> Any:
            (a, b), turn = c
            values = [a, b, constant]
            return (wg.tanh(op(*[values[place % 3] for place in places])) * 0.5, a), turn + 1

        found, turns = wg.while_loop(lambda c: c[1] < trips, body, (carry, wg.tensor(0)))
        return found, turns

    def lanes(self, carry: Any, xs: wg.Tensor, constant: wg.Tensor, count: wg.Tensor, depth: int) -> Any:
        """Lanes that take different numbers of steps."""
        many, (op, *places) = int(self.choice([3, 40])), self.step()
        scales = wg.tensor(np.linspace(0.5, 1, many).reshape(-1, *(1,) * len(self.shape)).astype(self.dtype))

        def one(trips: wg.Tensor, a: wg.Tensor, b: wg.Tensor) -> Any:
            def body(c: Any) -> Any:
                a, b, turn = c
                return wg.tanh(op(*[(a, b, constant)[place % 3] for place in places])) * 0.5, a, turn + 1

            return wg.while_loop(lambda c: c[2] < trips, body, (a, b, wg.tensor(0)))[:2]

        a, b = wg.vmap(one)(wg.tensor(np.arange(many) % 5), *[part * scales for part in carry])
        return (a[0] + a[many - 1], b[1]), None

    def branch(self, carry: Any, xs: wg.Tensor, constant: wg.Tensor, count: wg.Tensor, depth: int) -> Any:
        first, second = self.step(), self.step()
        add = self.chance(0.3)

        def taken(step: Any) -> Callable[..., Any]:
            op, *places = step

            def run(a: wg.Tensor, b: wg.Tensor) -> Any:
                if add:
                    count.assign(count + 3)
                return wg.tanh(op(*[(a, b, constant)[place % 3] for place in places])), a

            return run

        return wg.cond(count % 2 == 0, taken(first), taken(second), *carry), None

    # --- ops ----------------------------------------------------------------------------------------------------------

    def step(self) -> Any:
        """An op that keeps the shape, and which values it reads."""
        ops: list[tuple[Callable[..., Any], int]] = [
            *((wg.add, 2), (wg.subtract, 2), (wg.multiply, 2), (wg.sin, 1), (wg.exp, 1), (wg.sigmoid, 1)),
            *((wg.square, 1), (lambda x: wg.mean(x, keepdims=True) + x, 1), (lambda x: x.astype(wg.float32) * 2, 1)),
        ]
        if self.shape:
            axis = int(self.rng.integers(len(self.shape)))
            ops += [
                (lambda x: wg.flip(x, axis=axis), 1),
                (lambda x: wg.roll(x, 1, axis=axis), 1),
                (lambda x: x + wg.sum(x, axis=axis, keepdims=True) / x.shape[axis], 1),
                (
                    lambda x: (
                        x * wg.arange(x.shape[axis], dtype=x.dtype).reshape((-1,) + (1,) * (x.ndim - 1 - axis)) / 99
                    ),
                    1,
                ),
            ]
        if len(self.shape) == 2 and self.shape[0] == self.shape[1]:
            ops += [(lambda x, y: x @ y / 9, 2), (lambda x: x.T, 1)]
        if len(self.shape) == 2:
            ops += [(lambda x: x @ wg.ones((x.shape[1], x.shape[1]), dtype=x.dtype) / 99, 1)]
        op, reads = self.choice(ops)
        kept = self.dtype
        places = [int(place) for place in self.rng.integers(0, 8, reads)]
        return (lambda *values: op(*values).astype(kept)), *places

    def ramp(self, axis: int) -> wg.Tensor:
        """Numbers that grow along an axis."""
        numbers = wg.arange(self.shape[axis], dtype=self.dtype) / self.shape[axis]
        return numbers.reshape((-1, *(1,) * (len(self.shape) - 1 - axis)))


def loop_graph(seed: int) -> Sample:
    """A random program of loops and branches."""
    return LoopBuilder(seed).sample()
