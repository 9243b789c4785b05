"""Training: recipes, runs with checkpoints and logs, and the command `wengert train`."""

from wengert.api.spelling_hints import module_attribute as _module_attribute
from wengert.train.checkpoint import Checkpoints, load_checkpoint
from wengert.train.recipe import Recipe
from wengert.train.run import Run
from wengert.train.stopping import Interrupted
from wengert.train.task import Task

__all__ = ["Checkpoints", "Interrupted", "Recipe", "Run", "Task", "load_checkpoint"]


def __getattr__(name: str) -> object:
    return _module_attribute(name, __all__, __name__)
