"""Nested containers: dicts, lists, tuples, named tuples and dataclasses of values, flattened and rebuilt.

`flatten` gives the leaves in order and the structure; `unflatten` is its inverse. None is an empty container. A
field of a dataclass with `metadata={"static": True}` is a part of the structure.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from wengert.core import code
from wengert.core.errors import ArgumentError


class Structure(NamedTuple):
    """A nested container's structure: its type, the names of its parts, and the parts' structures. A leaf has type
    Leaf.

    >>> import wengert as wg
    >>> leaves, structure = wg.tree.flatten({"a": 1, "b": [2, 3]})
    >>> isinstance(structure, wg.tree.Structure)
    True
    """

    type: type
    keys: tuple[Any, ...]
    parts: tuple[Structure, ...]

    def __str__(self) -> str:
        if self.type is Leaf:
            return "*"
        inner = ", ".join(f"{key}: {part}" if self.keys else str(part) for key, part in zip(self._labels(), self.parts))
        return f"{self.type.__name__}({inner})"

    @property
    def is_flat(self) -> bool:
        """Whether all parts are leaves."""
        return all(part.type is Leaf for part in self.parts)

    def _labels(self) -> Iterable[Any]:
        return self.keys or range(len(self.parts))


class Leaf:
    """Marks a leaf in a Structure.

    >>> import wengert as wg
    >>> leaves, structure = wg.tree.flatten(5)
    >>> isinstance(structure, wg.tree.Leaf)
    False
    """


class Attributed:
    """Marks a container with additional attributes in a Structure: the first part is the container without them."""


LEAF = Structure(Leaf, (), ())
NONE = Structure(type(None), (), ())
_leaf_types: set[type] = set()  # types seen to be no containers: asking what a dataclass is takes its time
_MANY_TYPES = 1000
_PLAIN = (tuple, list, dict)


def flatten(tree: Any, attributes: bool = False) -> tuple[list[Any], Structure]:
    """The leaves of a nested container, in order, and its structure.

    With `attributes`, additional attributes of an object whose class derives from a container are parts too.

    >>> flatten({"b": 1, "a": (2, [3])})[0]
    [1, 2, 3]
    """
    leaves: list[Any] = []
    return leaves, _take_apart(tree, leaves, attributes)


def are_leaves(values: Iterable[Any]) -> bool:
    """Whether all values are of types known not to be containers.

    >>> import wengert as wg
    >>> leaves, structure = wg.tree.flatten([1, 2.0])  # sees both types
    >>> wg.tree.are_leaves([1, 2.0]), wg.tree.are_leaves([[1]])
    (True, False)
    """
    return _leaf_types.issuperset([type(value) for value in values])


def _take_apart(tree: Any, leaves: list[Any], attributes: bool = False) -> Structure:
    kind = type(tree)
    if kind in _leaf_types:
        leaves.append(tree)
        return LEAF
    if tree is None:
        return NONE
    own = _attributes(tree) if attributes and kind not in _PLAIN else {}
    whole = _container(tree, leaves, attributes)
    if own and whole is not None:
        parts = [whole, *[_take_apart(value, leaves, True) for value in own.values()]]
        return _structure(Attributed, ("", *own), tuple(parts))
    if whole is not None:
        return whole
    if len(_leaf_types) < _MANY_TYPES:
        _leaf_types.add(kind)
    leaves.append(tree)
    return LEAF


def _container(tree: Any, leaves: list[Any], attributes: bool) -> Structure | None:
    """The structure of a container, with its leaves appended to `leaves`; None if the value is not a container."""
    kind = type(tree)
    if isinstance(tree, dict):
        return _structure(kind, tuple(tree), tuple([_take_apart(value, leaves, attributes) for value in tree.values()]))
    if isinstance(tree, (list, tuple)):
        return _structure(kind, (), tuple([_take_apart(value, leaves, attributes) for value in tree]))
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        fields = dataclasses.fields(tree)
        names = [field.name for field in fields if not field.metadata.get("static")]
        fixed = [(field.name, getattr(tree, field.name)) for field in fields if field.metadata.get("static")]
        parts = tuple([_take_apart(getattr(tree, name), leaves, attributes) for name in names])
        return _structure(kind, (*names, *fixed), parts)
    return None


def _attributes(tree: Any) -> dict[str, Any]:
    """What a container stores besides its items or fields; empty if there is nothing else."""
    is_dataclass = dataclasses.is_dataclass(tree)
    if isinstance(tree, type) or not (is_dataclass or isinstance(tree, (dict, list, tuple))):
        return {}
    fields = {field.name for field in dataclasses.fields(tree)} if is_dataclass else set()
    namespace = getattr(tree, "__dict__", None)
    own = {} if type(namespace) is not dict else {n: value for n, value in namespace.items() if n not in fields}
    return {"default_factory": tree.default_factory, **own} if isinstance(tree, defaultdict) else own


def _structure(*fields: Any) -> Structure:
    return tuple.__new__(Structure, fields)  # half the time of calling the named tuple, at every compiled call


def unflatten(structure: Structure, leaves: Iterable[Any]) -> Any:
    """The nested container with this structure and these leaves.

    >>> import wengert as wg
    >>> leaves, structure = wg.tree.flatten({"a": 1, "b": [2, 3]})
    >>> wg.tree.unflatten(structure, [10, 20, 30])
    {'a': 10, 'b': [20, 30]}
    """
    return _put_together(structure, iter(leaves))


def _put_together(structure: Structure, leaves: Any) -> Any:
    kind = structure.type
    if kind is Leaf:
        return next(leaves)
    if kind is type(None):
        return None
    parts = [_put_together(part, leaves) for part in structure.parts]
    if kind is Attributed:
        for name, value in zip(structure.keys[1:], parts[1:]):
            object.__setattr__(parts[0], name, value)
        return parts[0]
    if issubclass(kind, dict):
        pairs = zip(structure.keys, parts)
        return kind(None, pairs) if issubclass(kind, defaultdict) else kind(pairs)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return kind(*parts)
    if issubclass(kind, (list, tuple)):
        return kind(parts)
    fixed = dict(structure.keys[len(parts) :])
    return _dataclass(kind, {**dict(zip(structure.keys, parts)), **fixed})


def builder(structure: Structure) -> Callable[[Sequence[Any]], Any]:
    """A function that rebuilds containers of one structure from their leaves: a faster `unflatten` for repeated use.

    >>> builder(flatten(("a", ["b", None, "c"]))[1])([1, 2, 3])
    (1, [2, None, 3])
    """
    text = _expression(structure, count())
    return partial(unflatten, structure) if text is None else code.function(["leaves"], text, {})


def _expression(structure: Structure, places: Iterator[int]) -> str | None:
    """A nest of tuples, lists and None as Python over `leaves`; None for other containers."""
    kind = structure.type
    if kind is Leaf:
        return f"leaves[{next(places)}]"
    parts = [_expression(part, places) for part in structure.parts]
    if kind not in (tuple, list, type(None)) or None in parts:
        return None
    inner = "".join(f"{part}, " for part in parts)
    return "None" if kind is type(None) else f"({inner})" if kind is tuple else f"[{inner}]"


def taker(structure: Structure) -> Callable[[Any], list[Any] | None]:
    """A function that flattens containers of one structure faster than `flatten`: it returns the leaves, or None for
    another structure.

    Values in place of leaves are not inspected. Containers other than tuples, lists and dicts give None.

    >>> take = taker(flatten(({"a": 1, "b": 2}, 3))[1])
    >>> take(({"a": 4, "b": 5}, 6)), take(({"a": 4}, 6))
    ([4, 5, 6], None)
    """
    keys: list[list[Any]] = []
    conditions: list[str] = []
    leaves = _taken(structure, "tree", keys, conditions)
    if leaves is None:
        return lambda tree: None
    text = f"[{leaves}] if {' and '.join(conditions) or True} else None"
    return code.function(["tree"], text, {"keys": keys})


def _taken(structure: Structure, place: str, keys: list[list[Any]], conditions: list[str]) -> str | None:
    """The leaves of the container at an expression, as Python; conditions that it is one are appended."""
    kind, parts = structure.type, structure.parts
    if kind is Leaf:
        return f"{place}, "
    if kind is type(None):
        conditions.append(f"{place} is None")
        return ""
    if kind not in (tuple, list, dict):
        return None
    conditions.append(f"type({place}) is {kind.__name__}")
    if kind is dict:
        conditions.append(f"[*{place}] == keys[{len(keys)}]")
        places = [f"{place}[keys[{len(keys)}][{i}]]" for i in range(len(parts))]
        keys.append([*structure.keys])
    else:
        conditions.append(f"len({place}) == {len(parts)}")
        places = [f"{place}[{i}]" for i in range(len(parts))]
    if structure.is_flat:
        return f"*{place}{'.values()' if kind is dict else ''}, "
    taken = [_taken(part, inner, keys, conditions) for part, inner in zip(parts, places)]
    return None if None in taken else "".join(filter(None, taken))


def _dataclass(kind: type, fields: dict[str, Any]) -> Any:
    """A dataclass with these fields, made without running its `__init__` (which may check or convert real values)."""
    instance: Any = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(instance, name, value)
    return instance


def map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """Apply `function` to the leaves of `tree` and the corresponding leaves of the others.

    >>> map(lambda a, b: a + b, {"x": 1}, {"x": 2})
    {'x': 3}
    """
    leaves, structure = flatten(tree)
    columns = [leaves]
    for other in others:
        more, same = flatten(other)
        if same != structure:
            raise ArgumentError(f"two nested containers have different structures: {structure} and {same}")
        columns.append(more)
    return unflatten(structure, [function(*row) for row in zip(*columns)])


def spread(prefix: Any, tree: Any, what: str) -> list[Any]:
    """One item of `prefix` for each leaf of `tree`: an item for a whole container is repeated within it.

    >>> import wengert as wg
    >>> wg.tree.spread([0, 1], ["a", ["b", "c"]], "axes")
    [0, 1, 1]
    """
    if isinstance(prefix, (list, tuple)) and isinstance(tree, (list, tuple)):
        if len(prefix) != len(tree):
            raise ArgumentError(f"{what} has {len(prefix)} items, but there are {len(tree)} values")
        return [item for part, values in zip(prefix, tree) for item in spread(part, values, what)]
    if isinstance(prefix, dict) and isinstance(tree, dict):
        if prefix.keys() != tree.keys():
            raise ArgumentError(f"{what} has the keys {sorted(prefix)}, but the values have {sorted(tree)}")
        return [item for key, values in tree.items() for item in spread(prefix[key], values, what)]
    return [prefix] * len(flatten(tree)[0])
