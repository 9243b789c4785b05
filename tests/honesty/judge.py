"""Verdicts: what the compiled form of a case's function does when something outside changes.

    follows     it gives what the plain function gives, before and after the change
    refuses     it raises an error of Wengert's that names the thing, on the user's line
    said        it leaves out an effect, with a warning that names it
    frozen      it gives what it gave before, as `wg.static` asks for
    runs        a correct program, with nothing that changes: equal to plain, recorded once
    stale       another number than the plain function, or an effect that is lost, without a word
    vague       it raises an error of Wengert's that does not name the thing or the line
    raw         it raises something else, where the plain function does not
    rerecords   right, but it is recorded again although nothing changed
    vacuous     the plain function does not notice the change: a mistake in the case

Two worlds are made for a case, one for the plain and one for the compiled function, and both are called in the same
order, so that state which moves from call to call (an iterator, an optimizer) can be compared too.
"""

from __future__ import annotations

import calendar
import csv
import keyword
import locale
import logging
import os
import random
import re
import reprlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from tests.honesty.case import Case, cases
from wengert.core.code import Backward, line_number, source_line
from wengert.core.errors import WengertError

BEFORE, AFTER = 2, 4  # calls before and after the change
EFFECTS = 7  # calls before, for functions with effects: recording is repeated at calls 2 and 4 only
MANY = 1_030  # calls before, where `long`: the repeated recording is far away


class Trial(NamedTuple):
    """A case, and how many calls come before the change where that is not the usual number."""

    case: Case
    calls: int | None = None

    @property
    def id(self) -> str:
        """What the trial is called in reports."""
        return self.case.id + (f" after {self.calls} calls" if self.calls else "")


def trials() -> list[Trial]:
    """All cases, and those that are `long` once more."""
    return [Trial(case, n) for case in cases() for n in ((None, MANY) if "long" in case.options else (None,))]


class Outcome(NamedTuple):
    """The verdict of a case, and what led to it."""

    verdict: str
    detail: str = ""


class Raised(NamedTuple):
    """An exception in place of a result."""

    kind: type[BaseException]
    text: str


def judge(case: Case, calls: int | None = None, compile: Callable[..., Any] = wg.compile) -> Outcome:
    """The verdict of a case, where the function is called `calls` times before the change."""
    calls = calls or (EFFECTS if "effect" in case.body.co_names else BEFORE)
    try:
        with _kept(), _warnings():
            plain = _Run(case, None, calls)
    except Exception as error:
        return Outcome("vacuous", f"the case itself raises {error!r}")
    if plain.is_vacuous():
        return Outcome("vacuous", f"plain gives {plain.results[-AFTER - 1 :]}, effects {plain.effects}")
    with _kept(), _warnings() as said:
        compiled = _Run(case, compile, calls)
    return _compared(case, plain, compiled, [str(one.message) for one in said if one.category is not ResourceWarning])


class _Run:
    """What a function gave, call by call: results, effects, recordings."""

    def __init__(self, case: Case, wrap: Callable[..., Any] | None, calls: int) -> None:
        self.case = case
        self.calls = calls
        self.results: list[Any] = []
        self.effects: list[Any] = []  # before and after the last call
        self.recordings: list[int] = []
        self.error: Exception | None = None  # of the call that ended the run
        self._world = case.load()
        try:
            self._go(wrap, calls)
        finally:
            self._world.close()

    def _go(self, wrap: Callable[..., Any] | None, calls: int) -> None:
        world = self._world
        function = self._wrapped(wrap)
        for _ in range(calls):
            self._call(function)
        if world.change is not None and self.error is None:
            world.change()
        for i in range(AFTER):
            if world.effect is not None and i == AFTER - 1:
                if world.undo is not None:
                    world.undo()
                self._look()
            self._call(function)
        self._look()

    def _look(self) -> None:
        if self._world.effect is not None and not isinstance(self.error, WengertError):  # refused: nothing was done
            self.effects.append(self._world.effect())

    def _wrapped(self, wrap: Callable[..., Any] | None) -> Callable[..., Any]:
        if wrap is None:
            return self._world.plain
        try:
            return wrap(self._world.f)
        except Exception as error:
            self.error = error
            return self._world.f

    def _call(self, function: Callable[..., Any]) -> None:
        if isinstance(self.error, WengertError):  # refused: nothing more is asked
            return
        if self._world.each is not None and self.results:
            self._world.each()
        try:
            self.results.append(_numbers(function(*self._world.arguments)))
        except Exception as error:
            self.error = error
            self.results.append(Raised(type(error), str(error)))
        if hasattr(function, "why"):
            self.recordings.append(len(function.why()))

    def is_vacuous(self) -> bool:
        """Whether nobody would notice a function that goes on as before the change."""
        if self._world.effect is not None:
            return _equal(*self.effects)
        if "fresh" in self.case.options:
            return any(map(np.array_equal, self.results, self.results[1:]))
        if self._world.change is None:
            return any(isinstance(result, Raised) for result in self.results)
        return _equal(self.results[self.calls - 1], self.results[self.calls])


