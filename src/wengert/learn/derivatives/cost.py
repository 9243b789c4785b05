"""What each way to a gradient costs as the number of parameters grows: operations counted, times measured.

The function is applied to many groups of parameters, and the square of the mean is taken: a loss in which every
parameter has a part. Operations are counted in the recorded graphs. A time is measured if it is short enough; otherwise
it is extrapolated: passes through the graph are measured one by one and multiplied by their number, and formulas grow
with the square of the number of parameters.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.autodiff import symbolic
from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import or_zero, reverse
from wengert.core.dtypes import float64
from wengert.core.errors import GradientError
from wengert.core.graph import Graph
from wengert.learn.derivatives.recorded import Function, record
from wengert.ops.core import literal, placeholder
from wengert.ops.elementwise import square
from wengert.ops.reduce import mean
from wengert.runtime.debug.explain import flops

COUNTS = (10, 100, 1_000, 10_000, 100_000, 1_000_000)
WAYS = ("symbolic", "numeric", "forward", "reverse")


@dataclass
class Cost:
    """The cost of one gradient."""

    way: str  # symbolic, numeric, forward or reverse
    parameters: int
    operations: float
    operations_counted: bool  # or extrapolated
    seconds: float
    measured: bool  # or extrapolated


def costs(function: Function, point: Sequence[float], seconds: float) -> list[Cost]:
    """The costs of all ways, for ten to a million parameters. No measurement takes longer than `seconds`, as far as
    that can be predicted. Without a symbolic form, that way is left out.
    """
    found = _of_formulas(function, point, seconds)
    for count in COUNTS:
        found += _of_passes(_LossCost(function, point, count), seconds)
    return found


class _LossCost:
    """The square of the mean of a function over many groups of parameters, and its derivatives, as graphs."""

    def __init__(self, function: Function, point: Sequence[float], parameters: int) -> None:
        self.groups = max(1, parameters // len(point))
        self.parameters = self.groups * len(point)
        recorded = record(function, len(point), (self.groups,))
        inputs, loss = recorded.inputs, square(mean(recorded.output))
        tangents = [placeholder(node.shape, float64) for node in inputs]
        self.value = Graph(inputs, [loss], since=0)
        pushed = forward([loss], inputs, tangents)
        self.forward = Graph([*inputs, *tangents], [or_zero(pushed[0], loss)], since=0)
        pulled = reverse([loss], [literal(1.0, float64)], inputs)
        self.reverse = Graph(inputs, [or_zero(found, node) for found, node in zip(pulled, inputs)], since=0)
        spread = np.random.default_rng(0).uniform(0.9, 1.1, (len(point), self.groups))
        self.point = [np.asarray(x, float64) * row for x, row in zip(point, spread)]


def _of_passes(loss: _LossCost, seconds: float) -> list[Cost]:
    """The costs of the ways that go through a graph: twice a parameter, once a parameter, once."""
    n = loss.parameters
    still = [np.zeros(loss.groups) for _ in loss.point]
    passes: dict[str, tuple[int, Graph, Callable[[int], Any]]] = {
        "numeric": (2 * n, loss.value, lambda i: loss.value(*_moved(loss.point, i // 2, 1e-6 * (-1) ** i))),
        "forward": (n, loss.forward, lambda i: loss.forward(*loss.point, *_moved(still, i, 1.0))),
        "reverse": (1, loss.reverse, lambda i: loss.reverse(*loss.point)),
    }
    found = []
    for way, (number, graph, run) in passes.items():
        one = _timed(run, 1)
        if one < seconds / 10:  # then it can be had again: the first time is slower
            one = min(_timed(run, 1) for _ in range(3))
        measured = number == 1 or one * number <= seconds
        total = _timed(run, number) if measured and number > 1 else one * number
        operations = number * sum(map(flops, graph.nodes))
        found.append(Cost(way, n, operations, True, total, measured))
    return found


def _moved(arrays: Sequence[Any], place: int, by: float) -> list[Any]:
    """The arrays with one of all their numbers changed."""
    which, where = divmod(place, len(arrays[0]))
    moved = list(arrays)
    moved[which] = moved[which].copy()
    moved[which][where] += by
    return moved


def _timed(run: Callable[[int], Any], number: int) -> float:
    start = time.perf_counter()
    for i in range(number):
        run(i)
    return time.perf_counter() - start


def _of_formulas(function: Function, point: Sequence[float], seconds: float) -> list[Cost]:
    """The costs of writing down the formula of every derivative, and the operations in those formulas."""
    try:
        formula = symbolic.grad(function)
    except (ImportError, GradientError):
        return []
    before, last = _of_one_formula(formula, 1), _of_one_formula(formula, max(2, COUNTS[0] // len(point)))
    found = [last]
    for count in [count * part // 10 for count in COUNTS[1:] for part in (2, 5, 10)]:
        times = count / last.parameters
        rate = math.log(last.seconds / before.seconds) / math.log(last.parameters / before.parameters)
        if last.seconds * times**rate <= seconds:
            before, last = last, _of_one_formula(formula, count // len(point))
            each = last
        else:
            each = Cost("symbolic", count, last.operations * times**2, False, last.seconds * times**2, False)
        if count in COUNTS:
            found.append(each)
    return found


def _of_one_formula(formula: symbolic.Derivative, groups: int) -> Cost:
    import sympy

    start = time.perf_counter()
    symbols = [[symbolic.symbol(f"{s.name}_{i}") for s in formula.symbols] for i in range(groups)]
    terms = [formula.expression.xreplace(dict(zip(formula.symbols, group))) for group in symbols]
    loss = (sympy.Add(*terms) / groups) ** 2
    derivatives = [loss.diff(symbol) for group in symbols for symbol in group]
    seconds = time.perf_counter() - start
    operations = sum(int(sympy.count_ops(each)) for each in derivatives)
    return Cost("symbolic", len(derivatives), operations, True, seconds, True)
