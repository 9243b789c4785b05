"""`wg.compile`: what goes in and out, what is static, what is recorded again and why."""

from __future__ import annotations

import functools
import gc
import threading
import weakref
from contextlib import nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import AbstractValueError, ArgumentError, AssignmentError, GradientError
from wengert.core.graph import recording


def array(*values, dtype=np.float64):
    return np.array(values, dtype)


# --- what can be compiled ---------------------------------------------------------------------------------------------


def test_as_a_decorator_with_and_without_options():
    @wg.compile
    def twice(x):
        return x * 2

    @wg.compile(check=True)
    def thrice(x):
        return x * 3

    x = wg.tensor([1.0, 2.0])
    for _ in range(3):
        assert twice(x).tolist() == [2.0, 4.0]
        assert thrice(x).tolist() == [3.0, 6.0]
    assert twice.__name__ == "twice"


def test_lambdas_and_partials():
    x = wg.tensor([1.0, 2.0])
    double = wg.compile(lambda x: x * 2)
    scaled = wg.compile(functools.partial(lambda k, x: x * k, 5))
    for _ in range(3):
        assert double(x).tolist() == [2.0, 4.0]
        assert scaled(x).tolist() == [5.0, 10.0]


def test_a_method_is_compiled_for_each_object():
    class Scale:
        def __init__(self, by):
            self.by = wg.tensor(by)

        @wg.compile
        def apply(self, x):
            return x * self.by

    two, three = Scale(2.0), Scale(3.0)
    for _ in range(4):
        assert two.apply(wg.tensor([1.0])).tolist() == [2.0]
        assert three.apply(wg.tensor([1.0])).tolist() == [3.0]
    two.by.assign(7.0)
    assert two.apply(wg.tensor([1.0])).tolist() == [7.0]
    assert "method of another object" in two.apply.why()[1]


def test_a_dataclass_self_is_static_by_identity():
    @dataclass
    class State:
        total: wg.Tensor

        @wg.compile
        def add(self, x):
            self.total.assign(self.total + x)
            return self.total

    state = State(wg.tensor(0.0))
    for _ in range(5):
        assert state.add(wg.tensor(1.0)) is state.total
    assert state.total.item() == 5.0


def test_a_callable_object_is_compiled_and_keeps_its_attributes():
    class Layer:
        def __init__(self):
            self.weight = wg.tensor([3.0])

        def __call__(self, x):
            return self.weight * x

    layer = Layer()
    fast = wg.compile(layer)
    assert fast(2.0).tolist() == [6.0]
    layer.weight.assign(np.array([5.0]))
    assert fast(2.0).tolist() == [10.0]
    assert fast.weight is layer.weight


def test_what_cannot_be_called_is_refused():
    with pytest.raises(ArgumentError, match="takes a function"):
        wg.compile(3)


def test_a_compiled_object_does_not_outlive_its_owner_by_the_cache():
    class Big:
        def __init__(self):
            self.weight = wg.tensor([1.0])

        @wg.compile
        def f(self, x):
            return x * self.weight

    big = Big()
    big.f(wg.tensor([1.0]))
    gone = weakref.ref(big)
    del big
    gc.collect()
    assert gone() is None


# --- arguments and results --------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    left: object
    right: object


def test_nested_containers_go_in_and_come_out():
    @wg.compile
    def swap(batch, *, scale):
        (a, b), names = batch["xy"], batch["names"]
        return Pair({"b": b * scale, "a": [a]}, (names, None, 3, "done"))

    for step in range(4):
        a, b = wg.tensor([float(step)]), np.array([2.0, 3.0])
        out = swap({"xy": (a, b), "names": "n"}, scale=2.0)
        assert isinstance(out, Pair) and out.right == ("n", None, 3, "done")
        assert out.left["a"][0] is a
        np.testing.assert_array_equal(out.left["b"].numpy(), [4.0, 6.0])
    assert len(swap.why()) == 1


def test_positional_containers_are_not_mistaken_for_keywords():
    f = wg.compile(lambda *args, **kwargs: wg.tensor(float(len(args) * 10 + len(kwargs))))
    assert f((1,), {"a": 2}).item() == 20.0
    assert f(1, a=2).item() == 11.0


def test_static_values_are_told_apart_by_type():
    @wg.compile
    def f(x, flag):
        return x * 10 if flag is True else x + flag if isinstance(flag, int) else x * flag

    x = wg.tensor([1.0])
    assert f(x, True).tolist() == [10.0]
    assert f(x, 1).tolist() == [2.0]
    assert f(x, 1.0).tolist() == [1.0]
    assert f(x, 2).tolist() == [3.0]
    assert f.recordings == 4
    assert "argument 1 is 2, before" in f.why()[3]


