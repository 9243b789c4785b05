"""Parameter groups: parameters that share their options, and how many steps they have taken.

An option that changes while training (the learning rate, and what a schedule cycles: momentum, betas) is kept in slots,
0-d float64 tensors, so that setting it changes a value and no recorded step. Who reads one gets a float; an optimizer's
rule gets the slots, as `group.live()`. Every other option is a Python value, part of a recorded step; setting one has
the steps recorded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from difflib import get_close_matches
from numbers import Real
from typing import Any
from weakref import ref

import numpy as np

import wengert as wg
from wengert import Tensor
from wengert.core.dtypes import default_float
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.graph import recording
from wengert.runtime.arguments import Float
from wengert.runtime.recorded_numbers import Recorded

# Keys a group may have beside its optimizer's options: what schedules and people write into it.
NOTES = ("initial_lr", "name", "param_names")

# Slots of which the number 0 is part of a recorded step: it leaves out what the option is for.
_SWITCHED_OFF_BY_ZERO = ("momentum",)

_NOT_NEGATIVE = (
    *("lr", "eps", "weight_decay", "momentum", "alpha", "rho", "lr_decay", "momentum_decay", "ns_steps"),
    "initial_accumulator_value",
)


class ParameterGroup(MutableMapping[str, Any]):
    """The parameters and options of a group, as a dict: `group["lr"] = 0.1`, `group["lr"] * 2`.

    `slots` names the options that are kept in tensors. Setting one assigns it; reading one gives the number it is then,
    a tuple of them for `betas`. While a function is recorded that is not known, and what is read stands for the number.
    `changed` is called when anything else was set.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=0.1)
    >>> (group,) = optimizer.param_groups
    >>> group["lr"]
    0.1
    """

    def __init__(
        self,
        params: Sequence[Tensor],
        options: dict[str, Any],
        slots: Sequence[str],
        changed: Callable[[ParameterGroup], None] = lambda group: None,
    ) -> None:
        check_options(options)
        self.slots = tuple(slots)
        self._changed = changed
        self._device = params[0].device
        self._zeros = {name for name in _SWITCHED_OFF_BY_ZERO if _is_number_zero(options.get(name))}
        self._items: dict[str, Any] = {"params": list(params)}
        self._read: dict[Tensor, tuple[Any, float]] = {}  # of a slot: the node that was looked at, and its number
        for name, value in options.items():
            self._items[name] = self._new_slots(value) if name in self.slots else value

    def __getitem__(self, name: str) -> Any:
        value = self._items[name]
        if name not in self.slots:
            return value
        return tuple(map(self._number, value)) if isinstance(value, tuple) else self._number(value)

    def __getstate__(self) -> dict[str, Any]:
        """What a copy and a pickle have: numbers that were read are read again."""
        return {**vars(self), "_read": {}}

    def live(self) -> LiveOptions:
        """The same options with slots as tensors: what an optimizer's rule computes with."""
        return LiveOptions(self)

    def _number(self, slot: Tensor) -> Any:
        """What a slot holds, as a float. A number that was set is known: reading it waits for no GPU."""
        if recording.trace is not None:
            return Float(Recorded(slot.node, alone=default_float))
        node, number = self._read.get(slot, (None, 0.0))
        if node is None or node() is not slot.node:
            number = float(slot)
            self._read[slot] = ref(slot.node), number
        return number

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "params":
            raise ArgumentError("the parameters of a group stay as they are; add_param_group adds others")
        if name not in self._items and name not in NOTES:
            raise unknown_option(name, self._items)
        if name in self.slots:
            self._assign(name, value)
        else:
            self._items[name] = value
            self._changed(self)

    def __delitem__(self, name: str) -> None:
        if name not in NOTES:
            raise ArgumentError(f"the option {name!r} of a parameter group can be set, not removed")
        del self._items[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={shown(value)}" for name, value in self.items() if name not in ("params", *NOTES))
        return f"ParameterGroup({len(self['params'])} parameters, {options})"

    def is_zero(self, name: str) -> bool:
        """Whether `momentum` was last set to the number 0: then a step does without. No tensor is looked at."""
        return name in self._zeros

    def _new_slots(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return tuple(self._new_slot(part) for part in value)
        return self._new_slot(value)

    def _new_slot(self, value: Any) -> Tensor:
        return self._put(wg.tensor(np.zeros((), wg.float64), device=self._device), value)

    def _put(self, slot: Tensor, value: Any) -> Tensor:
        put(slot, value)
        if isinstance(value, Real) and recording.trace is None:
            self._read[slot] = ref(slot.node), float(value)
        return slot

    def _assign(self, name: str, value: Any) -> None:
        slots = self._items[name]
        if isinstance(slots, Tensor):
            self._put(slots, value)
        elif not isinstance(value, (tuple, list)) or len(value) != len(slots):
            raise ArgumentError(f"{name} takes {len(slots)} numbers, not {value!r}")
        else:
            for slot, part in zip(slots, value):
                self._put(slot, part)
        self._note_zero(name, value)

    def _note_zero(self, name: str, value: Any) -> None:
        is_zero = _is_number_zero(value)
        if name in _SWITCHED_OFF_BY_ZERO and is_zero != (name in self._zeros):
            self._zeros.symmetric_difference_update({name})
            self._changed(self)


class LiveOptions(ParameterGroup):
    """A group as its optimizer computes with it: `live["lr"]` is a 0-d tensor. It has the group's own attributes."""

    def __init__(self, group: ParameterGroup) -> None:
        self.__dict__ = group.__dict__

    def __getitem__(self, name: str) -> Any:
        return self._items[name]


def _is_number_zero(value: Any) -> bool:
    return isinstance(value, Real) and value == 0


def put(slot: Tensor, value: Any) -> Tensor:
    """Give a 0-d slot a number or the value of a tensor. A number becomes data, so that no program depends on it."""
    if value is slot:
        return slot
    if isinstance(value, Tensor):
        return slot.assign(_as_float64(value))
    if isinstance(value, bool) or not isinstance(value, (Real, np.ndarray)):
        raise DTypeError(f"an option that is a number was set to {value!r}")
    return slot.assign(np.asarray(value, slot.dtype))


def _as_float64(value: Tensor) -> Tensor:
    """The value of a tensor, without its derivative; of what stands for a float, all of its digits."""
    return Tensor(value.weak.at(np.dtype(np.float64))) if value.weak is not None else value.detach()


def shown(value: Any) -> str:
    """An option as its optimizer's repr shows it."""
    if isinstance(value, Tensor):
        return f"{float(value):g}"
    if isinstance(value, tuple):
        return f"({', '.join(shown(part) for part in value)})"
    return repr(value)


def unknown_option(name: str, known: Any) -> ArgumentError:
    """The error for an option an optimizer does not have."""
    options = [option for option in known if option != "params"]
    near = get_close_matches(str(name), options, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(options)}"
    return ArgumentError(f"there is no option {name!r} here; {hint}")


def check_options(options: dict[str, Any]) -> None:
    """Raise for a number outside its range."""
    for name, value in options.items():
        if name == "betas":
            if not isinstance(value, (tuple, list)) or len(value) != 2:
                raise ArgumentError(f"betas takes two numbers, not {value!r}")
            for beta in value:
                if not isinstance(beta, Tensor) and not 0 <= beta < 1:
                    raise ArgumentError(f"betas lie between 0 and 1 (below 1), not {value!r}")
        elif name in _NOT_NEGATIVE and not isinstance(value, Tensor) and not value >= 0:
            raise ArgumentError(f"{name} cannot be negative, but is {value!r}")
        if name == "rho" and value > 1:
            raise ArgumentError(f"rho lies between 0 and 1, not {value!r}")


class StepCounts:
    """How many steps the parameters of a group have taken: int64 tensors.

    There is one count for all, so that what a step computes from the count it computes once. A parameter that had no
    gradient while others had one sat a step out: for such a parameter it is also counted how many.
    """

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.params = list(params)
        self.steps = _count(params[0])
        self.missed = {p: _count(p) for p in params}
        self.apart: set[Tensor] = set()  # the parameters whose `missed` is in use

    def of(self, parameter: Tensor) -> Tensor:
        """The steps one parameter has taken."""
        return self.steps - self.missed[parameter] if parameter in self.apart else self.steps

    def advance(self, absent: Sequence[Tensor], skip: Tensor | None) -> None:
        """Count one step, which the `absent` parameters sit out; none where `skip` is true."""
        one = 1 if skip is None else wg.where(skip, 0, 1)
        self.steps.assign(self.steps + one)
        for parameter in absent:
            self.missed[parameter].assign(self.missed[parameter] + one)

    def set_apart(self, parameters: Sequence[Tensor]) -> None:
        """From now on these have a count of their own."""
        if not self.apart.issuperset(parameters):
            self.apart.update(parameters)
            wg.config.changed()

    def load(self, counts: Sequence[int]) -> None:
        """Have each parameter go on from its count."""
        most = max(counts)
        self.steps.assign(np.int64(most))
        for parameter, count in zip(self.params, counts):
            self.missed[parameter].assign(np.int64(most - count))
        self.set_apart([p for p, count in zip(self.params, counts) if count != most])


def _count(beside: Tensor) -> Tensor:
    return wg.tensor(np.zeros((), wg.int64), device=beside.device)
