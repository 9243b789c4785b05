"""What `wengert train`, `eval` and `generate` do. In: the options of the command line. Out: the exit status."""

from __future__ import annotations

import dataclasses
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import wengert as wg
from wengert.core.communication import current
from wengert.core.devices import is_host
from wengert.core.errors import ArgumentError
from wengert.data.tokens import Tokenizer
from wengert.train import ranks
from wengert.train import recipe as recipes
from wengert.train.checkpoint import load_checkpoint, load_settings, located
from wengert.train.progress import shown
from wengert.train.recipe import Recipe
from wengert.train.run import Run
from wengert.train.state import check_state, fitting, recipe_values
from wengert.train.stopping import Interrupted
from wengert.train.task import language_model, module_of

FIXED = {
    **{name: name.replace("_", " ") for name in ("model", "batch_size", "accumulate", "limit", "seed", "dtype")},
    "held_back": "fraction of examples for validation",
}
"""What a resumed run cannot change: its state would not fit, or not mean the same."""


ALONE = {"ranks": 1, "shard": 0}
"""What a checkpoint is evaluated with, however many ranks saved it."""


def train(options: Namespace) -> int:
    """`wengert train`: start or resume a run, on several ranks if requested."""
    changes = _changes(options)
    if ranks.is_rank():
        changes["ranks"] = ranks.joined(options.ranks)
    recipe, checkpoint = _asked(options, changes)
    out = _folder(options, recipe, checkpoint)
    if recipe.ranks > 1 and not ranks.is_rank():
        return ranks.run_as_ranks(recipe.ranks, options.given)
    run = Run(recipe, ranks.first_text(str(out)), checkpoint)
    if run.is_done:
        raise ArgumentError(
            f"{str(checkpoint)!r} has finished its {recipe.epochs} epochs; use --epochs to train longer"
        )
    return _trained(run)


def _trained(run: Run) -> int:
    """Train to the end, or until a signal; rank 0 reports."""
    is_first = current.rank == 0
    if is_first:
        _introduce(run)
    start = time.perf_counter()
    try:
        results = run.train()
    except Interrupted as error:
        told = f"stopped at step {run.step} and saved {error}\nwengert: resume with: {_go_on(run)}"
        if current.size == 1:
            raise Interrupted(told, error.signal_number) from None
        if is_first:
            print(f"\nwengert: {told}", file=sys.stderr, flush=True)
        return 0  # to mpiexec another status is a failure; the launcher's own tells of the signal
    if is_first:
        _tell(results, len(run.task.test))
        print(f"{time.perf_counter() - start:.1f} s; the checkpoints, the log and the plot are in {run.out}")
    return 0


def _go_on(run: Run) -> str:
    """The command that continues a run."""
    script = _script_of(run.recipe)
    return " ".join(filter(None, ("wengert train", script, f"--resume {run.out}")))


def evaluate(options: Namespace) -> int:
    """`wengert eval`: evaluate a checkpoint on its test data."""
    path = located(options.path)
    state = load_checkpoint(path)
    recipe = _stored_recipe(state, {**_changes(options), **ALONE})
    _require_trust(recipe, options.trust, f"wengert eval {options.path} --trust")
    run = Run(recipe, path.parent, state)
    try:
        _tell(run.evaluate(), len(run.task.test))
    finally:
        run.close()
    return 0


