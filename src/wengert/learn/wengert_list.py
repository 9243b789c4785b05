"""The list v1, v2, v3, ... of a computation on any of the three engines, under the same names.

In: a `Value`, or the engine with a tape of `mytorch`, and the inputs. Out: a Line for each value that depends on an
input: inputs first, then results in the order in which they are needed, as `wg.learn.compare` lists the steps of a
Wengert function. After `backward` each line has its adjoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.learn.mytorch import Autograd
from wengert.learn.value.engine import Value, in_order

_INFIX = {"+": "+", "-": "-", "*": "*", "add": "+", "sub": "-", "mul": "*", "div": "/", "matmul": "@"}


@dataclass(frozen=True)
class Line:
    """One value: its name, how it was computed, what it is, and the derivative of the result with respect to it."""

    name: str
    formula: str
    value: Any
    adjoint: Any
    sources: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{f'{self.name} = {self.formula}':<20}{_figure(self.value)}   adjoint {_figure(self.adjoint)}"


def wengert_list(computation: Value | Autograd, *inputs: Any, names: Sequence[str] = ()) -> list[Line]:
    """The lines of a computation; `names` are what its inputs are called (x1, x2, ...).

    >>> x1, x2 = Value(2.0), Value(5.0)
    >>> y = x1.log() + x1 * x2 - x2.sin()
    >>> y.backward()
    >>> for line in wengert_list(y, x1, x2):
    ...     print(line)
    v1 = x1                 2.000000   adjoint    5.500000
    v2 = x2                 5.000000   adjoint    1.716338
    v3 = log(v1)            0.693147   adjoint    1.000000
    v4 = v1 * v2           10.000000   adjoint    1.000000
    v5 = v3 + v4           10.693147   adjoint    1.000000
    v6 = sin(v2)           -0.958924   adjoint   -1.000000
    v7 = v5 - v6           11.652071   adjoint    1.000000
    """
    called = [*names, *(f"x{i + 1}" for i in range(len(names), len(inputs)))]
    if isinstance(computation, Value):
        return _of_value(computation, inputs, called)
    if isinstance(computation, Autograd):
        return _of_tape(computation, inputs, called)
    raise TypeError(
        f"wengert_list: a {type(computation).__name__} is neither a Value nor an engine of wengert.learn.mytorch; "
        "for a function of Tensors use wg.learn.compare(f, x).steps"
    )


def names_of(result: Value, inputs: Sequence[Value]) -> dict[Value, str]:
    """The names v1, v2, ... of the inputs and of all values that depend on them."""
    names = {value: f"v{i + 1}" for i, value in enumerate(inputs)}
    for value in in_order(result):
        if value not in names and any(source in names for source, _ in value._sources):
            names[value] = f"v{len(names) + 1}"
    return names


def formula_of(value: Value, names: dict[Value, str]) -> str:
    """How a Value was computed, in the names of others: `v1 * v2`."""
    return formula(value._op, [names.get(source, f"{source.data:g}") for source, _ in value._sources])


def formula(op: str, parts: Sequence[str]) -> str:
    """An operation on its sources, as mathematics on one line."""
    if op in _INFIX and len(parts) == 2:
        return f"{parts[0]} {_INFIX[op]} {parts[1]}"
    if op.startswith("**"):
        return f"{parts[0]} ^ {float(op[2:]):g}"
    if op == "power":
        return f"{parts[0]} ^ {parts[1]}"
    return f"{op.lower()}({', '.join(parts)})"


def _of_value(result: Value, inputs: Sequence[Value], called: Sequence[str]) -> list[Line]:
    names = names_of(result, inputs)
    lines = [Line(names[value], name, value.data, value.grad) for value, name in zip(inputs, called)]
    for value in list(names)[len(inputs) :]:
        sources = tuple(names[source] for source, _ in value._sources if source in names)
        lines.append(Line(names[value], formula_of(value, names), value.data, value.grad, sources))
    return lines


def _of_tape(engine: Autograd, inputs: Sequence[Any], called: Sequence[str]) -> list[Line]:
    buffer = engine.gradient_buffer
    names = {buffer.get_memory_loc(array): f"v{i + 1}" for i, array in enumerate(inputs)}
    arrays, formulas = list(inputs), list(called)
    sources: list[tuple[str, ...]] = [()] * len(inputs)
    for operation in engine.operation_list:
        places = [buffer.get_memory_loc(array) for array in operation.inputs]
        if any(place in names for place in places):
            parts = [names.get(place, _constant(array)) for place, array in zip(places, operation.inputs)]
            sources.append(tuple(names[place] for place in places if place in names))
            names[buffer.get_memory_loc(operation.output)] = f"v{len(names) + 1}"
            arrays.append(operation.output)
            formulas.append(formula(operation.backward_operation.__name__.removesuffix("_backward"), parts))
    last = np.ones(np.shape(arrays[-1]))  # the result is no operation's input, so it has no spot: backward began with 1
    adjoints = [buffer.get_param(array) if buffer.is_in_memory(array) else last for array in arrays]
    return [Line(*line) for line in zip(names.values(), formulas, arrays, adjoints, sources)]


def _constant(array: Any) -> str:
    return f"{float(array):g}" if np.size(array) == 1 else f"array{np.shape(array)}"


def _figure(value: Any) -> str:
    return f"{float(value):11.6f}" if np.size(value) == 1 else f"shape {np.shape(value)}"
