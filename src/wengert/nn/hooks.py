"""Hooks: functions that see a module's arguments, its output or their gradients, and may replace them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import ref

import wengert as wg
from wengert.nn.parts import ModuleParts

if TYPE_CHECKING:
    from wengert.nn.module import Module


@dataclass(frozen=True, eq=False)
class Hook:
    """A function to call at some point of a module's work: `when` says which."""

    function: Callable[..., Any]
    when: str  # "before", "after", "backward", "before backward"; of a state: before or after saving or loading
    with_kwargs: bool = False
    with_module: bool = False
    always: bool = False  # also when forward has raised

    def changed_arguments(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The arguments after a hook before forward has seen them."""
        if self.with_kwargs:
            return self.function(module, args, kwargs) or (args, kwargs)
        found = self.function(module, args)
        if found is None:
            return args, kwargs
        return (found if isinstance(found, tuple) else (found,)), kwargs

    def changed_output(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
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

    def __init__(self, owner: Any, hook: Hook, place: str) -> None:
        self._owner = ref(owner)
        self._hook = hook
        self._place = place

    def remove(self) -> None:
        """Take the hook away; a second time does nothing."""
        owner = self._owner()
        if owner is not None:
            kept = tuple(hook for hook in getattr(owner, self._place) if hook is not self._hook)
            setattr(owner, self._place, kept)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


class Hooked(ModuleParts):
    """A module as far as hooks see its calls; see `Module`."""

    _hooks: tuple[Hook, ...] = ()
    forward: Callable[..., Any]

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call `hook(module, args)` before every forward; what it returns, if anything, replaces the arguments.

        With `with_kwargs` it is called with the keyword arguments too and returns both, as (args, kwargs). With
        `prepend` it comes before the hooks that are there.
        """
        return self._hooked(Hook(hook, "before", with_kwargs), prepend)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False
    ) -> HookHandle:
        """Call `hook(module, args, output)` after every forward; what it returns, if anything, replaces the output.

        With `with_kwargs` it is called as `hook(module, args, kwargs, output)`, with `always_call` also when forward
        has raised (the output is None then).
        """
        return self._hooked(Hook(hook, "after", with_kwargs, always=always_call), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of a call's arguments have been recorded.

        Both are tuples, with None for what is no Tensor; if no argument needs a gradient, `grad_input` has None alone.
        What it returns, if anything, replaces `grad_input`.

        >>> import wengert as wg
        >>> layer, seen = wg.nn.Identity(), []
        >>> handle = layer.register_full_backward_hook(lambda module, got, given: seen.append(given[0].tolist()))
        >>> x = wg.tensor([1.0, 2.0], requires_grad=True)
        >>> (layer(x) * 3).sum().backward()
        >>> seen
        [[3.0, 3.0]]
        """
        return self._hooked(Hook(hook, "backward"), prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call `hook(module, grad_output)` before a module's backward; what it returns replaces `grad_output`."""
        return self._hooked(Hook(hook, "before backward"), prepend)

    def _hooked(self, hook: Hook, prepend: bool) -> HookHandle:
        self._hooks = (hook, *self._hooks) if prepend else (*self._hooks, hook)
        return HookHandle(self, hook, "_hooks")

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        hooks = (*everywhere.hooks, *self._hooks)
        for hook in hooks:
            if hook.when == "before":
                args, kwargs = hook.changed_arguments(self, args, kwargs)
        backward = _BackwardOfCall(self, hooks) if any("backward" in hook.when for hook in hooks) else None
        given = args if backward is None else backward.of_arguments(args)
        after = [hook for hook in hooks if hook.when == "after"]
        try:
            output = self.forward(*given, **kwargs)
        except Exception:
            for hook in after:
                if hook.always:
                    hook.changed_output(self, args, kwargs, None)
            raise
        for hook in after:
            output = hook.changed_output(self, given, kwargs, output)
        return output if backward is None else backward.of_output(output)


class _BackwardOfCall:
    """What one call of a module adds to the graph so that hooks see the gradients of its output and its arguments.

    Each side is passed through one op, which is the identity. Its gradients arrive together. What is called then are
    functions of the module and its hooks alone, by which two recordings of a call are known to be the same.
    """

    def __init__(self, module: Any, hooks: Sequence[Hook]) -> None:
        self.module = module
        self.before = tuple(hook for hook in hooks if hook.when == "before backward")
        self.after = tuple(hook for hook in hooks if hook.when == "backward")
        self.unwatched: int | None = None  # how many arguments, where none of them needs a gradient
        self.given: list[tuple[Any, ...]] = []  # the gradients of the output, from one side to the other

    def of_arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if not self.after:
            return args
        if not any(map(_needs_gradient, args)):
            self.unwatched = len(args)
            return args
        return tuple(_watched(args, partial(_reach_arguments, self.module, self.after, self.given)))

    def of_output(self, output: Any) -> Any:
        parts = list(output) if isinstance(output, (tuple, list)) else [output]
        reached = partial(_reach_output, self.module, self.before, self.after, self.given, self.unwatched)
        parts = _watched(parts, reached)
        if not isinstance(output, (tuple, list)):
            return parts[0]
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)


