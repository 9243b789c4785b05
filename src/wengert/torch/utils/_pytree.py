"""`torch.utils._pytree`: nested containers as their leaves and a description; None is a leaf, as in PyTorch."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from wengert.torch.missing import missing_attribute as _missing_attribute

PyTree = Any


class NodeDef(NamedTuple):
    """How a container is taken apart and put together: children and a context, and back."""

    flatten: Callable[[Any], tuple[list[Any], Any]]
    unflatten: Callable[[Iterable[Any], Any], Any]


@dataclass(frozen=True)
class MappingKey:
    """An item of a mapping, as a step of a path to a leaf."""

    key: Any


@dataclass(frozen=True)
class SequenceKey:
    """An item of a sequence, as a step of a path to a leaf."""

    idx: int


Context = Any


def _dict_flatten(value: Any) -> tuple[list[Any], Any]:
    return list(value.values()), list(value)


def _dict_flatten_with_keys(value: Any) -> tuple[list[tuple[MappingKey, Any]], Any]:
    return [(MappingKey(key), item) for key, item in value.items()], list(value)


def _dict_unflatten(parts: Iterable[Any], keys: Any) -> dict[Any, Any]:
    return dict(zip(keys, parts))


SUPPORTED_NODES: dict[type, NodeDef] = {
    list: NodeDef(lambda x: (list(x), None), lambda parts, _: list(parts)),
    tuple: NodeDef(lambda x: (list(x), None), lambda parts, _: tuple(parts)),
    dict: NodeDef(_dict_flatten, _dict_unflatten),
    OrderedDict: NodeDef(_dict_flatten, lambda parts, keys: OrderedDict(zip(keys, parts))),
    defaultdict: NodeDef(
        lambda x: (list(x.values()), (x.default_factory, list(x))),
        lambda parts, known: defaultdict(known[0], zip(known[1], parts)),
    ),
    deque: NodeDef(lambda x: (list(x), x.maxlen), lambda parts, maxlen: deque(parts, maxlen)),
}
_NAMED = NodeDef(lambda x: (list(x), type(x)), lambda parts, kind: kind(*parts))


@dataclass
class TreeSpec:
    """The description of a tree: the type of the container, its context, and its children's; a leaf has no type."""

    type: Any
    context: Any
    children_specs: list[TreeSpec]

    @property
    def num_leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.type is None else sum(child.num_leaves for child in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether it is of a leaf."""
        return self.type is None


def LeafSpec() -> TreeSpec:
    """The description of a leaf."""
    return TreeSpec(None, None, [])


def register_pytree_node(cls: type, flatten_fn: Any, unflatten_fn: Any, **options: Any) -> None:
    """Have objects of a class taken apart by these functions."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(flatten_fn, unflatten_fn)


def _definition(kind: type) -> NodeDef | None:
    if kind not in SUPPORTED_NODES and issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _NAMED
    return SUPPORTED_NODES.get(kind)


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, in order, and the description."""
    leaves: list[Any] = []
    return leaves, _taken_apart(tree, leaves, is_leaf)


def _taken_apart(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    definition = None if is_leaf is not None and is_leaf(tree) else _definition(type(tree))
    if definition is None:
        leaves.append(tree)
        return LeafSpec()
    children, context = definition.flatten(tree)
    return TreeSpec(type(tree), context, [_taken_apart(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree with these leaves."""
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ValueError(f"tree_unflatten: {len(given)} leaves for a tree of {treespec.num_leaves}")
    return _put_together(iter(given), treespec)


def _put_together(leaves: Any, spec: TreeSpec) -> Any:
    definition = None if spec.type is None else _definition(spec.type)
    if definition is None:
        return next(leaves)
    return definition.unflatten([_put_together(leaves, child) for child in spec.children_specs], spec.context)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves."""
    return tree_flatten(tree, is_leaf)[0]


tree_iter = tree_leaves


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The description."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree of what a function gives of the leaves, and of those of other trees of its kind."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_flatten(rest, is_leaf)[0] for rest in rests]
    if any(len(other) != len(leaves) for other in others):
        raise ValueError(f"tree_map: trees of {len(leaves)} and {[len(other) for other in others]} leaves")
    return tree_unflatten([func(*each) for each in zip(leaves, *others)], spec)


def tree_map_only(kinds: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None) -> Any:
    """The tree in which leaves of some types are replaced by what a function gives of them."""
    fits = kinds if callable(kinds) and not isinstance(kinds, type) else lambda x: isinstance(x, kinds)
    return tree_map(lambda x: func(x) if fits(x) else x, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether a condition holds of all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Whether a condition holds of a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.utils._pytree", name)
