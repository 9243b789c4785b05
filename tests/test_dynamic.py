"""Dynamic execution: when things run, what is kept, what is let go, and what happens when something fails."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import wengert as wg
from wengert.core.context import mode
from wengert.core.graph import ancestors, recording


def computed(tensor: wg.Tensor) -> bool:
    return tensor.node.buffer is not None


def test_nothing_is_computed_until_somebody_looks():
    x = wg.tensor([1.0, 2.0])
    y = wg.exp(x)
    assert not computed(y)
    y.numpy()
    assert computed(y)


@pytest.mark.parametrize(
    "look", [lambda t: t.item(), lambda t: t.tolist(), float, bool, repr, lambda t: t.numpy(), lambda t: f"{t:.2f}"]
)
def test_looking_computes(look):
    y = wg.exp(wg.tensor(1.0))
    look(y)
    assert computed(y)


def test_a_flush_computes_every_live_tensor_and_no_dead_one():
    x = wg.tensor([1.0, 2.0])
    held, looked = wg.exp(x), wg.sin(x)
    inner = wg.log(x) * 2.0
    dead = weakref.ref(inner.node.sources[0])
    looked.numpy()
    assert computed(held) and computed(inner)
    assert dead() is None  # untracked and computed: the history is gone


def test_assigning_runs_nothing_and_backward_is_the_flush():
    w = wg.tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    with wg.no_grad():
        w -= 0.5 * w.grad
    assert not computed(w)
    w.grad = None
    loss = (w * w).sum()
    loss.backward()
    assert computed(w) and computed(loss) and computed(w.grad)
    assert w.tolist() == [0.0, 0.0]


def test_holding_a_handle_changes_no_numbers():
    x = wg.tensor(np.linspace(-1, 1, 7), requires_grad=True)

    def run(hold):
        x.grad = None
        kept = []
        h = wg.tanh(x * 3.0)
        if hold:
            kept.append(h)
        (h * h).sum().backward()
        return x.grad.numpy()

    np.testing.assert_array_equal(run(False), run(True))


def test_what_a_later_backward_needs_is_kept_and_cheap_values_are_computed_again():
    w = wg.tensor(np.eye(3), requires_grad=True)
    loss = wg.exp(w @ w).sum()
    loss.detach().numpy()
    kept = {node.op.name for node in ancestors([loss.node]) if node.buffer is not None}
    assert {"matmul", "sum"} <= kept and "exp" not in kept
    loss.backward()
    x = np.exp(np.eye(3) @ np.eye(3))
    np.testing.assert_allclose(w.grad.numpy(), x @ np.eye(3).T + np.eye(3).T @ x, rtol=1e-12)


def test_backward_lets_go_of_the_graph():
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    h = wg.exp(x)
    loss = h.sum()
    inner = weakref.ref(loss.node.sources[0])
    loss.backward()
    assert h.tolist() == pytest.approx(np.exp([1.0, 2.0]).tolist())
    del h
    assert inner() is None
    with pytest.raises(wg.errors.GradientError, match="retain_graph=True"):
        loss.backward()


@pytest.mark.parametrize("looked_at", [False, True])
def test_what_was_let_go_stays_so_when_it_is_used_and_looked_at(looked_at: bool):
    w, v = wg.tensor([1.0, 2.0], requires_grad=True), wg.tensor([3.0, 4.0], requires_grad=True)
    loss = (w * w).sum()
    loss.backward()
    later = (loss * v).sum()
    if looked_at:
        later.detach().numpy()
    with pytest.raises(wg.errors.GradientError, match="freed"):
        later.backward()


def test_retain_graph_and_accumulation():
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    loss = (x * x).sum()
    loss.backward(retain_graph=True)
    held = x.grad
    loss.backward()
    assert held is x.grad and held.tolist() == [4.0, 8.0]


def test_create_graph_gives_gradients_of_gradients():
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    first = x.grad
    x.grad = None
    first.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]


def test_values_that_share_a_graph_with_a_backward_survive_it():
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    h = wg.exp(x)
    loss, other = h.sum(), (h * 2.0).sum()
    loss.backward()
    assert other.item() == pytest.approx(2 * np.exp([1.0, 2.0]).sum(), rel=1e-6)
    with pytest.raises(wg.errors.GradientError):
        other.backward()


def test_eager_computes_at_once():
    with wg.eager():
        y = wg.exp(wg.tensor(0.0)) + 1.0
        assert computed(y)
    assert not computed(y * 2.0)


def test_the_pending_graph_is_bounded():
    x = wg.tensor(0.0)
    for _ in range(25_000):
        x = x + 1.0
    assert len(recording.pending) <= mode().limit
    assert len(ancestors([x.node])) < 3 * mode().limit
    assert x.item() == 25_000.0


def test_the_bound_cuts_at_the_last_assignment():
    recording_limit, mode().limit = mode().limit, 50
    try:
        wg.synchronize()
        w = wg.tensor(1.0)
        w.assign(w * 2.0)
        kept = [w + float(i) for i in range(60)]
        assert computed(w) and not computed(kept[-1])
    finally:
        mode().limit = recording_limit


def test_what_is_made_of_a_failure_later_raises_the_same():
    failed = wg.linalg.cholesky(wg.tensor([[-1.0]]))
    for _ in range(2):
        with pytest.raises(wg.errors.ComputationError, match=r"^cholesky failed"):
            (failed * 2).detach().numpy()


def test_a_failure_does_not_poison_the_rest():
    bad, good = wg.tensor(-np.eye(2)), wg.tensor([1.0, 2.0])
    failed = wg.linalg.cholesky(bad)
    after = failed.sum()
    fine = good * 2.0
    assert fine.tolist() == [2.0, 4.0]
    for tensor in (failed, after):
        with pytest.raises(wg.errors.ComputationError, match=r"cholesky.*\n.*test_dynamic.py:\d+"):
            tensor.numpy()
    assert "failed" in repr(failed)
    assert (good + 1.0).tolist() == [2.0, 3.0]


def test_threads_record_apart():
    results, errors = {}, []

    def work(i):
        try:
            x = wg.tensor(np.full(3, float(i)), requires_grad=True)
            for _ in range(50):
                loss = (x * x).sum()
                loss.backward()
                with wg.no_grad():
                    x.assign(x - 0.1 * x.grad)
                x.grad = None
            results[i] = x.detach().numpy()[0]
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for i in range(4):
        assert results[i] == pytest.approx(i * 0.8**50)


def test_no_grad_is_per_thread():
    seen = {}
    with wg.no_grad():
        thread = threading.Thread(target=lambda: seen.update(on=recording.grad))
        thread.start()
        thread.join()
        assert recording.grad is False
    assert seen["on"] is True


def test_nodes_do_not_accumulate_over_a_loop():
    x = wg.tensor(np.ones(3), requires_grad=True)

    def step():
        loss = ((x * 2.0 - 1.0) ** 2).sum()
        loss.backward()
        with wg.no_grad():
            x.assign(x - 0.01 * x.grad)
        x.grad = None
        return loss.item()

    def count():
        gc.collect()
        return sum(isinstance(o, (wg.graph.Node, wg.Tensor)) for o in gc.get_objects())

    for _ in range(10):
        step()
    before = count()
    for _ in range(200):
        step()
    assert count() <= before + 5


def test_in_place_reuse_never_touches_a_value_somebody_holds():
    x = wg.tensor(np.arange(1 << 15, dtype=np.float64))
    before = x.numpy().copy()
    a = x + 1.0
    b = a * 2.0
    c = b - a
    d = wg.exp(c * 0.0) + b
    np.testing.assert_array_equal(d.numpy(), 1.0 + (before + 1.0) * 2.0)
    np.testing.assert_array_equal(x.numpy(), before)
    np.testing.assert_array_equal(a.numpy(), before + 1.0)
    np.testing.assert_array_equal(c.numpy(), before + 1.0)
    view = (x + 5.0).reshape(2, -1)
    total = view * 1.0 + view.T.reshape(2, -1)
    flat = before.reshape(2, -1) + 5.0
    np.testing.assert_array_equal(total.numpy(), flat + flat.T.reshape(2, -1))


def test_debug_nans_names_the_first_op_and_its_inputs():
    with wg.debug_nans(), pytest.raises(wg.errors.NaNError, match=r"log produced 1 NaN of 2 elements.*\[-1, 2\]"):
        (wg.log(wg.tensor([-1.0, 2.0])) * 2.0).numpy()
    assert np.isnan(wg.log(wg.tensor(-1.0)).item())


def test_debug_nans_looks_into_the_bodies_of_loops_and_branches():
    x = wg.tensor([-1.0, 2.0])
    for call in (
        lambda: wg.scan(lambda c, v: (c + wg.log(v), c), wg.tensor(0.0), x)[0],
        lambda: wg.cond(True, lambda: wg.log(x), lambda: x),
        lambda: wg.while_loop(lambda v: (v[1] < 9) & (v[0] < 1), lambda v: wg.log(v) * 5, x),
        lambda: wg.checkpoint(wg.log)(wg.tensor([-1.0, 2.0], requires_grad=True)),
    ):
        with wg.debug_nans(), pytest.raises(wg.errors.NaNError, match="log produced 1 NaN"):
            call().detach().numpy()


@pytest.mark.parametrize("compiled", [False, True])
def test_what_fails_in_the_body_of_a_loop_names_its_own_line(compiled):
    def step(c, a):
        return c, wg.linalg.cholesky(a)  # the line that fails

    def run(a):
        return wg.scan(step, wg.tensor(0.0), a)[1]

    bad = wg.tensor([[[1.0, 2.0], [2.0, 1.0]]])
    for _ in range(2):
        with pytest.raises(wg.errors.ComputationError, match=r"^cholesky failed: .*\n.*the line that fails$"):
            (wg.compile(run) if compiled else run)(bad).numpy()


@pytest.mark.parametrize("loops", [False, True])
def test_debug_nans_looks_into_a_compiled_function(loops):
    def step(c, x):
        return c + wg.log(x), c

    weight = wg.tensor([1.0, 2.0])

    @wg.compile
    def update(x):
        found = wg.scan(step, wg.tensor(0.0), x)[0] if loops else wg.log(x).sum()
        weight.assign(weight * found)
        return found

    bad = wg.tensor([-1.0, 2.0])
    assert np.isnan(update(bad).item())
    weight.assign(wg.tensor([1.0, 2.0]))
    with wg.debug_nans(), pytest.raises(wg.errors.NaNError, match="log produced 1 NaN"):
        update(bad)
    assert weight.tolist() == [1.0, 2.0]
    with wg.debug_nans():
        assert update(wg.tensor([1.0, 1.0])).item() == 0.0
    assert weight.tolist() == [0.0, 0.0]
