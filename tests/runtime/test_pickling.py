"""Compiled functions go by their source function: to another process, and into copies; or they say why not."""

from __future__ import annotations

import copy
import functools
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
        (
            functions.unnamed,
            r"<compiled <lambda>> cannot be pickled: a lambda cannot be found by name.* define it with def",
        ),
        (local(), r"cannot be pickled: inner is defined inside local; define it at the top level of a module"),
        (functions.lost, r"cannot be pickled: .*compiled_functions has no Gone.scaled"),
    ],
)
def test_functions_that_nobody_can_find_say_why(compiled, message):
    with pytest.raises(ArgumentError, match=message):
        pickle.dumps(compiled)


def test_a_name_that_stands_for_something_else_is_told(monkeypatch):
    monkeypatch.setattr(functions, "plain", 3)
    with pytest.raises(ArgumentError, match=r"plain of .*compiled_functions is now a different object"):
        pickle.dumps(functions.tripled)


def test_a_function_of_no_module_is_told():
    f = types.FunctionType((lambda x: x).__code__, {}, "f")
    f.__module__, f.__qualname__ = None, "f"
    with pytest.raises(ArgumentError, match="cannot be pickled: f is not in any loaded module"):
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


@pytest.mark.parametrize(
    ("made", "of"),
    [
        (wg.grad(np.sum), [1.0, 1.0, 1.0]),
        (wg.grad(wg.sum), [1.0, 1.0, 1.0]),
        (wg.grad(functions.cubed), [0.0, 3.0, 12.0]),
        (wg.grad(functools.partial(functions.cubed)), [0.0, 3.0, 12.0]),
        (wg.vmap(wg.grad(np.sin)), np.cos(np.arange(3.0)).tolist()),
        (wg.jacobian(wg.grad(functions.cubed), mode="forward"), np.diag([0.0, 6.0, 12.0]).tolist()),
        (wg.checkpoint(functions.plain), [0.0, 3.0, 6.0]),
        (wg.compile(wg.grad(np.sum)), [1.0, 1.0, 1.0]),
        (wg.compile(wg.sin), np.sin(np.arange(3.0)).tolist()),
        (wg.compile(wg.grad(functions.cubed), cache=5), [0.0, 3.0, 12.0]),
        (wg.autodiff.numeric.grad(functions.cubed, method="complex"), [0.0, 3.0, 12.0]),
        (functions.Scale(2.0).slope, [2.0, 2.0, 2.0]),
    ],
)
def test_what_transforms_give_goes_by_the_function(made, of):
    assert sent(made)(X).numpy() == pytest.approx(np.array(of))
    assert copy.deepcopy(made)(X).numpy() == pytest.approx(np.array(of))


def test_what_transforms_give_keeps_its_options():
    value, (by_x, by_y) = sent(wg.value_and_grad(np.vecdot, argnums=(0, 1)))(X, X)
    assert (value.item(), by_x.tolist(), by_y.tolist()) == (5.0, X.tolist(), X.tolist())
    assert sent(wg.vmap(wg.add, in_axes=(0, None)))(X, 1.0).tolist() == [1.0, 2.0, 3.0]


def test_a_decorated_transform_is_itself():
    assert sent(functions.slope) is functions.slope and sent(functions.both) is functions.both
    assert sent(functions.Scale.slope) is functions.Scale.slope
    again = sent(wg.compile(functions.slope))
    assert again._function is functions.slope and again(X).tolist() == [0.0, 2.0, 4.0]
    assert sent(wg.grad(functions.slope.__wrapped__))(X).tolist() == [0.0, 2.0, 4.0]


def test_a_transform_of_a_function_that_nobody_can_find_says_why():
    with pytest.raises(
        ArgumentError, match=r"<grad of .*<lambda>> cannot be pickled: a lambda cannot be found by name"
    ):
        pickle.dumps(wg.grad(lambda x: x))
    with pytest.raises(ArgumentError, match="lambda"):
        pickle.dumps(wg.compile(wg.vmap(lambda x: x)))


@pytest.mark.parametrize("place", [wg, wg.linalg, wg.fft, wg.random, wg.nn])
def test_public_functions_are_found_by_their_names(place):
    for name in dir(place):
        value = getattr(place, name)
        if isinstance(value, types.FunctionType) and not name.startswith("_"):
            assert sent(value) is value, name


def test_another_process_calls_it():
    sent_there = [functions.doubled, functions.tripled, wg.grad(functions.cubed), wg.exp]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        arrays = pool.map(in_other_process, sent_there)
    assert [list(array) for array in arrays[:3]] == [[0.0, 2.0, 4.0], [0.0, 3.0, 6.0], [0.0, 3.0, 12.0]]
    assert list(arrays[3]) == pytest.approx(np.exp(np.arange(3.0)))


def in_other_process(compiled):
    return compiled(wg.tensor(np.arange(3.0))).numpy()
