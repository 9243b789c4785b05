"""Modules whose initial values do not matter because others are loaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import wengert as wg
from wengert.nn.module import Module

M = TypeVar("M", bound=Module)


def skip_init(module_cls: Callable[..., M], *args: Any, **kwargs: Any) -> M:
    """A module of this class with its parameters and buffers left as zeros; its initialisation is skipped.

    >>> import wengert as wg
    >>> wg.nn.utils.skip_init(wg.nn.Linear, 2, 1).weight.tolist()
    [[0.0, 0.0]]
    """
    module = module_cls(*args, **kwargs)
    if not isinstance(module, Module):
        raise wg.errors.DTypeError(f"skip_init takes a class of modules, not {module_cls!r}")
    with wg.no_grad():
        for slot in module.parameters():
            slot.assign(wg.zeros(slot.shape, dtype=slot.dtype, device=slot.device))
    return module
