"""The names of slots: parameters and buffers of modules, the state and options of optimizers, random counters."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from typing import Any

from wengert.api.random import default_generator
from wengert.inspect.calls import Observed
from wengert.nn.module import Module
from wengert.optim.optimizer import Optimizer
from wengert.tensor import Tensor

Named = tuple[Tensor, str]


def named_slots(function: Any, observed: Observed) -> list[Named]:
    """The tensors that a function refers to by name, and those of the modules and optimizers that it calls."""
    found: list[Named] = []
    if inspect.isfunction(function) or inspect.ismethod(function):
        variables = inspect.getclosurevars(function)
        named = {**variables.globals, **variables.nonlocals}.items()
        found += [(thing, name) for name, thing in named if isinstance(thing, Tensor)]
    found += module_slots(observed.outermost)
    names = {id(slot): name for slot, name in found}
    for optimizer in observed.optimizers:
        found += _optimizer_slots(optimizer, names)
    return [*found, (default_generator.key, "random key"), (default_generator.counter, "random counter")]


def module_slots(modules: Iterable[Module]) -> list[Named]:
    """The parameters and buffers of modules, with their names."""
    return [(slot, name) for m in modules for name, slot in [*m.named_parameters(), *m.named_buffers()]]


def _optimizer_slots(optimizer: Optimizer, names: dict[int, str]) -> Iterator[Named]:
    for parameter, state in optimizer.state.items():
        own = names.get(id(parameter), "parameter")
        for name, slot in state.items():
            yield slot, f"{own}.{name}"
    for i, (group, counts) in enumerate(zip(optimizer.param_groups, optimizer._counts)):
        place = f"[{i}]" if len(optimizer.param_groups) > 1 else ""
        live = group.live()
        for name in group.slots:
            slots = live[name]
            parts = slots if isinstance(slots, tuple) else (slots,)
            for k, slot in enumerate(parts):
                yield slot, f"{name}{place}" + (f"[{k}]" if len(parts) > 1 else "")
        yield counts.steps, f"step{place}"
