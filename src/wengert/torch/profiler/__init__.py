"""`torch.profiler`: the time and the name of what ran, through Wengert's own profiles."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute


class ProfilerActivity(Enum):
    """What to profile."""

    CPU = 0
    CUDA = 1


class ProfilerAction(Enum):
    """What to do in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, **_: Any) -> Any:
    """Choose which steps to record."""

    def action(step: int) -> ProfilerAction:
        step -= skip_first
        length = wait + warmup + active
        if step < 0 or (repeat and step // length >= repeat):
            return ProfilerAction.NONE
        place = step % length
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


class record_function:
    """A named context, or decorator, whose time the profile adds up."""

    def __init__(self, name: str, args: Any = None) -> None:
        self.name = name

    def __enter__(self) -> record_function:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *exception: Any) -> None:
        for running in _running:
            count, total = running._blocks.get(self.name, (0, 0.0))
            running._blocks[self.name] = (count + 1, total + time.perf_counter() - self._start)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def inside(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return inside


_running: list[profile] = []


class profile:
    """The time of the kernels that run inside, by name; `wg.profile` shows more."""

    def __init__(
        self,
        *,
        activities: Any = None,
        schedule: Any = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        **options: Any,
    ) -> None:
        self._on_trace_ready = on_trace_ready
        self._blocks: dict[str, tuple[int, float]] = {}
        self._profile: Any = None

    def __enter__(self) -> profile:
        import wengert as wg

        self._profile = wg.profile()
        self._profile.__enter__()
        _running.append(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        _running.remove(self)
        self._profile.__exit__(*exception)
        if self._on_trace_ready is not None:
            self._on_trace_ready(self)

    start = __enter__

    def stop(self) -> None:
        """End the profile."""
        self.__exit__(None, None, None)

    def step(self) -> None:
        """Note that a step has ended."""

    def key_averages(self, *args: Any, **kwargs: Any) -> Any:
        """The profile, as a table."""
        return self

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The table as text."""
        rows = [f"{name}: {count} calls, {total * 1e3:.3f} ms" for name, (count, total) in self._blocks.items()]
        return "\n".join([*rows, str(self._profile)])

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for Chrome's trace viewer."""
        self._profile.save(path)


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False) -> Any:
    """A handler that writes a profile to a folder, for TensorBoard."""
    import os

    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker_name or 'wengert'}.pt.trace.json"))

    return handler


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.profiler", name)