def test_floats_are_inputs_and_never_record_again():
    @wg.compile
    def f(x, rate):
        return x * rate

    for i in range(3):
        assert f(wg.tensor([2.0]), float(i)).tolist() == [2.0 * i]
    assert f.recordings == 2 and len(f.why()) == 1


def test_an_unhashable_static_argument_is_refused():
    with pytest.raises(ArgumentError, match="of type set is neither a tensor nor hashable"):
        wg.compile(lambda x, names: x)(wg.tensor(1.0), {"a"})


def test_numpy_arrays_are_inputs_and_results_never_share_their_memory():
    kept = wg.tensor(np.zeros(3))

    @wg.compile
    def f(x):
        kept.assign(x)
        return x.reshape(3, 1), x[::-1]

    x = np.array([1.0, 2.0, 3.0])
    column, reverse = f(x)
    x[:] = 7
    assert column.tolist() == [[1.0], [2.0], [3.0]] and reverse.tolist() == [3.0, 2.0, 1.0]
    assert kept.tolist() == [1.0, 2.0, 3.0]
    assert f(x)[1].tolist() == [7.0, 7.0, 7.0]


def test_a_returned_argument_or_outside_tensor_is_that_tensor():
    outside = wg.tensor([1.0])
    f = wg.compile(lambda x: (x, outside, x))
    for _ in range(3):
        x = wg.tensor([2.0])
        a, b, c = f(x)
        assert a is x and b is outside and c is x


def test_an_argument_assigned_inside_changes_outside():
    @wg.compile
    def f(x):
        x += 1
        return x * 2

    for start in (1.0, 5.0):
        x = wg.tensor([start])
        assert f(x).tolist() == [2 * (start + 1)] and x.tolist() == [start + 1]


def test_assigning_an_array_argument_says_so():
    def f(x):
        x += 1
        return x

    with pytest.raises(AssignmentError, match="pass a tensor"):
        wg.compile(f)(np.ones(2))


def test_the_same_tensor_twice_is_one_slot_inside():
    @wg.compile
    def f(a, b):
        a += 1
        return a * b

    x = wg.tensor([2.0])
    assert f(x, x).tolist() == [9.0]
    assert f(wg.tensor([2.0]), wg.tensor([2.0])).tolist() == [6.0]


def test_the_grad_of_an_argument_that_requires_it_accumulates_outside():
    @wg.compile
    def f(x):
        (x * x).sum().backward()

    x = wg.tensor([1.0, 2.0], requires_grad=True)
    for times in range(1, 6):
        f(x)
        np.testing.assert_allclose(x.grad.numpy(), times * array(2.0, 4.0))
    fresh = wg.tensor([3.0, 3.0], requires_grad=True)
    f(fresh)
    assert fresh.grad.tolist() == [6.0, 6.0] and x.grad.tolist() == [10.0, 20.0]


def test_an_argument_that_the_function_also_knows_from_outside():
    weight = wg.tensor([2.0], requires_grad=True)

    @wg.compile
    def step(parameters, x):
        ((weight * x) ** 2).sum().backward()
        for parameter in parameters:
            with wg.no_grad():
                parameter -= 0.1 * parameter.grad
            parameter.grad = None

    expected = 2.0
    for x in (1.0, 0.5, 2.0, 1.0, 1.0):
        step([weight], x)
        expected -= 0.1 * 2 * expected * x * x
        assert weight.item() == pytest.approx(expected, rel=1e-6)
        assert weight.grad is None
    other = wg.tensor([1.0], requires_grad=True)
    with pytest.raises(TypeError):  # its gradient is None: the loss does not depend on it
        step([other], 1.0)


# --- state ------------------------------------------------------------------------------------------------------------


def test_outside_tensors_are_read_afresh_and_assigned():
    total, rate = wg.tensor(0.0), wg.tensor(2.0)

    @wg.compile
    def add(x):
        total.assign(total + rate * x)

    for i in range(6):
        rate.assign(float(i))
        add(wg.tensor(1.0))
    assert total.item() == sum(range(6))
    assert len(add.why()) == 1


def test_pending_values_are_computed_first():
    slot = wg.tensor([1.0]) * 3.0
    f = wg.compile(lambda: slot * 2)
    for _ in range(3):
        slot.assign(slot + 1.0)
        assert f().tolist() == [2 * slot.item()]


