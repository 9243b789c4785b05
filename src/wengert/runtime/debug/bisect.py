"""Bisect: finds the compiler rewrite that makes a compiled function differ from its interpreted result.

In: a function and arguments. Out: a Fault: the number of the rewrite, its pass and rule, the node, the user's line;
None if the two agree. The search halves `wg.config.fuel`: with fuel k only the first k rewrites happen. If the function
differs without any rewrite, a kernel is at fault, and `wg.config.check` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.backends.checked import difference, references_of
from wengert.compiler.rewrite import Rewrite
from wengert.compiler.rewrite import fuel as tank
from wengert.core.code import describe, source_line
from wengert.core.devices import on_host
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph
from wengert.runtime.arguments import take_apart
from wengert.runtime.capture import capture
from wengert.runtime.dynamic.realize import host_value
from wengert.runtime.program import plan_of, program_of

Array = np.ndarray[Any, Any]


class Fault(NamedTuple):
    """The first rewrite after which the compiled result differs from the interpreted one. Number 0 means that a kernel
    is at fault."""

    number: int
    rewrite: Rewrite | None
    problem: str

    @property
    def text(self) -> str:
        """What is at fault, without the line."""
        if self.rewrite is None:
            return f"without any rewrite, {self.problem}: a kernel is at fault; set wg.config.check = True to find it"
        rule = f" by the rule {self.rewrite.rule}" if self.rewrite.rule else ""
        return f"rewrite {self.number}, in {self.rewrite.name}{rule}: {self.rewrite.what}. With it, {self.problem}"

    def __str__(self) -> str:
        if self.rewrite is None or self.rewrite.location is None:
            return self.text
        line = source_line(self.rewrite.location)
        return f"{self.text}\n  at {describe(self.rewrite.location)}{': ' + line if line else ''}"


def find(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Fault | None:
    """Find the rewrite that makes `compile(function)` differ from the references on these arguments.

    >>> import wengert as wg
    >>> print(find(lambda x: wg.softmax(x * 1.0 + 0.0), wg.tensor([1.0, 2.0])))
    None
    """
    function = getattr(function, "__wrapped__", function)
    call = take_apart(None, args, kwargs)
    if call is None:
        raise ArgumentError("bisect: an argument is tracked and computed, so the call is part of a larger graph")
    captured = capture(function, call)
    nodes = [call.leaves[i] for i in captured.arguments]
    arrays = [np.asarray(host_value(x.node) if hasattr(x, "node") else x) for x in nodes]
    arrays = [array.astype(node.dtype, copy=False) for array, node in zip(arrays, captured.graph.inputs)]
    arrays += captured.floats.arrays(call.leaves)
    arrays += [host_value(call.leaves[i]._grad.node) for i in captured.argument_grads]
    arrays += [host_value(slot().node) for slot in captured.slots]  # type: ignore[union-attr]
    arrays += [host_value(slot()._grad.node) for slot in captured.grads]  # type: ignore[union-attr]
    return find_in(captured.graph, arrays)


def find_in(graph: Graph, arrays: Sequence[Array]) -> Fault | None:
    """Like `find`, for a closed graph and arrays for its inputs."""
    expected = references_of(graph, arrays, on_host)

    def problem(fuel: int | None) -> str | None:
        results = map(on_host, program_of(plan_of(graph, fuel=fuel, check=False))(arrays))
        return next(filter(None, [difference(a, b) for a, b in zip(results, expected)]), None)

    before = tank.spent
    if problem(None) is None:
        return None
    low, high = 0, tank.spent - before
    without = problem(0)
    if without is not None:
        return Fault(0, None, without)
    while high - low > 1:  # right with `low` rewrites, wrong with `high`
        middle = (low + high) // 2
        low, high = (low, middle) if problem(middle) else (middle, high)
    found = problem(high)
    assert found is not None
    return Fault(high, tank.last, found)
