"""Choices: which candidates won when they were timed, kept in a file for every kind of GPU.

A choice stands for a GPU, the versions of the libraries and our kernels' text; where one of them has changed, the file
is ignored with a warning until candidates are timed again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import re
import tempfile
import warnings
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from wengert.backends.cpu.toolchain import cache_folder
from wengert.backends.cuda import blas, dnn
from wengert.backends.cuda.compile import headers
from wengert.backends.protocol import Driver
from wengert.plan.plan import Choice


class Choices:
    """The choices for one GPU, by what was to be carried out."""

    def __init__(self, device: str) -> None:
        self.device = device  # the GPU's name
        self.path = cache_folder() / ("tuned-" + re.sub(r"\W+", "-", device) + ".json")
        self.found = self._read()

    @functools.cached_property
    def machine(self) -> dict[str, str]:
        """What the times depend on."""
        kernels = hashlib.sha256("".join(headers().values()).encode()).hexdigest()[:12]
        found = {"device": self.device, "kernels": kernels}
        if (products := blas.library()) is not None:
            found["cuBLASLt"] = str(products.version)
        if dnn.library() is not None:
            found["cuDNN"] = str(dnn.library().backend_version())
        return found

    def __bool__(self) -> bool:
        return bool(self.found)

    def get(self, key: str) -> Choice | None:
        """The choice for this, if candidates were timed."""
        return self.found.get(key)

    def winners(self) -> dict[str, str]:
        """The names of those that won."""
        return {key: choice.winner for key, choice in self.found.items()}

    def drop(self, key: str, choice: Choice) -> None:
        """Forget a choice that cannot be carried out."""
        warnings.warn(f"{choice.winner} is no candidate any more for {key}: the first one is taken", stacklevel=2)
        del self.found[key]

    def keep(self, new: Mapping[str, Choice]) -> None:
        """Note choices, here and in the file. Others that a process wrote there in the meantime stay."""
        self.found.update(new)
        together = {**self._read(), **new}
        text = json.dumps({"machine": self.machine, "choices": {k: c._asdict() for k, c in together.items()}}, indent=1)
        handle, name = tempfile.mkstemp(dir=self.path.parent)
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(name, self.path)

    def replace(self, choices: Mapping[str, str]) -> None:
        """Take these winners and no others, in this process."""
        self.found = {key: Choice(winner, 0.0, winner, 0.0, 0) for key, winner in choices.items()}

    def _read(self) -> dict[str, Choice]:
        """What the file has for this machine; nothing, with a warning, if it cannot be used."""
        if not self.path.exists():
            return {}
        try:
            stored = json.loads(self.path.read_text())
            machine = dict(stored["machine"])
            found = {str(key): _checked(fields) for key, fields in stored["choices"].items()}
        except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
            warnings.warn(f"{self.path} is no file of tuned choices ({error!r}), and is ignored", stacklevel=2)
            return {}
        changed = [f"{k} {machine.get(k)} then, {v} now" for k, v in self.machine.items() if machine.get(k) != v]
        if changed:
            warnings.warn(f"{self.path} is ignored, tune again: {', '.join(changed)}", stacklevel=2)
        return {} if changed else found


def _checked(fields: Any) -> Choice:
    choice = Choice(**fields)
    if not (isinstance(choice.winner, str) and isinstance(choice.first, str)):
        raise TypeError("a candidate is named by a string")
    return choice._replace(seconds=float(choice.seconds), first_seconds=float(choice.first_seconds))


_loaded: WeakKeyDictionary[Any, Choices] = WeakKeyDictionary()


def choices_of(driver: Driver) -> Choices:
    """The choices for a driver's GPU, read from the file once."""
    found = _loaded.get(driver)
    if found is None:
        found = _loaded[driver] = Choices(driver.name)
    return found
