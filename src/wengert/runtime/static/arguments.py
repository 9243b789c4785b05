"""What a compiled function was called with: its arguments' leaves, and the key under which recordings are kept.

Tensors, NumPy arrays and Python floats are inputs: only their shape, dtype and whether they are tracked count. Every
other leaf is static, part of the key by its type and value, or by identity where its type does not say what is equal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from wengert.core import tree
from wengert.core.code import is_library
from wengert.core.dtypes import as_dtype
from wengert.core.errors import ArgumentError
from wengert.core.graph import RELEASED, recording
from wengert.tensor import Tensor

TENSOR, ARRAY, FLOAT, STATIC, OBJECT, SAME = "tensor", "array", "float", "static", "object", "same"
Specification = tuple[Any, ...]  # one of the words above, and what counts of the leaf
_FLOAT = (FLOAT,)
_structures: dict[int, tree.Structure] = {}  # of so many positional arguments, all of them leaves


class CallArguments(NamedTuple):
    """The arguments of one call, taken apart."""

    args: tuple[Any, ...]
    leaves: list[Any]
    key: tuple[Any, ...]  # the structure, the leaves' specifications, whether gradients are recorded, object, autocast

    @property
    def specifications(self) -> tuple[Specification, ...]:
        """What counts of each leaf."""
        found: tuple[Specification, ...] = self.key[1]
        return found


def take_apart(instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallArguments | None:
    """The arguments of a call; None if one of them is tracked and computed, so that the call is part of a graph."""
    leaves, structure = _flat(args) if not kwargs and tree.are_leaves(args) else tree.flatten((args, kwargs))
    specifications: list[Specification] = []
    first: dict[int, int] = {}
    for i, leaf in enumerate(leaves):
        kind = type(leaf)
        if kind is Tensor or isinstance(leaf, Tensor):
            if first.setdefault(id(leaf), i) != i:
                specifications.append((SAME, first[id(leaf)]))
                continue
            node = leaf.node
            if not node.tracked:
                specifications.append((TENSOR, node.shape, node.dtype, False, None, node.device))
            elif leaf.is_leaf:
                grad = None if leaf._grad is None else (leaf._grad.shape, leaf._grad.dtype)
                specifications.append((TENSOR, node.shape, node.dtype, True, grad, node.device))
            elif recording.grad and node.sources is not RELEASED:
                return None
            else:
                specifications.append((TENSOR, node.shape, node.dtype, False, None, node.device))
        elif kind is float:
            specifications.append(_FLOAT)
        elif kind is np.ndarray or isinstance(leaf, (np.ndarray, np.generic)):
            specifications.append((ARRAY, leaf.shape, as_dtype(leaf.dtype)))
        else:
            specifications.append(_static(leaf))
    owner = None if instance is None else id(instance)
    return CallArguments(args, leaves, (structure, tuple(specifications), recording.grad, owner, recording.autocast))


def _flat(args: tuple[Any, ...]) -> tuple[list[Any], tree.Structure]:
    """Positional arguments that are leaves: quicker than taking them apart."""
    count = len(args)
    structure = _structures.get(count)
    if structure is None:
        structure = _structures[count] = tree.flatten((args, {}))[1]
    return list(args), structure


def is_compared_by_identity(kind: type) -> bool:
    """Whether objects of a class are equal only to themselves."""
    own: Any = kind.__eq__
    if own is object.__eq__:
        return True
    code = getattr(own, "__code__", None)
    return code is not None and code.co_filename != "<string>" and not is_library(code)  # a user's word for equal


def _static(leaf: Any) -> Specification:
    kind = type(leaf)
    if is_compared_by_identity(kind):
        return OBJECT, kind, id(leaf)
    try:
        hash(leaf)
    except TypeError:
        raise ArgumentError(
            f"compile: an argument of type {kind.__name__} is neither a tensor nor hashable, so calls cannot be told "
            "apart by it; pass its parts, or make it hashable"
        ) from None
    return STATIC, kind, leaf
