"""The mode of recording: whether gradients are tracked, autocast, eager, NaN checks; set for a block of code.

A mode belongs to the context it was set in (`contextvars`): each thread has its own, and so has each asyncio task,
which inherits the mode of the task that created it. Reading it is one call, `mode()`, and an attribute: ops do that
when they are recorded.

Generators share the context of their caller, so a block inside one would hold while it is suspended. Such a block's
mode is a `ScopedMode`, which applies only while the generator's frame is on the stack. Only these are slower.
"""

from __future__ import annotations

import inspect
import sys
from contextlib import ContextDecorator
from contextvars import ContextVar
from types import FrameType
from typing import Any

import numpy as np

PENDING_LIMIT = 10_000
"""How many values may be pending before some are computed; with 0 each is, as it is recorded."""


class Mode:
    """How ops are recorded in a context."""

    __slots__ = ("autocast", "checks_nans", "grad", "limit", "outer")

    def __init__(
        self,
        grad: bool = True,
        autocast: np.dtype[Any] | None = None,
        limit: int = PENDING_LIMIT,
        checks_nans: bool = False,
        outer: Mode | None = None,
    ) -> None:
        self.grad = grad  # whether new nodes are tracked for gradients
        self.autocast = autocast  # the dtype that ops of low precision are recorded in, if any
        self.limit = limit  # how many values may be pending
        self.checks_nans = checks_nans  # inside `debug_nans`
        self.outer = outer  # the mode around

    def changed(self, name: str, value: Any) -> Mode:
        """A mode within this one, with one attribute changed."""
        made = Mode(self.grad, self.autocast, self.limit, self.checks_nans, self)
        setattr(made, name, value)
        return made


class ScopedMode(Mode):
    """A change of one attribute that holds while the frame of its block is on the stack.

    The frame is identified by its address: it cannot be freed before the block has ended, which ends this mode.
    """

    __slots__ = ("frame", "has_ended", "name", "value")

    def __init__(self, outer: Mode, name: str, value: Any, frame: int) -> None:
        self.outer = outer
        self.name = name
        self.value = value
        self.frame = frame
        self.has_ended = False

    def _found(self, name: str) -> Any:
        """The value that the innermost frame has set, else that of the enclosing mode."""
        values: dict[int, Any] = {}
        around: Mode | None = self
        while type(around) is ScopedMode:
            if around.name == name and not around.has_ended:
                values.setdefault(around.frame, around.value)
            around = around.outer
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and values:
            if id(frame) in values:
                return values[id(frame)]
            frame = frame.f_back
        return getattr(around, name)

    grad = property(lambda self: self._found("grad"))
    autocast = property(lambda self: self._found("autocast"))
    limit = property(lambda self: self._found("limit"))
    checks_nans = property(lambda self: self._found("checks_nans"))


_current: ContextVar[Mode] = ContextVar("wengert_mode", default=Mode())  # noqa: B039 (the outermost is never changed)
mode = _current.get
"""The mode of this context."""


def enter(made: Mode) -> Mode:
    """Make a mode the current one of this context, until `leave`."""
    _current.set(made)
    return made


def leave(left: Mode) -> None:
    """End a mode. It is usually the innermost one, but not with interleaved generators or in another context."""
    inner: Mode | None = None
    found: Mode | None = mode()
    while found is not left and found is not None:
        inner, found = found, found.outer
    if found is None:
        if isinstance(left, ScopedMode):
            left.has_ended = True  # its own context drops it later
    elif inner is not None:
        inner.outer = left.outer
    else:
        around = left.outer
        while isinstance(around, ScopedMode) and around.has_ended:
            around = around.outer
        assert around is not None
        _current.set(around)


class Setting(ContextDecorator):
    """A context that changes one attribute of the mode. It is reusable, and works as a decorator."""

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value
        self._entered: list[Mode] = []

    def _recreate_cm(self) -> Setting:
        return Setting(self.name, self.value)

    def __enter__(self) -> None:
        around, frame = mode(), _frame_of_block(sys._getframe(1))
        if type(around) is ScopedMode or frame.f_code.co_flags & _SUSPENDS:
            made: Mode = ScopedMode(around, self.name, self.value, id(frame))
        else:
            made = around.changed(self.name, self.value)
        self._entered.append(enter(made))

    def __exit__(self, *_: object) -> None:
        leave(self._entered.pop())


_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
"""Functions that give control to a caller of the same context in the middle of a block. (Coroutines give it to their
event loop, which goes on in other contexts.)"""
_DRIVERS = ("contextlib", "_pytest.fixtures")
"""Modules that resume a generator to enter and to leave: what it sets is for the block between."""
_ENTERING = ("enter_context", "enter_async_context", "__enter__", "__aenter__")


def _frame_of_block(frame: FrameType) -> FrameType:
    """The frame of the block that a setting is for: of its own `with`, or of one over the generator that it is in."""
    while True:
        caller = frame.f_back
        if caller is None:
            return frame
        is_driven = frame.f_code.co_flags & _SUSPENDS and caller.f_globals.get("__name__") in _DRIVERS
        is_entering = frame.f_code.co_name in _ENTERING and frame.f_globals.get("__name__") == "contextlib"
        if not is_driven and not is_entering:
            return frame
        frame = caller
