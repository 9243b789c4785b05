"""A training run, from a recipe to a trained model: epochs of updates, an evaluation and a checkpoint after each.

The state of a run is a checkpoint; a run resumed from one continues as if it had never stopped. Steps are compiled, so
that they give the same bits in every process. A run of several ranks is this same class on each of them: all compute
and save their blocks, only rank 0 writes the rest and shows progress.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import wengert as wg
from wengert.core.communication import current
from wengert.core.devices import is_host
from wengert.core.errors import ArgumentError, FileError, NaNError
from wengert.data import DataLoader, Dataset
from wengert.distributed import shard
from wengert.train import progress
from wengert.train.checkpoint import Checkpoints, load_checkpoint, load_settings
from wengert.train.log import Log, NoLog
from wengert.train.optimizer import make_optimizer, rate_factor
from wengert.train.plot import plot
from wengert.train.ranks import check_examples, locked, mesh_of, note_step
from wengert.train.recipe import Recipe
from wengert.train.state import check_state, fitting
from wengert.train.steps import Steps
from wengert.train.stopping import Interrupted, StopRequest
from wengert.train.task import Task, build
from wengert.train.updates import Update, errors_at, means_of, on_their_way

POINTS = 200  # that the course of a run is drawn with
AHEAD = 8  # updates that a GPU is given before the values of the first are looked at


class Run:
    """A run of a recipe, whose results go to the folder `out`. With a checkpoint (its state or its path), it resumes
    from there. A recipe with `parts` sets `wg.config.parts` until the run is closed.

    >>> import tempfile, wengert as wg
    >>> recipe = wg.train.Recipe(data="digits", model="mlp", epochs=1, options={"hidden": [32]})
    >>> run = wg.train.Run(recipe, tempfile.mkdtemp())
    >>> for _ in range(3):
    ...     values = run.update()
    >>> sorted(values), run.step
    (['accuracy', 'loss', 'norm'], 3)
    """

    def __init__(self, recipe: Recipe, out: str | Path, state: dict[str, Any] | str | Path | None = None) -> None:
        self.recipe = recipe
        self.out = Path(out)
        settings = state if isinstance(state, dict) or state is None else load_settings(state)
        if isinstance(state, dict):
            check_state(state)
        self.mesh = mesh_of(recipe.ranks, recipe.parts)
        self._parts_before = wg.config.parts
        if recipe.parts:
            wg.config.parts = recipe.parts
        self.task: Task = build(recipe, (settings or {}).get("tokenizer"))
        self._shard_parameters()
        self.optimizer = make_optimizer(recipe.optimizer, self.task.model)
        self.base_rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        self.steps = Steps(
            self.task.model,
            self.optimizer,
            self.task.objective,
            clip=recipe.clip,
            accumulated=recipe.accumulate,
            dtype=recipe.dtype,
            compiled=recipe.compile,
            tune=recipe.tune if state is None else 0.0,  # a run that goes on keeps its choices
            mesh=self.mesh,
        )
        self._shard_state()
        check_examples(len(self.task.train), recipe.ranks, recipe.parts, recipe.batch_size)
        self.loader = DataLoader(
            self.task.train,
            recipe.batch_size,
            shuffle=True,
            seed=recipe.seed,
            drop_last=len(self.task.train) >= recipe.batch_size,
            workers=recipe.workers,
            device=recipe.device,
            mesh=self.mesh,
        )
        self.tests = self._evaluation_loader(self.task.test)
        held_back = self.task.validation
        self.validations = None if held_back is None else self._evaluation_loader(held_back)
        self.updates_per_epoch = len(self.loader) // recipe.accumulate
        if not self.updates_per_epoch:
            raise ArgumentError(
                f"an epoch of {len(self.loader)} batches is too short for an update of {recipe.accumulate} batches"
            )
        self.total = self.updates_per_epoch * recipe.epochs
        self.checkpoints = Checkpoints(self.out / "checkpoints", recipe.keep)
        self.step = 0
        self.evaluated = 0  # epochs
        self.waited = 0  # epochs since the best
        self.best: float | None = None
        self.history: list[dict[str, Any]] = []
        self.epoch_sums: dict[str, float] = {}
        self._batches: Iterator[Any] | None = None
        self._stop = StopRequest()
        if isinstance(state, (str, Path)):
            state = settings if settings and "model" in settings else load_checkpoint(state, like=self.state())
        if state is not None:
            self.load(state)

    def _evaluation_loader(self, dataset: Dataset) -> DataLoader:
        return DataLoader(dataset, self.recipe.batch_size, pad_last=True, device=self.recipe.device, mesh=self.mesh)

    def _shard_parameters(self) -> None:
        """Shard parameters over the ranks, if the recipe says so; before the optimizer creates state for them."""
        if self.mesh is not None and self.recipe.shard == 3:
            shard(self.task.model, self.mesh["data"])

    def _shard_state(self) -> None:
        """Shard the optimizer's state and the sums of gradients over the ranks, as the recipe says."""
        if self.mesh is not None and self.recipe.shard >= 1:
            shard(self.optimizer.state, self.mesh["data"])
        if self.mesh is not None and self.recipe.shard >= 2:
            shard(self.steps.sums, self.mesh["data"])

    # --- state --------------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The complete state needed to resume the run."""
        tokenizer = self.task.tokenizer
        return {
            "step": self.step,
            "recipe": vars(self.recipe),
            "model": self.task.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.steps.scaler.state_dict(),
            "random": wg.random.default_generator.state(),
            "order": self.loader.state_dict(),
            "evaluated": self.evaluated,
            "waited": self.waited,
            "best": self.best,
            "history": self.history,
            "epoch_sums": self.epoch_sums,
            "tokenizer": None if tokenizer is None else tokenizer.description(),
            "choices": {} if is_host(self.recipe.device) else wg.cuda.choices(self.recipe.device),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Resume from a state."""
        check_state(state)
        with fitting("model"):
            self.task.model.load_state_dict(state["model"])
        self._shard_parameters()  # of which a file of one process has the whole
        with fitting("optimizer"):
            self.optimizer.load_state_dict(state["optimizer"])
        self._shard_state()
        with fitting("scaler"):
            self.steps.scaler.load_state_dict(state["scaler"])
        with fitting("random"):
            wg.random.default_generator.set_state(state["random"])
        self.loader.load_state_dict(state["order"])
        if not is_host(self.recipe.device):
            with fitting("choices"):
                wg.cuda.set_choices(state.get("choices", {}), self.recipe.device)
        for name in ("step", "evaluated", "waited", "best", "history", "epoch_sums"):
            setattr(self, name, state[name])

    def save(self, is_best: bool = False) -> Path:
        """Write a checkpoint; with several ranks, each writes its blocks, in the background."""
        return self.checkpoints.save(self.step, self.state(), is_best)

    # --- steps --------------------------------------------------------------------------------------------------------

    def update(self) -> dict[str, float]:
        """Make one update of the parameters from the next batches; returns the means of its metrics."""
        self.task.model.train()
        return self._looked_at(self._recorded_update())

    def _recorded_update(self) -> Update:
        factor = rate_factor(self.recipe.schedule, self.step, self.total)
        for group, rate in zip(self.optimizer.param_groups, self.base_rates):
            group["lr"] = rate * factor
        random = wg.random.default_generator.state()
        batches = [self._next_batch() for _ in range(self.recipe.accumulate)]
        *first, last = batches
        self.step += 1
        note_step(self.step)
        with errors_at(self.step):
            values = [*(self.steps.accumulate(*batch) for batch in first), self.steps.update(*last)]
        return Update(self.step, batches, random, [on_their_way(each) for each in values])

    def _next_batch(self) -> Any:
        is_rest = self.loader.next_batch >= self.updates_per_epoch * self.recipe.accumulate
        if self._batches is None or is_rest:
            if is_rest:  # batches that make no whole update
                self.loader.load_state_dict({"epoch": self.loader.epoch + 1, "batch": 0})
            self._batches = iter(self.loader)
        batch = next(self._batches)
        if self.loader.next_batch == 0:
            self._batches = None
        return batch

    def _looked_at(self, update: Update) -> dict[str, float]:
        """The means of an update's values; raises if they are not finite."""
        values = update.values
        with errors_at(update.step):
            means = {name: sum(float(part[name]) for part in values) / len(values) for name in values[0]}
            means["norm"] = float(values[-1]["norm"])
        may_overflow = self.steps.scaler.is_enabled()  # which then skips the update by itself
        if not math.isfinite(means["loss"]) or not (math.isfinite(means["norm"]) or may_overflow):
            self._raise_not_finite(update, means)
        return means

    def _raise_not_finite(self, update: Update, means: dict[str, float]) -> None:
        """Recompute the gradients op by op, on the unchanged model, to name the op that made the first NaN."""
        wg.random.default_generator.set_state(update.random)
        before = self.task.model.state_dict()
        where = ""
        try:
            with wg.debug_nans():
                for batch in update.batches:
                    self.steps.look_closely(batch)
        except NaNError as error:
            where = f": {error}"
        self.task.model.load_state_dict(before)
        self.optimizer.zero_grad()
        what = f"the loss is {means['loss']:g}"
        if math.isfinite(means["loss"]):
            what += f" and the norm of the gradients {means['norm']:g}"
        hint = "The parameters are unchanged; a lower --lr may help"
        raise NaNError(f"step {update.step}: {what}{where}\n{hint}")

    def evaluate(self) -> dict[str, float]:
        """Compute the means of the objective's metrics over all test examples."""
        return self._evaluated(self.tests)

    def _evaluated(self, loader: DataLoader) -> dict[str, float]:
        self.task.model.eval()
        found = [self.steps.evaluate(*batch) for batch in loader]  # looked at when all are under way
        totals = {name: sum(float(sums[name]) for sums in found) for name in found[0]}
        weight = totals.pop("weight")
        return {name: value / weight for name, value in totals.items()}

    def close(self) -> None:
        """Stop preparing batches."""
        if wg.config.parts != self._parts_before:
            wg.config.parts = self._parts_before
        for loader in (self.loader, self.tests, self.validations):
            if loader is not None:
                loader.close()

    # --- the whole ----------------------------------------------------------------------------------------------------

    @property
    def is_done(self) -> bool:
        """Whether all epochs are done, or the result has not improved for too long."""
        patience = self.recipe.patience
        return self.evaluated >= self.recipe.epochs or bool(patience and self.waited >= patience)

    @property
    def _end_of_epoch(self) -> int:
        return (self.evaluated + 1) * self.updates_per_epoch

    def train(self) -> dict[str, float]:
        """Train to the end; returns the results on the test examples. The folder is locked meanwhile."""
        self._check_place()
        with locked(self.out):
            return self._trained()

    def _trained(self) -> dict[str, float]:
        is_first = current.rank == 0
        if is_first:
            (self.out / "recipe.toml").write_text(self.recipe.to_toml())
        log = Log(self.out) if is_first else NoLog()
        try:
            with progress.screen() as screen, self._stop.listening():
                while not self.is_done:
                    if self.step == self._end_of_epoch:
                        self._finish_epoch(screen, log)
                    else:
                        self._train_epoch(screen, log)
                    if not self.is_done and (number := self._stop.agreed()):
                        path = self.save()
                        self.checkpoints.wait()
                        raise Interrupted(path, number)
            self.checkpoints.wait()
            if self.validations is not None:
                self._note(log, "test", self.evaluate())
        finally:
            log.close()
            self.close()
        if is_first:
            self._plot()
        return {name: value for name, value in self.history[-1].items() if name not in ("kind", "step")}

    def _check_place(self) -> None:
        """Raise an error if a checkpoint's counters do not fit a run over this data."""
        begun = self.evaluated * self.updates_per_epoch
        if not begun <= self.step <= self._end_of_epoch or self.loader.next_batch >= len(self.loader):
            raise FileError(
                f"the checkpoint is of step {self.step} after {self.evaluated} epochs, which does not fit epochs of "
                f"{self.updates_per_epoch} updates: was it trained with other data?"
            )

    def _train_epoch(self, screen: Any, log: Log | NoLog) -> None:
        """Updates to the end of the epoch, or until the run is asked to stop."""
        self.task.model.train()
        pace = progress.Pace(self.step)
        window: list[dict[str, float]] = []
        pending: list[Update] = []
        ahead = 0 if is_host(self.recipe.device) else AHEAD
        is_last = False
        while not is_last:
            pending.append(self._recorded_update())
            is_noted = self.step % max(self.total // POINTS, 1) == 0
            is_saved = bool(self.recipe.save_every) and self.step % self.recipe.save_every == 0
            is_last = self.step == self._end_of_epoch or bool(self._stop.agreed())
            while len(pending) > (0 if is_saved or is_last else ahead):
                window.append(self._looked_at(pending.pop(0)))
                self._add_up(window[-1])
            screen.show(self._report(pace))
            if is_noted and window:
                self._note(log, "train", means_of(window), lr=float(self.optimizer.param_groups[0]["lr"]))
                window = []
            if is_saved:
                self.save()

    def _add_up(self, values: dict[str, float]) -> None:
        """Add the values of an update to the sums of the epoch."""
        for name, value in {**values, "updates": 1.0}.items():
            self.epoch_sums[name] = self.epoch_sums.get(name, 0.0) + value

    def _finish_epoch(self, screen: Any, log: Log | NoLog) -> None:
        """The evaluation and the checkpoint after an epoch."""
        start = time.perf_counter()
        kind, loader = ("test", self.tests) if self.validations is None else ("validation", self.validations)
        tested = self._evaluated(loader)
        report = self._report(progress.Pace(self.step))
        self._note(log, kind, tested)
        self.evaluated += 1
        score = tested["accuracy"] if "accuracy" in tested else -tested["loss"]
        is_best = self.best is None or score > self.best
        self.best, self.waited = (score, 0) if is_best else (self.best, self.waited + 1)
        seconds = self.epoch_sums.pop("seconds", 0.0) + time.perf_counter() - start
        self.epoch_sums = {}
        screen.line(progress.summary(report, kind, tested, seconds))
        self.save(is_best)

    def _report(self, pace: progress.Pace) -> progress.ProgressReport:
        seconds, updates = pace.advance(self.step)
        self.epoch_sums["seconds"] = self.epoch_sums.get("seconds", 0.0) + seconds
        count = self.epoch_sums.get("updates", 0.0) or 1.0
        per_update = min(self.recipe.batch_size, len(self.task.train)) * self.recipe.accumulate * self.task.per_example
        return progress.ProgressReport(
            self.evaluated + 1,
            self.recipe.epochs,
            self.step / self.total,
            {name: self.epoch_sums[name] / count for name in ("loss", "accuracy") if name in self.epoch_sums},
            updates * per_update,
            self.task.unit,
            (self.total - self.step) / updates if updates else 0.0,
            self.recipe.device,
        )

    def _note(self, log: Log | NoLog, kind: str, values: dict[str, float], **others: float) -> None:
        log.note(kind, self.step, {**values, **others})
        self.history.append({"kind": kind, "step": self.step, **values})

    def _plot(self) -> None:
        names = [name for name in self.history[-1] if name not in ("kind", "step")]
        kinds = dict.fromkeys(point["kind"] for point in self.history)
        panels = {
            name: {
                kind: [(p["step"], p[name]) for p in self.history if p["kind"] == kind and name in p] for kind in kinds
            }
            for name in names
        }
        (self.out / "run.svg").write_text(plot(self.recipe.title, panels, self.updates_per_epoch))
