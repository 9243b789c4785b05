"""Compiled functions go by their source function: to another process, and into copies; or they say why not."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import types

import numpy as np
import pytest

import wengert as wg
from tests.runtime import compiled_functions as functions
from wengert.core.errors import ArgumentError

X = wg.tensor(np.arange(3.0))


def sent(value, protocol=pickle.HIGHEST_PROTOCOL):
    return pickle.loads(pickle.dumps(value, protocol))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_decorated_function_is_itself(protocol):
    assert sent(functions.doubled, protocol) is functions.doubled
    assert sent(functions.Scale.scaled, protocol) is functions.Scale.scaled


def test_a_function_compiled_elsewhere_is_compiled_again_with_its_options():
    found = sent(wg.compile(functions.plain, cache=9, check=True, tune=3.0))
    assert found(X).tolist() == [0.0, 3.0, 6.0]
    assert (found._limit, found._check, found._tuning) == (9, True, 3.0)
    assert sent(functions.tripled)._limit == 7
    assert sent(functions.again)._limit == 3 and sent(functions.again)(X).tolist() == [0.0, 2.0, 4.0]
    assert sent(functions.partly)(X).tolist() == [0.0, 3.0, 6.0]


def test_what_was_recorded_stays_behind():
    functions.tripled(X)
    with pytest.raises(ArgumentError, match="has not been called yet"):
        sent(functions.tripled).graph()


def test_methods_take_their_object_along():
    scale = functions.Scale(5.0)
    assert sent(scale.scaled)(X).tolist() == [0.0, 5.0, 10.0]
    assert sent(wg.compile(scale.plain))(X).tolist() == [0.0, 5.0, 10.0]
    assert sent({"scale": scale, "step": scale.scaled})["step"](X).tolist() == [0.0, 5.0, 10.0]


def local():
    @wg.compile
    def inner(x):
        return x

    return inner


@pytest.mark.parametrize(
    ("compiled", "message"),
    [
        (functions.unnamed, r"<compiled <lambda>> cannot be pickled: a lambda has no name .* define it with def"),
        (local(), r"cannot be pickled: inner is defined inside local; define it at the top of a module"),
        (functions.lost, r"cannot be pickled: .*compiled_functions has no Gone.scaled"),
    ],
)
def test_functions_that_nobody_can_find_say_why(compiled, message):
    with pytest.raises(ArgumentError, match=message):
        pickle.dumps(compiled)


def test_a_name_that_stands_for_something_else_is_told(monkeypatch):
    monkeypatch.setattr(functions, "plain", 3)
    with pytest.raises(ArgumentError, match=r"plain of .*compiled_functions is another object"):
        pickle.dumps(functions.tripled)


def test_a_function_of_no_module_is_told():
    f = types.FunctionType((lambda x: x).__code__, {}, "f")
    f.__module__, f.__qualname__ = None, "f"
    with pytest.raises(ArgumentError, match="cannot be pickled: f is in no module"):
        pickle.dumps(wg.compile(f))


def test_copies_of_a_function_are_the_function_itself():
    for compiled in (functions.doubled, functions.tripled, functions.unnamed, local()):
        assert copy.copy(compiled) is compiled and copy.deepcopy(compiled) is compiled


def test_a_deep_copy_of_a_method_is_of_the_copied_object():
    scale = functions.Scale(2.0)
    holder = {"scale": scale, "decorated": scale.scaled, "compiled": wg.compile(scale.plain)}
    other = copy.deepcopy(holder)
    other["scale"].factor = 10.0
    assert other["decorated"](X).tolist() == other["compiled"](X).tolist() == [0.0, 10.0, 20.0]
    assert holder["decorated"](X).tolist() == holder["compiled"](X).tolist() == [0.0, 2.0, 4.0]


def test_a_model_that_holds_compiled_functions_is_copied():
    model = wg.nn.Linear(3, 2)
    model.step = wg.compile(lambda x: x + 1)
    other = copy.deepcopy(model)
    assert other.step(X).tolist() == [1.0, 2.0, 3.0]


def test_another_process_calls_it():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        arrays = pool.map(in_other_process, [functions.doubled, functions.tripled])
    assert [list(array) for array in arrays] == [[0.0, 2.0, 4.0], [0.0, 3.0, 6.0]]


def in_other_process(compiled):
    return compiled(wg.tensor(np.arange(3.0))).numpy()
