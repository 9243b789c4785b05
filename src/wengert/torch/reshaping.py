"""Methods that change a tensor's shape in place: `t_`, `transpose_`, `squeeze_`, `unsqueeze_`, `as_strided_`.

The tensor becomes a view of its own memory, and existing views of it become views of that memory.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from weakref import ref

from wengert.core.graph import recorded_as, recording
from wengert.ops.core import alias
from wengert.tensor import Tensor as Base
from wengert.torch import shape
from wengert.torch.memory import _is_view, view_class
from wengert.torch.parts import as_strided
from wengert.torch.registry import methods
from wengert.torch.sharing import Shared
from wengert.torch.tensor import Tensor
from wengert.torch.views import View, check_write, is_tracked, root_of


def _in_place(function: Callable[..., Any], *names: str) -> None:
    """Enter the methods that give their tensor the shape that a function reads it in."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        check_write(self, is_tracked(self), is_fill=True)
        if is_tracked(self) and self._is_variable():
            raise RuntimeError(f"{names[0]}: a leaf that requires grad keeps its shape; write x.data = x.data.t(), ...")
        if recording.trace is not None:
            raise RuntimeError(f"{names[0]}: inside of a compiled function write x = x.{names[0][:-1]}(...)")
        _reshape(self, lambda x: function(x, *args, **kwargs))
        root_of(self)._writes += 1
        return self

    method.__name__ = method.__qualname__ = names[0]
    method.__doc__ = f"`{function.__name__}` in place: the tensor itself has that shape from now on."
    methods.update(dict.fromkeys(names, method))


def _reshape(x: Any, read: Callable[[Any], Any]) -> None:
    if isinstance(x, View) and not x._is_detached:
        made, flaw, of, is_whole = read(x), x._flaw, x._of, x._is_whole
        _become(x, made)
        x._flaw, x._of, x._is_whole = flaw, of, is_whole
        _follow(x, x._root)
        return
    is_whole = not _is_view(x)
    memory = _memory_of(x)
    made = read(memory)
    _follow(x, memory)
    _become(x, made)
    x._is_whole = is_whole


def _become(x: Any, made: View) -> None:
    """Turn a tensor into the view that another one is."""
    if not isinstance(x, View):
        vars(Base)["node"].__delete__(x)
        x.__class__ = View if type(x) is Tensor else view_class(type(x))
    View.__init__(x, made._root, made._chain, made._geometry, is_detached=made._is_detached)


def _memory_of(x: Any) -> Any:
    """A tensor of the shape that x has still, with its memory and its history."""
    if isinstance(x, View):
        twin = View(x._root, x._chain, x._geometry, is_detached=True)
        twin._flaw, twin._of = x._flaw, x._of
        if x._own is not None:
            twin._keep_history(x._own)
            twin._own_of = x._own_of
        return twin
    if isinstance(x, Shared):
        return _moved(x)
    made = object.__new__(Tensor)
    with recorded_as(recording.location, x.node.tracked):
        Base.__init__(made, alias(x.node))
    made._writes = x._writes
    return made


def _moved(x: Shared) -> Shared:
    """A tensor that shares the array which x shared until now."""
    made = object.__new__(type(x))
    made.__dict__.update(x.__dict__)
    made._grad = made._taken_from = None
    kind = x._kind
    named = made._named
    x.__dict__.clear()
    x.__class__ = kind
    x.node = named
    named.owner = ref(made)
    return made


def _follow(x: Any, memory: Any) -> None:
    """Have what is a view of x be one of its memory, and no view be read by way of x."""
    for other in gc.get_objects():
        if issubclass(type(other), View) and other is not x and "_chain" in other.__dict__:
            parent = other._parent() if type(other._parent) is ref else other._parent
            if parent is x:
                other._parent = None
            if other._root is x and other is not memory:
                other._root, other._memo = memory, None


_in_place(shape.t, "t_")
_in_place(shape.transpose, "transpose_", "swapaxes_", "swapdims_")
_in_place(shape.squeeze, "squeeze_")
_in_place(shape.unsqueeze, "unsqueeze_")
_in_place(as_strided, "as_strided_")
