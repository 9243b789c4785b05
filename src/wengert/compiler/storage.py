"""Storage: in whose memory a value lies."""

from __future__ import annotations

from wengert.core.graph import Node


def storage(node: Node) -> Node:
    """The node in whose memory a value lies: a reshape lies where its source does, and so does a value read again."""
    while node.op.aliases:
        node = node.sources[0]
    return node
