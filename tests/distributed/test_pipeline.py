"""`pipeline`: ranks that compute the stages of a model mean what one rank means."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from tests.distributed.staged import check, check_bytes
from tests.distributed.threaded import Deadlock, run_ranks
from wengert.compiler.pieces import Compute, Receive, Send
from wengert.compiler.schedules import SCHEDULES
from wengert.core.communication import communicator
from wengert.core.mesh import Mesh
from wengert.core.placement import Absent, Placement
from wengert.ops.transfer import TRANSFER
from wengert.runtime.pipelined import Pipelined
from wengert.runtime.program import Interpreter

rng = np.random.default_rng(0)


def training(model, loss_of, optimizer=wg.optim.AdamW, clip=None):
    steps = optimizer(model.parameters(), lr=1e-2)

    def train(*args):
        steps.zero_grad()
        loss = loss_of(*args)
        loss.backward()
        if clip is not None:
            wg.optim.clip_grad_norm_(model.parameters(), clip)
        steps.step()
        return loss

    return train


def mlp(stages, dtype=wg.float64, clip=None, extra=(), rows=16):
    wg.manual_seed(1)
    blocks = [wg.nn.Sequential(wg.nn.Linear(12, 12), *(layer() for layer in extra), wg.nn.Tanh()) for _ in range(4)]
    model = wg.nn.ModuleList([*blocks, wg.nn.Linear(12, 5)])
    model.to(dtype)

    def loss_of(x, y):
        for i, block in enumerate(model):
            with wg.distributed.stage(min(i, 3) * stages // 4):
                x = block(x)
        return wg.cross_entropy(x, y)

    x, y = rng.normal(size=(rows, 12)), rng.integers(0, 5, rows)
    return training(model, loss_of, clip=clip), (wg.tensor(x, dtype=dtype), wg.tensor(y))


def gpt(dtype=wg.float64, tied=True, dropout=0.0, clip=None, layers=4):
    wg.manual_seed(2)
    sizes = wg.models.GPTConfig(
        vocab_size=11, n_positions=8, n_embd=16, n_layer=layers, n_head=2, tied=tied, dropout=dropout
    )
    model = wg.models.GPT(sizes)
    model.to(dtype)
    tokens = rng.integers(0, 11, (8, 9))
    return training(model, lambda x, y: model(x, targets=y)[1], clip=clip), (
        wg.tensor(tokens[:, :-1]),
        wg.tensor(tokens[:, 1:]),
    )


MESHES = [Mesh(data=1, stage=2), Mesh(data=1, stage=4), Mesh(data=2, stage=2), Mesh(stage=2, data=2)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
@pytest.mark.parametrize("clip", [None, 0.1])
def test_a_pipeline_means_what_one_rank_means(mesh, schedule, clip):
    train, args = mlp(mesh.sizes["stage"], clip=clip)
    check(train, args, mesh, 8, schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("mesh", MESHES[:3], ids=repr)
def test_a_gpt_is_cut_by_its_cost(mesh, schedule):
    """Its embedding is used by the first and by the last stage, and belongs to the first."""
    train, args = gpt(layers=mesh.sizes["stage"])
    ran = check(train, args, mesh, 4, schedule)
    sent = [step for step in ran.pieces[0].steps if isinstance(step, Send)]
    assert len(sent) == 4 // mesh.sizes["data"] + 1  # the residual stream of each micro-batch, and the embedding


def test_all_micro_batches_may_be_needed_at_once():
    """BatchNorm: the first stage has to see all micro-batches before the second sees one, whatever the schedule."""
    mesh = Mesh(data=2, stage=2)
    train, args = mlp(2, extra=(lambda: wg.nn.BatchNorm1d(12), lambda: wg.nn.Dropout(0.3)))
    check(train, args, mesh, 8)
    check(train, args, mesh, 8, "gpipe")


def test_interleaved_stages():
    train, args = mlp(4)
    ran = check(train, args, Mesh(data=1, stage=2), 4)
    assert ran.found.schedule.name == "interleaved" and ran.found.schedule.chunks == 2


def test_without_micro_batches_one_batch_goes_through():
    train, args = mlp(2)
    ran = check(train, args, Mesh(stage=2), None)
    assert len([step for step in ran.pieces[0].steps if isinstance(step, Send)]) == 1


@pytest.mark.parametrize("marked", [True, False])
def test_inference_gives_every_rank_the_result(marked):
    layers = [wg.nn.Linear(6, 6) for _ in range(4)]

    def predict(x):
        with wg.no_grad():
            for i, layer in enumerate(layers):
                if marked:
                    with wg.distributed.stage(i // 2):
                        x = wg.tanh(layer(x))
                else:
                    x = wg.tanh(layer(x))
            return x

    x = wg.tensor(rng.normal(size=(8, 6)), dtype=wg.float32)
    ran = check(predict, (x,), Mesh(data=2, stage=2), 4, rtol=1e-5, atol=1e-6)
    assert [len(held) for held in ran.outputs] == [4]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_state_may_be_stored_in_blocks_beside(schedule):
    mesh = Mesh(data=2, stage=2)
    train, args = mlp(2, clip=0.1)

    def place(shape):
        axis = next((i for i, n in enumerate(shape) if n % 2 == 0), None)
        return None if axis is None else Placement(mesh, {"data": axis}, ["data"])

    check(train, args, mesh, 4, schedule, place)


def test_tensor_parallel_stages():
    mesh = Mesh(data=1, stage=2, tensor=2)
    train, args = mlp(2)
    place = {(12, 12): Placement(mesh, {"tensor": 0}), (12,): Placement(mesh, {"tensor": 0})}
    check(train, args, mesh, 4, place=place.get)


def test_a_transfer_and_its_transpose():
    """A value of the source is on the target, and zeros elsewhere; the cotangent goes back."""
    mesh = Mesh(stage=3)
    x = wg.tensor(rng.normal(size=(3, 2)))

    def moved(x):
        return wg.Tensor(TRANSFER(x.node, source=0, target=2, group=mesh["stage"]))

    given = wg.distributed.simulate(moved, mesh)(x).numpy()
    np.testing.assert_array_equal(given, [[0, 0], [0, 0], x.numpy()[0]])
    weights = wg.tensor(rng.normal(size=(3, 2)))
    gradient = wg.grad(lambda x: (wg.distributed.simulate(moved, mesh)(x) * weights).sum())(x).numpy()
    np.testing.assert_array_equal(gradient, [weights.numpy()[2], [0, 0], [0, 0]])


# --- order, memory --------------------------------------------------------------------------------------------------


def order(own):
    """What a rank does, in letters: run, send, receive."""
    return "".join({Compute: "x", Send: "s", Receive: "r"}.get(type(step), "") for step in own.steps)


def test_a_rank_keeps_the_order_of_the_schedule():
    train, args = mlp(2)
    ran = check(train, args, Mesh(data=1, stage=2), 4, "gpipe")
    first, second = map(order, ran.pieces)
    assert first.startswith("xs" * 4 + "r") and "s" not in first[8:]
    assert second == "rx" * 4 + "s" + "xs" * 4  # the loss, then what goes back
    ran = check(train, args, Mesh(data=1, stage=2), 4, "1f1b")
    first, second = map(order, ran.pieces)
    assert first.startswith("xsxs" + "rxxs" * 2 + "rx") and second.startswith("rxrxs" + "xxrs" * 2)


def live(own):
    """The most bytes that a rank keeps from one piece to another, beside its inputs."""
    sizes, most, kept = {}, 0, set()
    for step, ends in zip(own.steps, own.ends):
        if isinstance(step, Compute):
            sizes |= {slot: node.size * node.dtype.itemsize for slot, node in zip(step.gives, step.graph.outputs)}
            kept |= set(step.gives)
        most = max(most, sum(sizes[slot] for slot in kept))
        kept -= set(ends)
    return most


def test_one_forward_one_backward_keeps_fewer_activations():
    train, args = mlp(2, rows=1024)
    kept = {
        name: [live(own) for own in check(train, args, Mesh(data=1, stage=2), 8, name).pieces] for name in SCHEDULES
    }
    for few, many in zip(kept["1f1b"], kept["gpipe"]):
        assert few < 0.5 * many


def test_micro_batches_share_their_programs():
    train, args = mlp(2)
    ran = check(train, args, Mesh(data=1, stage=2), 8)
    own = ran.pieces[0]
    assert len(own.runs) >= 16 and len(Pipelined(own, None, lambda graph, pairs: Interpreter(graph)).distinct) <= 7


def test_what_belongs_to_a_stage_is_on_its_ranks_alone():
    """Parameters, gradients and moments: no two ranks have the same, and together they have all."""
    train, args = mlp(2)
    ran = check(train, args, Mesh(data=1, stage=2), 4)
    held = [{k for k, ranks in enumerate(ran.outputs) if set(ranks) == {rank}} for rank in range(2)]
    assert len(held[0]) >= 6 and len(held[1]) >= 6  # two layers each: weight, bias, and two moments of both
    shared = [ranks[0] for ranks in ran.outputs if len(ranks) == 2]
    assert all(array.size == 1 for array in shared)  # the loss, the count of steps


# --- compiled -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_pipeline_gives_the_bytes_of_micro_batches_on_one_rank():
    train, args = mlp(2, wg.float32)
    check_bytes(train, args, Mesh(data=1, stage=2), 4, "1f1b")


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("mesh", MESHES[:3], ids=repr)
@pytest.mark.parametrize("make", [mlp, gpt])
def test_every_pipeline_gives_the_bytes_of_one_rank(make, mesh, schedule):
    stages = mesh.sizes["stage"]
    train, args = mlp(stages, wg.float32, 0.1) if make is mlp else gpt(wg.float32, layers=stages)
    check_bytes(train, args, mesh, 4, schedule)


def test_compiled_over_ranks(monkeypatch):
    """What the user writes: three steps on all ranks, and what becomes of their parameters."""
    monkeypatch.setattr(wg.config, "tier", "compile")
    mesh = Mesh(data=1, stage=2)

    def make():
        wg.manual_seed(3)
        layers = [wg.nn.Linear(6, 6) for _ in range(2)]
        steps = wg.optim.SGD([p for layer in layers for p in layer.parameters()], lr=0.1, momentum=0.9)

        def train(x):
            steps.zero_grad()
            for i, layer in enumerate(layers):
                with wg.distributed.stage(i):
                    x = wg.tanh(layer(x))
            loss = (x * x).mean()
            loss.backward()
            steps.step()
            return loss

        return layers, train

    x = rng.normal(size=(8, 6)).astype(np.float32)
    _, alone = make()
    wanted = [wg.compile(alone, microbatches=4)(wg.tensor(x)).item() for _ in range(1)]
    made = [make() for _ in range(2)]
    compiled = [wg.compile(train, mesh=mesh, microbatches=4) for _, train in made]
    results, _ = run_ranks(mesh, lambda rank: [float(compiled[rank](wg.tensor(x)).node.buffer) for _ in range(3)])
    assert results[0] == results[1] and results[0][0] == pytest.approx(wanted[0], rel=1e-6)
    assert results[0][2] < results[0][1] < results[0][0]
    for rank, (layers, _) in enumerate(made):
        arrays = [layer.weight.node.buffer for layer in layers]
        assert [array.placement.at for array in arrays] == [{"stage": 0}, {"stage": 1}]
        assert [isinstance(array.block, Absent) for array in arrays] == [rank != 0, rank != 1]


# --- what is refused ------------------------------------------------------------------------------------------------


def test_stages_must_be_numbered_for_the_ranks():
    train, args = mlp(4)
    with pytest.raises(wg.errors.ArgumentError, match="4 stages cannot be shared by 3 ranks"):
        check(train, args, Mesh(data=1, stage=3), 4)
    with pytest.raises(wg.errors.ArgumentError, match="a non-negative integer"):
        wg.distributed.stage(-1).__enter__()
    with pytest.raises(wg.errors.ArgumentError, match="schedule is one of"):
        wg.compile(train, mesh=Mesh(data=1, stage=2), schedule="zero bubble")
    with pytest.raises(wg.errors.ArgumentError, match="add data=1"):
        wg.compile(train, mesh=Mesh(stage=2), microbatches=4)


def test_ranks_that_wait_in_a_circle_are_seen():
    """The test's own machinery: sends are rendezvous, so two ranks that both send first never end."""
    mesh = Mesh(stage=2)

    def work(rank):
        end = communicator(mesh["stage"])
        end.send(np.zeros(2), 1 - rank)
        return end.receive((2,), np.float64, 1 - rank)

    with pytest.raises(Deadlock, match="all wait"):
        run_ranks(mesh, work)
