"""Has einops know this package's tensors, whichever of the two is imported first.

einops asks its backends in turn, each of which says by a name in `sys.modules` whether its framework is there. Here a
backend joins them when einops is imported. Under `wengert torch`, where `torch` is this package, einops' own serves.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from types import ModuleType
from typing import Any

_BACKENDS = "einops._backends"


def _add_backend(backends: Any) -> None:
    """Enter the backend: einops' own for PyTorch over this package."""

    class WengertBackend(backends.TorchBackend):
        framework_name = "wengert.torch"

        def __init__(self) -> None:
            self.torch = sys.modules["wengert.torch"]

    backends.WengertBackend = WengertBackend  # einops finds the subclasses that are alive


class _Loader(importlib.abc.Loader):
    """Runs a module as it is loaded anyway, and adds the backend then."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def create_module(self, spec: Any) -> ModuleType | None:
        made: ModuleType | None = self._real.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._real.exec_module(module)
        _add_backend(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


class _Finder(importlib.abc.MetaPathFinder):
    """Waits for einops, once."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != _BACKENDS:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install() -> None:
    """Add the backend now, or as soon as einops is imported."""
    if _BACKENDS in sys.modules:
        _add_backend(sys.modules[_BACKENDS])
    else:
        sys.meta_path.insert(0, _Finder())