def generate(options: Namespace) -> int:
    """`wengert generate`: continue a text."""
    state = load_checkpoint(options.path)
    if state.get("tokenizer") is None:
        data = recipe_values(state).get("data")
        raise ArgumentError(f"{options.path!r} is a model of {data}; generate needs a text model")
    check_state(state)
    model, tokenizer = language_model(_stored_recipe(state, ALONE), state["tokenizer"])
    with fitting("model"):
        model.load_state_dict(state["model"])
    tokens = tokenizer.encode(_first_text(tokenizer) if options.prompt is None else options.prompt).tolist()
    if not tokens:
        raise ArgumentError("generate: the prompt is empty; it needs at least one character")
    if options.tokens < 0:
        raise ArgumentError(f"generate: tokens is {options.tokens}; it cannot be negative")
    if model.config.n_positions < 2:
        raise ArgumentError("generate: a model with a single position sees no previous token")
    generator = wg.random.Generator(options.seed)
    end, positions = len(tokens) + options.tokens, model.config.n_positions
    while len(tokens) < end:  # the model sees the last of the tokens, as many as leave room for as many again
        seen = tokens[-max(positions // 2, 1) :]
        count = min(end - len(tokens), positions - len(seen))
        longer = model.generate(wg.tensor([seen]), count, options.temperature, options.top_k, generator=generator)
        tokens += longer.tolist()[0][len(seen) :]
    print(tokenizer.decode(tokens))
    return 0


def _first_text(tokenizer: Tokenizer) -> str:
    """The start of a generated text without a prompt: a newline, or the alphabet's substitute for it."""
    alphabet = getattr(tokenizer, "alphabet", "\n")
    return next(letter for letter in ("\n", " ", alphabet[0]) if letter in alphabet)


def tune(options: Namespace) -> int:
    """`wengert tune` for a recipe: choose the kernels of its steps by timing them."""
    recipe = _recipe(options.target, {**_changes(options), **ALONE, "tune": options.seconds, "compile": True})
    if is_host(recipe.device):
        raise ArgumentError("tune: programs on the CPU have nothing to choose from; use --device cuda for a GPU")
    with tempfile.TemporaryDirectory() as folder:
        run = Run(recipe, folder)
        try:
            run.update()
            run.steps.evaluate(*next(iter(run.tests)))
        finally:
            run.loader.close()
            run.tests.close()
    for step in (run.steps.update, run.steps.evaluate):
        step.explain("tuning")
    return 0


COMMANDS: dict[str, Callable[[Namespace], int]] = {"train": train, "eval": evaluate, "generate": generate, "tune": tune}


# --- recipes and folders --------------------------------------------------------------------------------------------


def _changes(options: Namespace) -> dict[str, Any]:
    """The settings given on the command line."""
    names = ["lr", *(field.name for field in dataclasses.fields(Recipe) if field.name != "data")]
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def _recipe(data: str | None, changes: dict[str, Any]) -> Recipe:
    if not data:
        raise ArgumentError("train takes a data set, a recipe or a Python file, such as: wengert train digits")
    if data.endswith(".toml"):
        return recipes.read(Path(data)).changed(changes)
    if data.endswith(".py"):
        own = getattr(module_of(data), "recipe", {})
        return recipes.make({**own, "data": data}, f"recipe of {data}").changed(changes)
    return recipes.built_in(data, changes.get("model", "")).changed(changes)


def _stored_recipe(state: dict[str, Any], changes: dict[str, Any]) -> Recipe:
    with fitting("recipe"):
        stored = recipes.make(recipe_values(state), "the checkpoint's recipe")
    return stored.changed(changes)


def _script_of(recipe: Recipe) -> str:
    """The Python file that a recipe names, if it does."""
    return recipe.data if recipe.data.endswith(".py") else ""


def _require_trust(recipe: Recipe, is_trusted: bool, command: str) -> None:
    """Raise an error if a checkpoint names a Python file: its author would choose what runs here."""
    if _script_of(recipe) and not is_trusted:
        raise ArgumentError(
            f"the checkpoint names the Python file {recipe.data!r}, which would be run. If you trust it: {command}"
        )


def _asked(options: Namespace, changes: dict[str, Any]) -> tuple[Recipe, Path | None]:
    """The recipe of the requested run, and the checkpoint that it resumes from, if any."""
    if not options.resume:
        return _recipe(options.data, changes), None
    path = Path(ranks.first_text(str(located(options.resume))))
    stored = _stored_recipe(load_settings(path), {})
    recipe = stored.changed(changes)
    other = [words for name, words in FIXED.items() if getattr(recipe, name) != getattr(stored, name)]
    if options.data not in (None, stored.data):
        other.insert(0, "data")
    trusted = f"wengert train {stored.data} --resume {options.resume}"
    _require_trust(stored, options.trust or options.data == stored.data, trusted)
    if other:
        raise ArgumentError(f"a resumed run keeps its {other[0]}; leave out --resume to start another run")
    return recipe, path


def _folder(options: Namespace, recipe: Recipe, checkpoint: Path | None) -> Path:
    """The folder of the run."""
    if checkpoint is None:
        return _new_folder(options.out, recipe)
    if options.out:
        return Path(options.out)
    return checkpoint.parent.parent if checkpoint.parent.name == "checkpoints" else checkpoint.parent


def _new_folder(out: str | None, recipe: Recipe) -> Path:
    """The requested folder, if it has no run yet; else a new one in `runs`."""
    if out is not None:
        if (Path(out) / "checkpoints").exists():
            raise ArgumentError(f"{out!r} already has a run: continue it with --resume {out}, or name another folder")
        return Path(out)
    names = [recipe.title, *(f"{recipe.title}-{i}" for i in range(2, 10000))]
    return next(folder for name in names if not (folder := Path("runs") / name).exists())


# --- words ----------------------------------------------------------------------------------------------------------


def _introduce(run: Run) -> None:
    recipe, task = run.recipe, run.task
    count = sum(parameter.size for parameter in task.model.parameters())
    begun = f", resuming at step {run.step}" if run.step else ""
    to_choose = f"{len(task.validation):,} for validation, " if task.validation is not None else ""
    print(f"{recipe.title}: {len(task.train):,} training examples, {to_choose}{len(task.test):,} test examples" + begun)
    over = f", {recipe.ranks} ranks" if recipe.ranks > 1 else ""
    print(f"{count:,} parameters, {recipe.device}, {recipe.dtype}, {run.total:,} updates{over}", flush=True)
    if not recipe.compile:
        print("steps run dynamically: a resumed run may differ in the last bits")


def _tell(results: dict[str, float], count: int) -> None:
    measures = [f"{name} {shown(name, results[name])}" for name in sorted(results)]
    print(f"test {', '.join(measures)} on {count:,} examples")
