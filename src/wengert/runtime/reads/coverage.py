"""Looking over a whole recording: the functions that ran, the random states, the frames of an error.

A library may call a function of the user's that no twin has seen: one kept in an object of C, say. A profile hook finds
those that run without a twin; it is set when a recording is repeated for the first time, which is before any recording
is used twice.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CodeType, FunctionType, TracebackType
from typing import Any

from wengert.core.code import is_library
from wengert.core.errors import RecordingError
from wengert.runtime.reads.twin import is_twin

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


@contextmanager
def covering(uncovered: dict[CodeType, dict[str, Any]]) -> Iterator[None]:
    """Inside, note the code of the user's that runs without a twin, with its globals."""
    known: dict[int, CodeType] = {}

    def look(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and id(code) not in known:
            known[id(code)] = code
            if not is_library(code) and not is_twin(code) and not code.co_name.startswith("<module"):
                uncovered[code] = frame.f_globals

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None)


def functions_of(uncovered: Iterable[CodeType]) -> list[FunctionType]:
    """The functions that some code objects belong to."""
    codes = list(uncovered)
    holders = gc.get_referrers(*codes) if codes else []
    return [one for one in holders if type(one) is FunctionType and any(one.__code__ is code for code in codes)]


@contextmanager
def steady_random(name: str) -> Iterator[None]:
    """Raise, and put it back, where Python's or NumPy's global random state is moved inside."""
    before = _states()
    try:
        yield
    finally:
        moved = [module for module, state, is_same, put in before if not is_same(state)]
        for _, state, is_same, put in before:
            if not is_same(state):
                put(state)
    if moved:
        raise RecordingError(
            f"compile: {name} moves the state of {moved[0]}, which would happen only while it is recorded. Draw by "
            "wg.random, or outside, and give the numbers as an argument"
        )


def _states() -> list[tuple[str, Any, Any, Any]]:
    found: list[tuple[str, Any, Any, Any]] = []
    python: Any = sys.modules.get("random")
    if python is not None:
        found.append(("random", python.getstate(), lambda state: python.getstate() == state, python.setstate))
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is not None:
        found.append(("np.random", _numpy(numpy), lambda state: _numpy(numpy) == state, _put_numpy))
    return found


def _numpy(module: Any) -> tuple[Any, ...]:
    kind, keys, *rest = module.get_state()
    return (kind, keys.tobytes(), *rest)


def _put_numpy(state: tuple[Any, ...]) -> None:
    import numpy as np

    kind, keys, *rest = state
    np.random.set_state((kind, np.frombuffer(keys, np.uint32), *rest))


def without_hooks(traceback: TracebackType | None) -> TracebackType | None:
    """The frames of an error but for those of this package, which stand between the user's."""
    kept = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_HERE):
            kept.append(traceback)
        traceback = traceback.tb_next
    for one, following in zip(kept, [*kept[1:], None]):
        one.tb_next = following
    return kept[0] if kept else None