def test_slots_that_share_a_value_stay_two_slots():
    a = wg.tensor([1.0])
    b = wg.tensor([0.0])
    b.assign(a)
    f = wg.compile(lambda: (a * 1, b * 1))
    f()
    a.assign(np.array([5.0]))
    assert [t.tolist() for t in f()] == [[5.0], [1.0]]
    c = a.reshape(1)
    g = wg.compile(lambda: (a * 1, c * 1))
    g()
    a.assign(np.array([6.0]))
    assert [t.tolist() for t in g()] == [[6.0], [5.0]]


def test_a_tracked_result_is_differentiated_through_outside():
    weight = wg.tensor([2.0, 3.0], requires_grad=True)
    forward = wg.compile(lambda x: wg.tanh(x * weight).sum())
    x = np.array([0.1, 0.2], np.float32)
    for _ in range(3):
        weight.grad = None
        forward(x).backward()
        np.testing.assert_allclose(weight.grad.numpy(), x / np.cosh(x * [2, 3]) ** 2, rtol=1e-5)
    with wg.no_grad():
        assert not forward(x).requires_grad


def test_a_second_backward_through_a_loss_says_that_its_graph_is_gone():
    weight = wg.tensor([2.0], requires_grad=True)

    @wg.compile
    def step():
        loss = (weight * weight).sum()
        loss.backward()
        return loss

    loss = step()
    with pytest.raises(GradientError, match="freed"):
        loss.backward()


def test_keeping_a_tracked_value_in_a_slot_is_refused():
    weight, state = wg.tensor([2.0], requires_grad=True), wg.tensor([0.0])
    f = wg.compile(lambda: state.assign(weight * 2))
    with pytest.raises(AssignmentError, match="detach"):
        f()
    assert state.tolist() == [0.0]


def test_requires_grad_set_outside_records_again():
    weight = wg.tensor([2.0], requires_grad=True)
    f = wg.compile(lambda: (weight * 3).sum())
    assert f().requires_grad
    weight.requires_grad = False
    assert not f().requires_grad
    assert "requires grad" in f.why()[1]


# --- looking at values ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", [lambda t: t.item(), bool, float, lambda t: t.numpy(), lambda t: t.tolist()])
def test_looking_at_an_argument_raises_at_the_line(look):
    f = wg.compile(lambda x: look(x.sum()))
    with pytest.raises(AbstractValueError, match=r"compile records with abstract inputs(.|\n)*test_compile.py"):
        f(wg.tensor([1.0]))


@pytest.mark.parametrize("value", [lambda t: t, lambda t: t * 2])
def test_looking_at_a_tensor_from_outside_raises_too(value):
    rate = wg.tensor(1.0)

    def f(x):
        return x * 2 if value(rate) > 0.5 else x

    with pytest.raises(AbstractValueError, match="compile records with abstract inputs"):
        wg.compile(f)(wg.tensor([1.0]))


def test_looking_at_a_constant_is_fine():
    def f(x):
        table = wg.tensor([1.0, 2.0])
        return x * (table * 2).sum().item()

    assert [wg.compile(f)(wg.tensor(1.0)).item() for _ in range(3)] == [6.0] * 3


def test_printing_inside_shows_what_is_known(capsys):
    def f(x):
        print(x)
        return x

    wg.compile(f)(wg.tensor([1.0]))
    assert "abstract" in capsys.readouterr().out


def test_what_depends_on_data_raises():
    with pytest.raises(AbstractValueError):
        wg.compile(lambda x: x[x > 0])(wg.tensor([1.0, -1.0]))


# --- transforms -------------------------------------------------------------------------------------------------------


def energy(x):
    return (wg.sin(x) * x).sum()


POINTS = np.array([0.3, -0.7, 1.1])


def test_compile_of_a_transform():
    x = wg.tensor(POINTS)
    pairs = [
        (wg.compile(wg.grad(energy)), wg.grad(energy)),
        (wg.compile(wg.hessian(energy)), wg.hessian(energy)),
        (wg.compile(wg.vmap(energy)), wg.vmap(energy)),
        (wg.compile(lambda x: wg.jvp(energy, (x,), (x,))[1]), lambda x: wg.jvp(energy, (x,), (x,))[1]),
        (wg.compile(wg.vmap(wg.grad(energy))), wg.vmap(wg.grad(energy))),
    ]
    for compiled, plain in pairs:
        for _ in range(3):
            np.testing.assert_allclose(compiled(x).numpy(), plain(x).numpy(), rtol=1e-12)


