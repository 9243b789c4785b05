"""Forked children: they start with free locks, and work on one thread.

A fork copies the memory of a process and one of its threads. A lock that another thread held stays locked in the child,
and a thread pool is empty there: waiting for either would never end. Modules with such objects register here what to do
in a child.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_actions: list[Callable[[], None]] = []


def new_lock() -> threading.Lock:
    """A lock that is free in a forked child, whoever held it."""
    lock = threading.Lock()
    _locks.add(lock)
    return lock


def new_rlock() -> threading.RLock:
    """A reentrant lock that is free in a forked child, whoever held it."""
    lock = threading.RLock()
    _locks.add(lock)
    return lock


def in_child(action: Callable[[], None]) -> None:
    """Register a function to run in every child, right after the fork."""
    _actions.append(action)


def _after_fork() -> None:
    for lock in list(_locks):
        if not (hasattr(lock, "_is_owned") and lock._is_owned()):  # the thread that forked releases its own lock itself
            lock._at_fork_reinit()
    for action in _actions:
        action()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