def _reach_output(
    module: Any,
    before: Sequence[Hook],
    after: Sequence[Hook],
    given: list[tuple[Any, ...]],
    unwatched: int | None,
    gradients: tuple[Any, ...],
) -> tuple[Any, ...]:
    for hook in before:
        gradients = _replaced(hook.function(module, gradients), gradients)
    if unwatched is None:
        given[:] = [gradients] if after else []
    else:
        for hook in after:
            hook.function(module, (None,) * unwatched, gradients)
    return gradients


def _reach_arguments(
    module: Any, after: Sequence[Hook], given: list[tuple[Any, ...]], gradients: tuple[Any, ...]
) -> tuple[Any, ...]:
    of_output = given.pop() if given else ()
    for hook in after:
        gradients = _replaced(hook.function(module, gradients, of_output), gradients)
    return gradients


def _needs_gradient(value: Any) -> bool:
    return isinstance(value, wg.Tensor) and value.requires_grad and wg.graph.recording.grad


def _watched(values: Sequence[Any], reached: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> list[Any]:
    """The same values, with a function of their gradients on the way back."""
    places = [i for i, value in enumerate(values) if _needs_gradient(value)]
    if not places:
        return list(values)
    others = [_type_of(value) if i not in places else None for i, value in enumerate(values)]

    def backward(needed: Any, cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        by_place = dict(zip(places, cotangents))
        rest = [None if other is None else wg.zeros(other[0], dtype=other[1], device=other[2]) for other in others]
        found = reached(tuple([by_place.get(i, rest[i]) for i in range(len(others))]))
        return tuple([found[i] for i in places])

    same = wg.custom_vjp(lambda *tensors: tensors)
    same.defvjp(lambda *tensors: (tensors, ()), backward)
    passed = dict(zip(places, same(*[values[i] for i in places])))
    return [passed.get(i, value) for i, value in enumerate(values)]


def _type_of(value: Any) -> tuple[Any, ...] | None:
    return (value.shape, value.dtype, value.device) if isinstance(value, wg.Tensor) else None


def _replaced(found: Any, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a hook gave in place of gradients, or those, where it gave nothing."""
    if found is None:
        return gradients
    found = tuple(found) if isinstance(found, (tuple, list)) else (found,)
    if len(found) != len(gradients):
        raise wg.errors.ArgumentError(f"a backward hook gave {len(found)} gradients in place of {len(gradients)}")
    return found


# --- hooks on all modules ---------------------------------------------------------------------------------------------


class Everywhere:
    """The hooks that every module's call goes through. While there are some, calls take the way of observed ones."""

    hooks: tuple[Hook, ...] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        if _unobserved in observers:
            observers.remove(_unobserved)
        if value:
            observers.append(_unobserved)
        wg.config.changed()

    def add(self, hook: Hook) -> HookHandle:
        """Have every module's calls go through a hook."""
        self.hooks = (*self.hooks, hook)
        return HookHandle(self, hook, "hooks")


@contextmanager
def _unobserved(module: Any) -> Iterator[None]:
    yield


everywhere = Everywhere()


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call `hook(module, args)` before the forward of every module; as `register_forward_pre_hook` of one.

    >>> import wengert as wg
    >>> handle = wg.nn.register_module_forward_pre_hook(lambda module, args: print(type(module).__name__))
    >>> y = wg.nn.ReLU()(wg.ones(2))
    ReLU
    >>> handle.remove()
    """
    return everywhere.add(Hook(hook, "before"))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> HookHandle:
    """Call `hook(module, args, output)` after the forward of every module; as `register_forward_hook` of one.

    >>> import wengert as wg
    >>> with wg.nn.register_module_forward_hook(lambda module, args, output: print(type(module).__name__)):
    ...     _ = wg.nn.Sequential(wg.nn.ReLU(), wg.nn.Tanh())(wg.zeros(2))
    ReLU
    Tanh
    Sequential
    """
    return everywhere.add(Hook(hook, "after", with_kwargs, always=always_call))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call `hook(module, grad_input, grad_output)` in the backward of every module.

    >>> import wengert as wg
    >>> handle = wg.nn.register_module_full_backward_hook(lambda module, inputs, outputs: print(type(module).__name__))
    >>> wg.nn.ReLU()(wg.ones(2, requires_grad=True)).sum().backward()
    ReLU
    >>> handle.remove()
    """
    return everywhere.add(Hook(hook, "backward"))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call `hook(module, grad_output)` before the backward of every module.

    >>> import wengert as wg
    >>> handle = wg.nn.register_module_full_backward_pre_hook(lambda module, outputs: print(type(module).__name__))
    >>> wg.nn.ReLU()(wg.ones(2, requires_grad=True)).sum().backward()
    ReLU
    >>> handle.remove()
    """
    return everywhere.add(Hook(hook, "before backward"))
