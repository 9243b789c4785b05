"""Hooks: functions that see a module's arguments before its forward, or its output after, and may replace them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import ref

if TYPE_CHECKING:
    from wengert.nn.module import Module


@dataclass(frozen=True, eq=False)
class Hook:
    """A function to call before or after a module's forward."""

    function: Callable[..., Any]
    before: bool
    with_kwargs: bool

    def changed_arguments(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments after a hook before forward has seen them."""
        if self.with_kwargs:
            return self.function(module, args, kwargs) or (args, kwargs)
        found = self.function(module, args)
        if found is None:
            return args, kwargs
        return (found if isinstance(found, tuple) else (found,)), kwargs

    def changed_output(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        """The output after a hook after forward has seen it."""
        given = (args, kwargs) if self.with_kwargs else (args,)
        found = self.function(module, *given, output)
        return output if found is None else found


observers: list[Callable[[Module], AbstractContextManager[None]]] = []
"""What surrounds the forward of every module while something looks on, such as a profile; usually there is none."""


calls: deque[tuple[int, int, ref[Module]]] = deque(maxlen=10_000)
"""The last calls of modules that have ended, for who wants to know where a node was recorded: the numbers of the nodes
recorded in a call are between the first two.
"""


class HookHandle:
    """What registering a hook gives: `remove()` takes the hook away, as does the end of a `with` block."""

    def __init__(self, module: Module, hook: Hook) -> None:
        self._module = ref(module)
        self._hook = hook

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        module = self._module()
        if module is not None:
            module._hooks = tuple(hook for hook in module._hooks if hook is not self._hook)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()
