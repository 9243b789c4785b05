"""Indexing."""

from __future__ import annotations

from typing import Any

from wengert.graph import Node
from wengert.ops.movement import reshape, slice_axis


def get_item(x: Node, key: Any) -> Node:
    """x[key]"""
    i = key
    return reshape(slice_axis(x, 0, i, i + 1), x.shape[1:])


def set_item(x: Node, key: Any, value: Any) -> Node:
    """x with x[key] = value"""
    return x
