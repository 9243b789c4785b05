"""`wengert torch script.py`: runs an unmodified PyTorch script, whose `import torch` finds `wengert.torch`.

`install` puts a finder in front of Python's: `torch` and its submodules are the modules of this package, and
`torchvision` those of `vision`. A missing name raises an error with PyTorch's full name.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import runpy
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from wengert.distributed.environment import launched

_ROOTS = {"torch": "wengert.torch", "torchvision": "wengert.torch.vision"}


_ADAPTED = {"safetensors.torch": "wengert.torch.safetensors_memory"}
"""Modules of other libraries that read the memory of tensors by its address, and who adapts them."""


class _Loader(importlib.abc.Loader):
    """Has a name stand for a module that has another one."""

    def __init__(self, real: str) -> None:
        self._real = real

    def create_module(self, spec: Any) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = import_module(self._real)


class _AdaptedLoader(importlib.abc.Loader):
    """Loads another library's module, and then has it work on the tensors of this package."""

    def __init__(self, own: Any, adapter: str) -> None:
        self._own, self._adapter = own, adapter

    def create_module(self, spec: Any) -> ModuleType | None:
        made: ModuleType | None = self._own.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._own.exec_module(module)
        import_module(self._adapter).adapt(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds PyTorch's modules in this package."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        root, _, rest = fullname.partition(".")
        if fullname in _ADAPTED:
            spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
            if spec is not None:
                spec.loader = _AdaptedLoader(spec.loader, _ADAPTED[fullname])
            return spec
        if root not in _ROOTS:
            return None
        real = f"{_ROOTS[root]}.{rest}" if rest else _ROOTS[root]
        if real not in sys.modules and _spec(real) is None:
            raise ModuleNotFoundError(f"{fullname} is not in wengert.torch", name=fullname)
        return importlib.machinery.ModuleSpec(fullname, _Loader(real), is_package=True)


def _spec(real: str) -> Any:
    try:
        return importlib.util.find_spec(real)
    except (ImportError, AttributeError, ValueError):  # below a module that is no package, or is not there
        return None


def _tell_rank() -> None:
    """Set the variables by which torchrun tells a process its rank, where another launcher started it."""
    place = launched()
    if place.launcher in ("nobody", "torchrun"):
        return
    local = place.rank if place.local_rank is None else place.local_rank
    said = {"RANK": place.rank, "WORLD_SIZE": place.size, "LOCAL_RANK": local}
    for name, value in said.items():
        os.environ.setdefault(name, str(value))


def install() -> None:
    """Make `import torch` find `wengert.torch` in this process, whose rank comes from torchrun's variables."""
    _tell_rank()
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        for name in [name for name in sys.modules if name.partition(".")[0] in _ROOTS or name in _ADAPTED]:
            del sys.modules[name]
        sys.meta_path.insert(0, _Finder())


def run(script: str, arguments: Sequence[str], is_module: bool = False, torch_random: bool = False) -> None:
    """Run a script, or a module, as the process's own program; with `torch_random` it draws PyTorch's numbers."""
    install()
    if torch_random:
        import_module("wengert.torch.torch_random").install()
    sys.argv = [script, *arguments]
    if is_module:
        sys.path.insert(0, "")
        runpy.run_module(script, run_name="__main__", alter_sys=True)
        return
    if not Path(script).is_file():
        raise FileNotFoundError(2, "there is no such script", script)
    sys.path.insert(0, str(Path(script).resolve().parent))
    runpy.run_path(script, run_name="__main__")
