"""Gathered: the nodes for which `partition` gathers distributed values, and why, for reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wengert.compiler.states import Sharded
from wengert.core.graph import Node
from wengert.core.mesh import Group


class Gathered(NamedTuple):
    """A node whose distributed sources are gathered, the bytes that a rank sends for it, and the reason."""

    node: Node
    moved: int
    why: str


def reason(node: Node, source: int, held: Sequence[Sharded], is_possible: bool, group: Group) -> str:
    """Why a distributed source is gathered; `is_possible` says whether the node could have been cut instead."""
    axes = " and ".join(dict.fromkeys(f"axis {state.axis}" for state in held))
    why = "cutting it in another way moves more" if is_possible else "it cannot be cut along any axis of that operand"
    return f"its operand {source} of shape {node.sources[source].shape} is cut along {axes} over {group}, and {why}"
