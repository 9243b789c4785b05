"""What a compiled function was called with: its arguments' leaves, and the key under which recordings are kept.

Tensors, NumPy arrays and Python floats are inputs: only their shape, dtype and whether they are tracked count. Every
other leaf is static, part of the key by its type and value, or by identity where its type does not say what is equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core import tree
from wengert.core.dtypes import FLOATING, as_dtype, default_float, float64
from wengert.core.errors import ArgumentError
from wengert.core.graph import RELEASED, recording
from wengert.tensor import Tensor

TENSOR, ARRAY, FLOAT, STATIC, OBJECT, SAME = "tensor", "array", "float", "static", "object", "same"
Specification = tuple[Any, ...]  # one of the words above, and what counts of the leaf
_FLOAT = (FLOAT,)
_structures: dict[int, tree.Structure] = {}  # of so many positional arguments, all of them leaves


class Call(NamedTuple):
    """The arguments of one call, taken apart."""

    args: tuple[Any, ...]
    leaves: list[Any]
    key: tuple[Any, ...]  # the structure, the leaves' specifications, whether gradients are recorded, object, autocast

    @property
    def specifications(self) -> tuple[Specification, ...]:
        """What counts of each leaf."""
        found: tuple[Specification, ...] = self.key[1]
        return found


def take_apart(instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
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
                specifications.append((TENSOR, node.shape, node.dtype, True, _type_of_grad(leaf), node.device))
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
    return Call(args, leaves, (structure, tuple(specifications), recording.grad, owner, recording.autocast))


def _flat(args: tuple[Any, ...]) -> tuple[list[Any], tree.Structure]:
    """Positional arguments that are leaves: quicker than taking them apart."""
    count = len(args)
    structure = _structures.get(count)
    if structure is None:
        structure = _structures[count] = tree.flatten((args, {}))[1]
    return list(args), structure


def _type_of_grad(leaf: Tensor) -> Any:
    return None if leaf._grad is None else (leaf._grad.shape, leaf._grad.dtype)


def is_compared_by_identity(kind: type) -> bool:
    """Whether objects of a class are equal only to themselves."""
    own: Any = kind.__eq__
    return own is object.__eq__


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


def float_dtype(specifications: Sequence[Specification]) -> np.dtype[Any]:
    """The dtype of the floats among the arguments: float64 beside floating tensors that are all float64."""
    floating = {s[2] for s in specifications if s[0] in (TENSOR, ARRAY) and s[2] in FLOATING}
    return float64 if floating == {float64} else default_float


# --- in words -------------------------------------------------------------------------------------------------------


def change(before: tuple[Any, ...], after: tuple[Any, ...]) -> str:
    """In what two keys differ, in words."""
    if before[0] != after[0]:
        return f"the arguments have the structure {after[0]}, before {before[0]}"
    for name, old, new in zip(names(after[0]), before[1], after[1]):
        if old != new:
            return f"{name} {_change_of_one(old, new)}"
    if before[2] != after[2]:
        return f"gradients are {'' if after[2] else 'not '}recorded, before they were {'' if before[2] else 'not '}"
    if before[3] != after[3]:
        return "it is the method of another object"
    return f"autocast is {after[4] or 'off'}, before {before[4] or 'off'}"


def _change_of_one(old: Specification, new: Specification) -> str:
    if old[0] == new[0] and old[0] in (TENSOR, ARRAY):
        if old[1] != new[1]:
            return f"has shape {new[1]}, before {old[1]}"
        if old[2] != new[2]:
            return f"has dtype {new[2]}, before {old[2]}"
        if old[0] == TENSOR and old[5] != new[5]:
            return f"is on {new[5]}, before on {old[5]}"
        if old[3] != new[3]:
            return f"{'requires' if new[3] else 'does not require'} grad, before it did{' not' if new[3] else ''}"
        return f"has {'no ' if new[4] is None else 'a '}grad, before it had {'none' if old[4] is None else 'one'}"
    return f"is {_words(new)}, before {_words(old)}"


def _words(specification: Specification) -> str:
    kind = specification[0]
    if kind == STATIC:
        return repr(specification[2])
    if kind == OBJECT:
        return f"this {specification[1].__name__}"
    if kind == SAME:
        return "the same tensor as another argument"
    return "a float" if kind == FLOAT else f"a {kind} of shape {specification[1]} and dtype {specification[2]}"


def names(structure: tree.Structure) -> list[str]:
    """What to call each leaf: `argument 0`, `argument x`, `argument 1['weights'][0]`."""
    return [f"argument {path}" for part in structure.parts for path in _paths(part, top=True)]


def _paths(structure: tree.Structure, top: bool = False) -> Iterator[str]:
    if structure.type is tree.Leaf:
        yield ""
        return
    for key, part in zip(structure.keys or range(len(structure.parts)), structure.parts):
        step = str(key) if top else f"[{key!r}]"
        for rest in _paths(part):
            yield step + rest