def test_a_transform_of_a_compiled_function():
    fast = wg.compile(energy)
    x = wg.tensor(POINTS)
    fast(x)
    np.testing.assert_allclose(wg.grad(fast)(x).numpy(), wg.grad(energy)(x).numpy())
    np.testing.assert_allclose(wg.vmap(fast)(x.reshape(3, 1)).numpy(), wg.vmap(energy)(x.reshape(3, 1)).numpy())
    np.testing.assert_allclose(wg.jvp(fast, (x,), (x,))[1].numpy(), wg.jvp(energy, (x,), (x,))[1].numpy())
    outer = wg.compile(lambda x: fast(x) * 2)
    assert outer(x).item() == pytest.approx(2 * energy(x).item())


def test_control_flow_inside():
    state = wg.tensor(np.zeros(3))

    def f(x, start):
        total, partial = wg.scan(lambda c, row: (wg.tanh(c + row), c * 2), start, x)
        chosen = wg.cond(total.sum() > 0, lambda t: t * 2, lambda t: -t, total)
        rows = wg.vmap(lambda row: row * row.sum())(x)
        deep = wg.checkpoint(lambda t: wg.sin(t) * t)(chosen)
        last = wg.while_loop(lambda v: v.sum() < 10, lambda v: v * 2 + 1, deep * deep)
        with wg.no_grad():
            state.assign(state + last)
        return chosen, partial, rows, deep, last

    fast = wg.compile(f)
    rng = np.random.default_rng(0)
    expected = np.zeros(3)
    for _ in range(5):
        x, start = rng.normal(size=(4, 3)), rng.normal(size=3)
        plain = f(wg.tensor(x), wg.tensor(start))
        state.assign(expected)
        for a, b in zip(fast(x, start), plain):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)
        expected = expected + plain[-1].numpy()
        np.testing.assert_allclose(state.numpy(), expected, rtol=1e-12)
    assert len(fast.why()) == 1


def test_custom_derivatives_record_the_same_each_time():
    @wg.custom_vjp
    def clipped(x):
        return x

    clipped.defvjp(lambda x: (x, None), lambda needed, g: (wg.clip(g, -1, 1),))
    f = wg.compile(wg.grad(lambda x: (clipped(x) * 5).sum()), check=True)
    for _ in range(4):
        assert f(wg.tensor([2.0])).tolist() == [1.0]


# --- recordings -------------------------------------------------------------------------------------------------------


def test_the_recording_is_repeated_at_calls_2_4_8():
    @wg.compile
    def f(x):
        return x

    at = []
    for call in range(1, 20):
        before = f.recordings
        f(wg.tensor([1.0]))
        at += [call] * (f.recordings - before)
    assert at == [1, 2, 4, 8, 16]


def test_check_records_every_call():
    @wg.compile(check=True)
    def f(x):
        return x

    for _ in range(5):
        f(wg.tensor([1.0]))
    assert f.recordings == 5


def test_reasons_are_given_in_words():
    f = wg.compile(lambda x: x * 2)
    f(np.ones((8, 3)))
    f(np.ones((7, 3)))
    f(np.ones((7, 3), np.float32))
    f(wg.tensor(np.ones((7, 3), np.float32)))
    f(wg.tensor(np.ones((7, 3), np.float32), requires_grad=True))
    assert f.why()[0] == "it is the first call"
    assert f.why()[1] == "argument 0 has shape (7, 3), before (8, 3)"
    assert f.why()[2] == "argument 0 has dtype float32, before float64"
    assert "argument 0 is a tensor" in f.why()[3]
    assert "argument 0 requires grad" in f.why()[4]
    with wg.no_grad():
        f(wg.tensor(np.ones((7, 3), np.float32), requires_grad=True))
    assert "gradients are not recorded" in f.why()[5]


def test_many_shapes_warn_once_and_suggest_padding():
    f = wg.compile(lambda batch: batch["x"] * 2)
    with pytest.warns(UserWarning, match=r"8 different shapes of argument 0\['x'\](.|\n)*[Pp]ad") as caught:
        for n in range(1, 12):
            f({"x": np.ones(n)})
    assert len(caught) == 1


@pytest.mark.filterwarnings("ignore:.*different shapes")
def test_the_cache_is_bounded_and_keeps_what_was_used_last():
    @functools.partial(wg.compile, cache=3)
    def f(x):
        return x * 2

    f(np.ones(1))
    for n in range(2, 12):
        f(np.ones(n))
        f(np.ones(1))
        f(np.ones(1))
    assert sum(map(len, f._specializations.values())) <= 3
    before = f.recordings
    f(np.ones(11))
    assert f.recordings <= before + 1
    f(np.ones(5))
    assert f.recordings > before


