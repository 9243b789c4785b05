"""OpInfo by its own names and signatures: an entry's function is looked up in `wengert.torch`, and called as it is.

What an entry calls is `torch.<name>`, a method of Tensor, or a lambda over `torch`; a lambda is run with
`wengert.torch` in the place of `torch`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch

import wengert.torch as ours
from wengert.torch.tensor import of as tensor_of

SHAPES_ONLY = {
    *("cauchy", "exponential", "geometric", "log_normal", "normal", "uniform", "bernoulli", "multinomial"),
    *("rand_like", "randn", "randn_like", "randint", "randint_like"),
    *("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_"),
    *("resize_as_", "svd_lowrank", "pca_lowrank", "nn.functional.rrelu", "nn.functional.fractional_max_pool2d"),
    *("nn.functional.fractional_max_pool3d", "nn.functional.dropout", "nn.functional.dropout2d"),
    *("nn.functional.dropout3d", "nn.functional.alpha_dropout", "nn.functional.feature_alpha_dropout/with_train"),
    *("nn.functional.scaled_dot_product_attention", "nn.functional.multi_head_attention_forward"),
}
"""Entries with samples that draw random numbers, or leave memory as it is: their values are nobody's promise."""

VALUES_ONLY = {
    **dict.fromkeys(
        ("cholesky_inverse", "cholesky_solve"),
        "PyTorch gives elements of the factor's other triangle a gradient, though they are never looked at",
    ),
    **dict.fromkeys(
        ("nn.functional.max_unpool1d", "nn.functional.max_unpool2d", "nn.functional.max_unpool3d"),
        "some samples name a place twice: PyTorch gives the value that was written over a gradient, too",
    ),
    "as_strided_scatter": "PyTorch gives the elements that are written over a gradient, and others none",
}
"""Entries of which only the values are compared, and why."""


def draws(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether this call of the entry gives other numbers with each seed, or none that are said."""
    if not {name, name.split("/")[0]} & SHAPES_ONLY:
        return False
    if name.startswith("nn.functional.scaled_dot_product_attention"):
        return bool(kwargs.get("dropout_p"))
    if name == "nn.functional.multi_head_attention_forward":
        return bool(args[9] and kwargs.get("training", True))
    return True


def counterpart(info: Any) -> Callable[..., Any] | None:
    """The function of `wengert.torch` that has the entry's name; None if there is none."""
    if _by_path(info.name) is None and _by_path(f"Tensor.{info.name}") is None and not hasattr(info.op, "__code__"):
        return None
    called = _redirected(info.op)
    if called is not None:
        return called
    return _by_path(info.name) or _by_path(f"Tensor.{info.name}")


def _by_path(path: str) -> Any:
    found: Any = ours
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except (AttributeError, ImportError):
            return None
    return found if callable(found) or isinstance(found, property) else None


def _redirected(op: Any) -> Callable[..., Any] | None:
    """A lambda of the database over `wengert.torch`; None if it names what is not there, or is no lambda."""
    if isinstance(op, functools.partial):
        inner = _redirected(op.func)
        return None if inner is None else functools.partial(inner, *op.args, **op.keywords)
    if not isinstance(op, types.FunctionType) or not op.__module__.startswith("torch.testing"):
        return None
    space = {**op.__globals__, "torch": ours}
    return types.FunctionType(op.__code__, space, op.__name__, op.__defaults__, op.__closure__)


def is_present(info: Any) -> bool:
    """Whether everything that the entry's function is called by is there."""
    op = info.op
    if isinstance(op, types.FunctionType) and op.__module__.startswith("torch.testing"):
        names = [n for n in op.__code__.co_names if n not in ("wrapper_set_seed", "torch", "clone", "mT")]
        if not names:  # a lambda within, that calls the function by the entry's name
            return _by_path(info.name) is not None or _by_path(f"Tensor.{info.name}") is not None
        if "torch" in op.__code__.co_names:
            path = names[: names.index("ones_like")] if "ones_like" in names else names
            return "ops" not in names and _by_path(".".join(path[:3])) is not None
        return _by_path(f"Tensor.{names[-1]}") is not None
    return _by_path(info.name) is not None or _by_path(f"Tensor.{info.name}") is not None


def for_ours(leaf: Any) -> Any:
    """A leaf that is no tensor, as `wengert.torch` has it."""
    if isinstance(leaf, (torch.dtype, torch.layout, torch.memory_format)):
        return getattr(ours, str(leaf).removeprefix("torch."))
    if isinstance(leaf, torch.device):
        return ours.device(str(leaf))
    if isinstance(leaf, torch.nn.Module):
        return getattr(ours.nn, type(leaf).__name__)()
    if callable(leaf) and leaf is getattr(torch.nn.functional, getattr(leaf, "__name__", ""), None):
        return getattr(ours.nn.functional, leaf.__name__)
    return leaf


__all__ = ["VALUES_ONLY", "counterpart", "draws", "for_ours", "is_present", "tensor_of"]
