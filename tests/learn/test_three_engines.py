"""The same function on numbers, on a tape and on a graph: one list v1, v2, ..., the same values, the same adjoints."""

from __future__ import annotations

import math

import numpy as np
import pytest

import wengert as wg
from wengert.learn import compare, wengert_list
from wengert.learn.mytorch import Autograd, Operations
from wengert.learn.value import Value

POINT = (2.0, 5.0)


def on_values():
    x1, x2 = map(Value, POINT)
    y = x1.log() + x1 * x2 - x2.sin()
    y.backward()
    return wengert_list(y, x1, x2)


def on_a_tape():
    engine = Autograd()
    op = Operations(engine)
    x1, x2 = map(np.array, POINT)
    op.sub(op.add(op.log(x1), op.mul(x1, x2)), op.sin(x2))
    engine.backward(1)
    return wengert_list(engine, x1, x2)


@pytest.mark.parametrize("engine", [on_values, on_a_tape])
def test_the_recitation_s_function_gives_the_same_list(engine):
    steps = compare(lambda x1, x2: wg.log(x1) + x1 * x2 - wg.sin(x2), POINT, seconds=0.001).steps
    lines = engine()
    assert [(line.name, line.formula) for line in lines] == [(step.name, step.formula) for step in steps]
    assert [float(line.value) for line in lines] == pytest.approx([step.value for step in steps], rel=1e-14)
    assert [float(line.adjoint) for line in lines] == pytest.approx([step.adjoint for step in steps], rel=1e-14)


UNARY = ["sin", "cos", "exp", "log", "tanh", "relu", "sqrt"]


@pytest.mark.parametrize("x", [0.3, 1.7])
@pytest.mark.parametrize("name", UNARY)
def test_functions_have_the_same_derivative_on_each_engine(name, x):
    value = Value(x)
    getattr(value, name)().backward()
    engine, array = Autograd(), np.array([x, x])
    getattr(Operations(engine), name)(array)
    engine.backward(1)
    expected = wg.grad(getattr(wg, name))(wg.tensor(x, wg.float64)).item()
    assert value.grad == pytest.approx(expected, rel=1e-12)
    assert engine.gradient_buffer.get_param(array) == pytest.approx([expected] * 2, rel=1e-12)


@pytest.mark.parametrize(("x", "exponent"), [(1.7, 3), (1.7, -0.5), (0.0, 0), (0.0, 2), (-2.0, 3)])
def test_powers_have_the_same_derivative_on_each_engine(x, exponent):
    value = Value(x)
    (value**exponent).backward()
    engine, array = Autograd(), np.array([x])
    Operations(engine).power(array, exponent)
    engine.backward(1)
    expected = wg.grad(lambda x: x**exponent)(wg.tensor(x, wg.float64)).item()
    assert value.grad == pytest.approx(expected, rel=1e-12)
    assert engine.gradient_buffer.get_param(array) == pytest.approx([expected], rel=1e-12)


def test_constants_have_no_name_and_inputs_keep_theirs():
    x, y = Value(3.0), Value(1.0)
    assert [f"{line.name} = {line.formula}" for line in wengert_list(2 * x**2 - y, y, x, names=["y", "x"])] == [
        *("v1 = y", "v2 = x", "v3 = v2 ^ 2", "v4 = v3 * 2", "v5 = v4 - v1")
    ]


def test_operations_sum_over_what_was_broadcast():
    engine = Autograd()
    op = Operations(engine)
    a, b = np.ones((3, 2)), np.array([2.0, 3.0])
    op.sum(op.div(op.matmul(op.mul(a, b), np.ones((2, 2))), 2.0))
    engine.backward(1)
    assert engine.gradient_buffer.get_param(b).tolist() == [3.0, 3.0]
    assert engine.gradient_buffer.get_param(a).tolist() == [[2.0, 3.0]] * 3


def test_the_derivative_of_the_square_root_at_zero_is_infinite():
    x = Value(0.0)
    x.sqrt().backward()
    assert x.grad == math.inf


def test_what_is_no_computation_is_named():
    with pytest.raises(TypeError, match=r"a Tensor is neither a Value .* use wg.learn.compare"):
        wengert_list(wg.tensor(1.0))
