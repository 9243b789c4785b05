"""Fuel: how many rewrites the passes and plan stages may still make, and which was the last one.

Halving the fuel of a miscompiled program finds the rewrite that is at fault (`runtime/debug/bisect.py`). Every pass and
every plan stage asks `spend` before it changes something.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from wengert.core.graph import Node
from wengert.core.location import Location


class Rewrite(NamedTuple):
    """One rewrite: the pass and the rule that made it, what it did in words, and the user's line it is about."""

    name: str
    rule: str
    what: str
    location: Location


class Fuel(threading.local):
    """The rewrites that this thread's compilation has made, and how many it may still make."""

    def __init__(self) -> None:
        self.left: int | None = None  # None: no limit
        self.spent = 0
        self.name = ""  # the pass or stage that runs
        self.rule = ""  # of `simplify`: the one that was followed last
        self.last: Rewrite | None = None  # the one that took the last fuel


fuel = Fuel()


@contextmanager
def limited(left: int | None) -> Iterator[None]:
    """Inside, only the first `left` rewrites happen; None for all."""
    before, fuel.left = fuel.left, left
    try:
        yield
    finally:
        fuel.left = before


def spend(node: Node | None, what: Callable[[], str]) -> bool:
    """Take the fuel for one rewrite, about a node and described by `what`; whether there was any."""
    if fuel.left == 0:
        return False
    if fuel.left is not None:
        fuel.left -= 1
        if fuel.left == 0:
            fuel.last = Rewrite(fuel.name, fuel.rule, what(), None if node is None else node.location)
    fuel.spent += 1
    return True
