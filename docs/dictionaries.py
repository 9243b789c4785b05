"""The dictionaries of names: PyTorch's, NumPy's and JAX's spellings beside Wengert's, as tables for pages.

Comes in: the hints that errors give (`wengert/api/spellings.py`). Goes out: Markdown tables, so that a page can never
say something else than an error does.
"""

from __future__ import annotations

import importlib
import types
from typing import Any

import numpy as np

import wengert as wg
import wengert.torch as torch
from wengert.api.spellings import MODULE_SPELLINGS, TENSOR_SPELLINGS

# What has the same name and the same meaning in JAX (`jax.grad`, `jax.lax.scan`).
_SAME_IN_JAX = [
    "grad",
    "value_and_grad",
    "vjp",
    "jvp",
    "vmap",
    "jacfwd",
    "jacrev",
    "hessian",
    "linearize",
    "linear_transpose",
    "checkpoint",
    "custom_jvp",
    "custom_vjp",
    "lax.associative_scan",
    "lax.cond",
    "lax.while_loop",
    "lax.scan",
]


def methods_table() -> str:
    """What PyTorch's methods and attributes of a Tensor are here."""
    rows = [
        (f"`x.{name}`", _code(spelling), "the same" if hasattr(torch.Tensor, name) else "-")
        for name, spelling in TENSOR_SPELLINGS.items()
    ]
    return _table(("PyTorch, NumPy, JAX", "`wg`", "`wg.torch`"), rows)


def functions_table() -> str:
    """What PyTorch's functions and modules are here."""
    rows = [
        (f"`torch.{name}`", _code(spelling), "the same" if _has(torch, name) else "-")
        for name, spelling in MODULE_SPELLINGS.items()
        if _has(torch, name) or not (name.startswith("random.") or hasattr(np, name))
    ]
    return _table(("PyTorch", "`wg`", "`wg.torch`"), rows)


def jax_table() -> str:
    """What JAX's transforms, and JAX's and NumPy's functions, are here."""
    rows = [(f"`jax.{name}`", f"`wg.{name.removeprefix('lax.')}`") for name in _SAME_IN_JAX]
    assert all(hasattr(wg, name.removeprefix("lax.")) for name in _SAME_IN_JAX)
    rows += [("`jax.jit`", _code(MODULE_SPELLINGS["jit"]))]
    rows += [
        (f"`jax.random.{name[7:]}`" if name in _JAX_RANDOM else f"`np.{name}`", _code(spelling))
        for name, spelling in MODULE_SPELLINGS.items()
        if name.startswith("random.")
    ]
    rows += [
        (f"`jnp.{name}`, `np.{name}`", _code(spelling))
        for name, spelling in MODULE_SPELLINGS.items()
        if "." not in name and hasattr(np, name) and not isinstance(getattr(np, name), types.ModuleType)
    ]
    rows += [("`x.block_until_ready()`", _code(TENSOR_SPELLINGS["block_until_ready"]))]
    rows += [("`x.at[i].set(value)`", _code(TENSOR_SPELLINGS["at"]))]
    return _table(("JAX, NumPy", "`wg`"), rows)


_JAX_RANDOM = {"random.PRNGKey", "random.key", "random.split"}
_TORCH_MODULES = [
    "torch",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.utils",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.autograd",
    "torch.func",
    "torch.linalg",
    "torch.fft",
    "torch.special",
    "torch.distributions",
    "torch.utils.data",
    "torch.amp",
    "torch.cuda",
    "torch.distributed",
]


def torch_names() -> str:
    """The names that `wengert.torch` has, module by module."""
    parts = []
    for name in _TORCH_MODULES:
        module = importlib.import_module(f"wengert.{name}")
        names = sorted(_public(module), key=str.lower)
        parts.append(f"## {name}\n\n{len(names)} names: " + ", ".join(f"`{each}`" for each in names))
    methods = sorted(name for name in dir(torch.Tensor) if not name.startswith("_"))
    parts.append(f"## torch.Tensor\n\n{len(methods)} methods: " + ", ".join(f"`{each}`" for each in methods))
    return "\n\n".join(parts)


def _public(module: Any) -> list[str]:
    return [
        name
        for name in getattr(module, "__all__", None) or dir(module)
        if not name.startswith("_") and name != "annotations" and not _is_internal(getattr(module, name, None))
    ]


def _is_internal(value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        return True
    return getattr(value, "__module__", None) in ("typing", "collections.abc", "importlib", "__future__")


def _has(module: Any, dotted: str) -> bool:
    for name in dotted.split("."):
        try:
            module = (
                getattr(module, name) if hasattr(module, name) else importlib.import_module(f"{module.__name__}.{name}")
            )
        except (ImportError, AttributeError):
            return False
    return True


def _code(spelling: str) -> str:
    """The spelling as code, and what is said after a colon or a comma as text."""
    if spelling.startswith("nothing"):
        return spelling
    code, separator, said = spelling.partition(": ")
    if separator:
        return f"`{code}`: {said}"
    return (
        f"`{spelling}`" if " to read it" not in spelling and " for " not in spelling else spelling.replace("|", "\\|")
    )


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(cell.replace("\n", " ") for cell in row) + " |" for row in rows)])
