"""Whether gradients are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from wengert.core.context import Mode, Setting, enter, leave, mode


class _Switch:
    """A block, or a decorator, inside which gradients are recorded or not."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def __enter__(self) -> None:
        self._settings = [*getattr(self, "_settings", ()), Setting("grad", self.enabled)]
        self._settings[-1].__enter__()

    def __exit__(self, *exception: Any) -> None:
        self._settings.pop().__exit__(*exception)

    def __call__(self, function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def switched(*args: Any, **kwargs: Any) -> Any:
            with Setting("grad", self.enabled):
                return function(*args, **kwargs)

        return switched


class no_grad(_Switch):
    """A context, or decorator (with or without parentheses), in which nothing is recorded for gradients."""

    def __new__(cls, function: Any = None) -> Any:
        made: Any = super().__new__(cls)
        return made if function is None else cls()(function)

    def __init__(self, function: Any = None) -> None:
        super().__init__(False)


class enable_grad(no_grad):
    """A context in which gradients are recorded again."""

    def __init__(self, function: Any = None) -> None:
        _Switch.__init__(self, True)


class inference_mode(_Switch):
    """Like `no_grad`; tensors created inside can also be used in recorded code."""

    def __new__(cls, mode: Any = True) -> Any:
        made: Any = super().__new__(cls)
        return made if isinstance(mode, bool) else cls()(mode)

    def __init__(self, mode: Any = True) -> None:
        super().__init__(not mode if isinstance(mode, bool) else False)

    def __enter__(self) -> None:
        self.enabled = self.enabled and is_grad_enabled()
        super().__enter__()


class set_grad_enabled(_Switch):
    """Switch gradient recording on or off from now on, or inside a `with` block only."""

    def __init__(self, mode: bool) -> None:
        super().__init__(bool(mode))
        self._now: Mode = enter(_changed(bool(mode)))

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        leave(self._now)

    def __call__(self, function: Callable[..., Any]) -> Any:
        leave(self._now)
        return super().__call__(function)


def _changed(enabled: bool) -> Mode:
    return mode().changed("grad", enabled)


def is_grad_enabled() -> bool:
    """Whether gradients are recorded here."""
    return mode().grad


def is_inference_mode_enabled() -> bool:
    """Whether gradients are off: tensors of `inference_mode` are like any others, so the two are the same."""
    return not mode().grad