def test_another_version_finds_the_program_it_knows():
    f = wg.compile(lambda x: x * 2)
    f(np.ones(2))
    program = f._latest[1].program
    wg.config.changed()
    f(np.ones(2))
    assert f._latest[1].program is program
    assert "was set" in f.why()[-1]


def test_the_graph_prints_as_python():
    f = wg.compile(lambda x: wg.exp(x) * 2)
    with pytest.raises(ArgumentError, match="not been called"):
        f.graph()
    f(wg.tensor([1.0]))
    text = str(f.graph())
    assert "ops['exp'](x0)" in text and "test_compile.py" in text


def test_recording_leaves_nothing_pending():
    f = wg.compile(lambda x: wg.exp(x) * 2)
    f(wg.tensor([1.0]))
    wg.synchronize()
    f(wg.tensor([1.0, 2.0]))
    assert [slot() for slot in recording.pending if slot() is not None] == []


def test_old_parameter_values_are_not_kept():
    weight = wg.tensor(np.ones(4), requires_grad=True)

    @wg.compile
    def step():
        (weight * weight).sum().backward()
        with wg.no_grad():
            weight.assign(weight - 0.1 * weight.grad)
        weight.grad = None

    first, held = weakref.ref(weight.node), weight.detach().numpy()  # held, so that it is not overwritten but replaced
    for _ in range(3):
        step()
    gc.collect()
    assert first() is None and held.tolist() == [1.0] * 4


@pytest.mark.counted
def test_a_value_that_nobody_else_holds_is_overwritten_in_its_node():
    weight = wg.tensor(np.ones(4), requires_grad=True)

    @wg.compile
    def step():
        weight.assign(weight.detach() * 0.5)

    step()
    node = weakref.ref(weight.node)
    step()
    assert node() is weight.node and weight.tolist() == [0.25] * 4
    held = weight.detach().numpy()
    step()
    assert node() is not weight.node and held.tolist() == [0.25] * 4 and weight.tolist() == [0.125] * 4


def test_threads_share_a_compiled_function():
    total = wg.tensor(np.zeros(()))

    @wg.compile
    def add(x):
        total.assign(total + x.sum())
        return x * 2

    wrong = []

    def work(k):
        for _ in range(25):
            if add(np.full(k, 1.0)).tolist() != [2.0] * k:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and total.item() == 25 * (1 + 2 + 3 + 4)


def test_a_call_inside_a_recording_does_not_wait_for_one_in_another_thread():
    inner = wg.compile(lambda x: x * 2.0)
    x = wg.ones((3,))
    inner(x)
    results = []
    recorder = threading.Thread(target=lambda: results.append(wg.compile(lambda x: inner(x) + 1.0)(x).tolist()))
    with inner._lock:  # as while it runs: it may be waiting for the recording to end
        recorder.start()
        recorder.join(20)
        assert results == [[3.0] * 3]


# --- constants made inside ----------------------------------------------------------------------------------------


def test_a_leaf_that_nobody_used_before():
    """Closing the graph looks at it, and computed with it what was made of it inside: a constant."""
    start = np.arange(6.0).reshape(2, 3)
    weight = wg.tensor(start, requires_grad=True)
    fast = wg.compile(lambda: ((weight * 3).detach(), (weight.reshape(3, 2) @ weight).detach()))
    for scale in (1, 2, 3, 4):
        thrice, product = fast()
        np.testing.assert_allclose(thrice.numpy(), 3 * scale * start)
        np.testing.assert_allclose(product.numpy(), scale**2 * start.reshape(3, 2) @ start)
        weight.assign(start * (scale + 1))
    assert fast.why() == ["it is the first call"]


def test_a_constant_made_and_looked_at_inside():
    def f(x):
        table = (wg.arange(6.0) * 2).reshape(2, 3).mT
        assert table.numpy().shape == (3, 2)
        return x @ table, table, table.reshape(2, 3)

    x = np.ones((2, 3), np.float32)
    for found, expected in zip(wg.compile(f)(x), f(wg.tensor(x))):
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


# --- building -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_building_leaves_the_garbage_collector_as_it_was(monkeypatch, enabled, fails):
    from wengert.runtime import program

    def built(graph, pairs, tuning, promise, before):
        assert not gc.isenabled()
        return 1 / 0 if fails else program.Interpreter(graph)

    monkeypatch.setattr(program, "_built", built)
    gc.enable() if enabled else gc.disable()
    try:
        with pytest.raises(ZeroDivisionError) if fails else nullcontext():
            wg.compile(lambda x: x + 1)(1.0)
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