def _compared(case: Case, plain: _Run, compiled: _Run, said: list[str]) -> Outcome:
    if isinstance(compiled.error, WengertError):
        return _refusal(case, compiled.error)
    if compiled.error is not None and plain.error is None:
        return Outcome("raw", f"{type(compiled.error).__name__}: {compiled.error}")
    if "fresh" in case.options:
        repeated = any(map(np.array_equal, compiled.results, compiled.results[1:]))
        return Outcome("stale", "the same twice") if repeated else Outcome("follows")
    for i, (expected, result) in enumerate(zip(plain.results, compiled.results)):
        if not _equal(expected, result):
            if "frozen" in case.expected and _is_frozen(plain, compiled):
                return Outcome("frozen")
            return Outcome("stale", f"call {i + 1} gives {_short(result)}, plain {_short(expected)}")
    if plain.effects and not _equal(plain.effects[-1], compiled.effects[-1]):
        named = [text for text in said if _words(text) & _words(" ".join(_own_lines(case)))]
        if "said" in case.expected and named:
            return Outcome("said", named[-1])
        return Outcome("stale", f"left {_short(compiled.effects[-1])}, plain {_short(plain.effects[-1])}")
    last = compiled.recordings
    if not plain.effects and last and (last[-1] > last[-2] or (case.is_correct and last[-1] > last[1])):
        return Outcome("rerecords", f"recordings by call: {last[-6:]}")
    return Outcome("runs" if case.is_correct else "follows")


def _is_frozen(plain: _Run, compiled: _Run) -> bool:
    """Whether all results are those of before the change."""
    return all(_equal(result, plain.results[0]) for result in compiled.results)


# --- refusals -------------------------------------------------------------------------------------------------------


def _refusal(case: Case, error: WengertError) -> Outcome:
    """Whether an error of Wengert's names the thing, on a line of the case."""
    location = error.location
    while isinstance(location, Backward):
        location = location.forward
    first = error.message.splitlines()[0]
    if "args" in case.body.co_names and location is not None and location[0].co_filename == __file__:
        # About an argument, on the line that calls the function.
        named = _words(" ".join(_own_lines(case))) & _words(error.message) - {"argument", "arguments", "args"}
        return Outcome("refuses" if named else "vague", first)
    if location is None or location[0].co_filename != str(case.path) or line_number(location) not in case.lines:
        return Outcome("vague", f"not on a line of the user's: {first}")
    if not _words(source_line(location)) & _words(error.message):
        return Outcome("vague", f"names nothing of the line: {first}")
    return Outcome("refuses", first)


def _own_lines(case: Case) -> list[str]:
    lines = case.path.read_text().splitlines()
    return [lines[i - 1] for i in case.lines]


def _words(text: str) -> set[str]:
    """The names in a piece of code or of prose."""
    common = {"a", "an", "as", "f", "x", "the", "of", "to", "self", "wg"}
    return {word for word in re.findall(r"[A-Za-z_]\w*", text) if not keyword.iskeyword(word)} - common


# --- results --------------------------------------------------------------------------------------------------------


def _numbers(value: Any) -> Any:
    """A result as something that stays what it is."""
    if isinstance(value, wg.Tensor):
        return value.detach().numpy().copy()
    if isinstance(value, (list, tuple)):
        return [_numbers(item) for item in value]
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    return value


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Raised) or isinstance(b, Raised):
        return type(a) is type(b) and a.kind is b.kind
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, (int, float, np.ndarray, np.generic)) and isinstance(b, (int, float, np.ndarray, np.generic)):
        return np.shape(a) == np.shape(b) and np.allclose(a, b, rtol=1e-6, atol=1e-12, equal_nan=True)
    return type(a) is type(b) and a == b


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) < 60 else f"{text[:57]}..."


@contextmanager
def _warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Inside, warnings are kept in a list, every one of them."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield said


@contextmanager
def _kept() -> Iterator[None]:
    """Inside, the state of the process may be changed."""
    environment, folder, arguments = dict(os.environ), os.getcwd(), list(sys.argv)
    python, numpy = random.getstate(), np.random.get_state()
    level, words, errors = logging.getLogger().level, locale.setlocale(locale.LC_ALL), np.geterr()
    thread, options = threading.current_thread().name, np.get_printoptions()
    digits, size, field = sys.get_int_max_str_digits(), np.getbufsize(), csv.field_size_limit()
    weekday, listed = calendar.firstweekday(), reprlib.aRepr.maxlist
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(folder)
        sys.argv[:] = arguments
        random.setstate(python)
        np.random.set_state(numpy)
        logging.getLogger().setLevel(level)
        locale.setlocale(locale.LC_ALL, words)
        np.seterr(**errors)
        np.set_printoptions(**options)
        sys.set_int_max_str_digits(digits)
        np.setbufsize(size)
        csv.field_size_limit(field)
        calendar.setfirstweekday(weekday)
        reprlib.aRepr.maxlist = listed
        threading.current_thread().name = thread
