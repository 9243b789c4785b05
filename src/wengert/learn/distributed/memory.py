"""The sections on memory: what a rank holds at each stage of ZeRO, and what accumulation and mixed precision save.

Nothing here is a formula. Parameters and state are the arrays that a rank has; gradients are what its graph gives;
working memory is the arena of its compiled program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any, NamedTuple

import wengert as wg
from wengert.core.placement import ShardedArray
from wengert.distributed import Mesh, shard
from wengert.distributed.sharding import tensors_of
from wengert.inspect.ranks import rank_program
from wengert.learn.derivatives.section import Section
from wengert.learn.distributed.drawings import Bars
from wengert.runtime.arguments import take_apart
from wengert.runtime.capture import NONE
from wengert.runtime.debug.explain import is_compiled, size_of
from wengert.runtime.program import build
from wengert.runtime.static.compile import Compiled

RANKS, WIDTH, LAYERS, ROWS, PARTS = 4, 256, 6, 2048, 4
_PARTS = ("parameters", "gradients", "state of Adam", "working memory")


class Held(NamedTuple):
    """The bytes that a rank holds."""

    parameters: int
    gradients: int
    state: int
    working: int


class Training:
    """A network, its optimizer, and what computes gradients and updates with them, each compiled."""

    def __init__(self, stage: int = 0, ranks: int = 1, halves: bool = False) -> None:
        mesh = Mesh(data=ranks)
        self.halves = halves
        wg.manual_seed(0)
        layers = [layer for _ in range(LAYERS) for layer in (wg.nn.Linear(WIDTH, WIDTH), wg.nn.Tanh())]
        self.model = wg.nn.Sequential(*layers)
        if stage == 3:
            shard(self.model, mesh["data"])
        self.optimizer = wg.optim.Adam(self.model.parameters(), lr=1e-3)
        if stage == 2:
            shard(self.optimizer.state, mesh["data"])
        self.step = Compiled(self._step, mesh=mesh)
        self.accumulate = Compiled(self._accumulate)
        self.update = Compiled(self.optimizer.step)

    def _step(self, x: Any, y: Any) -> Any:
        self.optimizer.zero_grad()
        self._accumulate(x, y)
        self.optimizer.step()

    def _accumulate(self, x: Any, y: Any) -> Any:
        with wg.autocast(wg.bfloat16) if self.halves else nullcontext():
            loss = ((self.model(x) - y) ** 2).mean()
        loss.backward()

    def held(self, gradients: int, working: int) -> Held:
        """With these, what a rank holds: of a tensor that is sharded its block."""
        return Held(_bytes(self.model.parameters()), gradients, _bytes(tensors_of(self.optimizer.state)), working)


def _bytes(tensors: Iterable[wg.Tensor]) -> int:
    """The bytes of the arrays that are here."""
    arrays = [tensor.node.buffer for tensor in tensors]
    return sum((array.block if isinstance(array, ShardedArray) else array).nbytes for array in arrays)


def measured(compiled: Compiled, *args: Any) -> tuple[int, int]:
    """The bytes of the gradients that a call of a rank's program leaves, and of the arena that it works in."""
    call = take_apart(None, args, {})
    assert call is not None
    made = compiled._capture(call, None)
    ranked = rank_program(compiled, made, call.leaves)
    graph = made.graph if ranked is None else ranked.distributed.graph
    program: Any = build(made.graph, made.binding.pairs) if ranked is None else ranked.program
    gradients = sum(size_of(graph.outputs[k]) for _, how, k in made.captured.set_grads if how != NONE)
    return gradients, program.plan.arena.size if is_compiled(program) else 0


def batch(rows: int) -> tuple[wg.Tensor, wg.Tensor]:
    """Examples and targets."""
    return wg.zeros((rows, WIDTH)), wg.zeros((rows, WIDTH))


# --- the stages of ZeRO -----------------------------------------------------------------------------------------------


def stages() -> dict[int, Held]:
    """What one of 4 ranks holds at stages 0, 2 and 3."""
    found = {}
    for stage in (0, 2, 3):
        training = Training(stage, RANKS)
        found[stage] = training.held(*measured(training.step, *batch(64)))
    return found


def zero_section() -> Section:
    """What a rank holds at each stage."""
    found = stages()
    names = {0: "stage 0: data parallel", 2: "stages 1, 2: shard(optimizer.state)", 3: "stage 3: shard(model)"}
    share = {what: getattr(found[3], what) / getattr(found[0], what) for what in ("parameters", "gradients", "state")}
    return Section(
        f"What each stage of ZeRO holds, on each of {RANKS} ranks",
        f"{LAYERS} layers of {WIDTH} by {WIDTH} with Adam. The arrays are real: what this process holds as rank 0 of "
        f"{RANKS}. Gradients are what the rank's graph leaves in `grad`, and working memory is the arena of its "
        "compiled program (activations, gathered parameters, gradients on their way).",
        [Bars(_PARTS, [(names[stage], held) for stage, held in found.items()])],
        "Stage 1 shards the optimizer's state, stage 2 the gradients too. Wengert has no stage 1 by itself: a rank "
        "needs only its block of a sum of gradients, so the sum is a reduce-scatter. Stage 3 shards the parameters and "
        "gathers them where they are used. Measured beside stage 0, a rank at stage 3 has "
        + ", ".join(f"{value:.2f} of the {what}" for what, value in share.items())
        + ". What does not shrink is the working memory: activations, and values on their way from rank to rank.",
    )


# --- accumulation, mixed precision ------------------------------------------------------------------------------------


def ways() -> dict[str, Held]:
    """What one process holds for a step of a large batch: at once, in parts, in bfloat16."""

    def whole(**options: bool) -> Held:
        training = Training(**options)
        return training.held(*measured(training.step, *batch(ROWS)))

    def in_parts(**options: bool) -> Held:
        training = Training(**options)
        training.accumulate(*batch(ROWS // PARTS))  # from now on there are gradients to add to
        gradients, working = measured(training.accumulate, *batch(ROWS // PARTS))
        return training.held(gradients, max(working, measured(training.update)[1]))

    made: dict[str, Callable[[], Held]] = {
        "at once": whole,
        f"{PARTS} micro-batches": in_parts,
        "bfloat16": lambda: whole(halves=True),
        f"bfloat16, {PARTS} micro-batches": lambda: in_parts(halves=True),
    }
    return {name: make() for name, make in made.items()}


def ways_section() -> Section:
    """Accumulation and mixed precision on the same bars."""
    found = ways()
    return Section(
        "Gradient accumulation and mixed precision, on the same bars",
        f"The same network in one process, for a batch of {ROWS:,} examples. Now the activations are most of it. "
        f"Accumulation calls backward() for {PARTS} parts of the batch one after the other, and adds to `grad`; "
        "autocast computes in bfloat16, and parameters and state stay in float32.",
        [Bars(_PARTS, list(found.items()))],
        "ZeRO divides what belongs to parameters, these two what belongs to examples. They go together.",
    )
