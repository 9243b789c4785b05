"""Errors for PyTorch's, NumPy's and JAX's names that are spelled differently in Wengert: they give the spelling.

They apply to a Tensor (`x.unsqueeze(0)`) or a module (`wg.cat`, `wg.nn.functional`), for names that do not exist.
"""

from __future__ import annotations

import dis
import importlib.machinery
import sys
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from wengert.api.spellings import MODULE_SPELLINGS, TENSOR_SPELLINGS
from wengert.tensor import Tensor

functions: list[str] = []
"""The names of the public functions; set by `functions`."""


def _tensor_attribute(self: Tensor, name: str) -> Any:
    if name in TENSOR_SPELLINGS:
        raise AttributeError(f"a Tensor has no {name!r}: write {TENSOR_SPELLINGS[name]}")
    if name in functions:
        raise AttributeError(f"a Tensor has no {name!r}: write wg.{name} instead, a function")
    in_place = name.removesuffix("_")
    if in_place != name and (in_place in functions or in_place in TENSOR_SPELLINGS or hasattr(Tensor, in_place)):
        raise AttributeError(f"a Tensor has no {name!r}: compute the new value and assign it, x.assign(value)")
    raise AttributeError(f"a Tensor has no attribute {name!r}{nearest(name, dir(Tensor))}")


def module_attribute(name: str, known: list[str], module: str = "wengert") -> Any:
    """Raise an error for a name that the module lacks, suggesting Wengert's spelling or the closest name.

    For `from wengert import name` it is an ImportError, since Python would replace the message of an AttributeError.
    """
    module = module.replace("wengert.api", "wengert")  # as users write it
    spelling = MODULE_SPELLINGS.get(f"{module}.{name}".removeprefix("wengert."))
    hint = f": write {spelling}{_as_torch()}" if spelling is not None else nearest(name, known)
    message = f"{module} has no {name!r}{hint}"
    frame = sys._getframe(2)  # of who asks the module
    if frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM:
        raise ImportError(message, name=module)
    raise AttributeError(message)


_IMPORT_FROM = dis.opmap["IMPORT_FROM"]


def _as_torch() -> str:
    """What to do with a whole PyTorch program, where there is the package that runs one."""
    there = importlib.machinery.PathFinder.find_spec("wengert.torch", sys.modules["wengert"].__path__)
    return "" if there is None else ". A PyTorch program runs as it is with `import wengert.torch as torch`"


def nearest(name: str, known: list[str]) -> str:
    """A name that differs by a typo; one that is merely similar would mislead."""
    found = [] if name.startswith("_") or len(name) < 4 else get_close_matches(name, known, n=1, cutoff=0.75)
    return f"; did you mean {found[0]!r}?" if found and _is_a_slip(name, found[0]) else ""


def _is_a_slip(name: str, other: str) -> bool:
    """Whether two names differ by one letter, two that changed places, or two letters of a long name."""
    if sorted(name) == sorted(other) or name.lower() == other.lower():
        return True
    if min(len(name), len(other)) < 5 and len(name) != len(other):  # "long" is no "log"
        return False
    same = sum(block.size for block in SequenceMatcher(None, name, other).get_matching_blocks())
    return max(len(name), len(other)) - same <= (1 if len(name) < 8 else 2)


class _MissingModules:
    """Asked last for a module that is imported: says how what it has in PyTorch is spelled here."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        """Raise an error for a module of Wengert's that is not there."""
        outer, _, inner = name.partition(".")
        if outer == "wengert" and inner in MODULE_SPELLINGS:
            raise ModuleNotFoundError(
                f"there is no module {name!r}: use {MODULE_SPELLINGS[inner]}{_as_torch()}", name=name
            )


sys.meta_path.append(_MissingModules)


def _set_data(self: Tensor, value: Any) -> None:
    _tensor_attribute(self, "data")


Tensor.__getattr__ = _tensor_attribute  # type: ignore[method-assign]
Tensor.data = property(lambda self: _tensor_attribute(self, "data"), _set_data)  # type: ignore[attr-defined]
