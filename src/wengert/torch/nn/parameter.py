"""`Parameter`, `Buffer` and their uninitialised kinds: tensors that a module learns, or keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert.torch.tensor import Base, Tensor, of


class Parameter(Tensor, wg.nn.Parameter):
    """A tensor that becomes a parameter of a module when set as an attribute."""

    def __init__(self, data: Any = None, requires_grad: bool = True) -> None:
        value = of(np.zeros(0, np.float32)) if data is None else of(data)
        Tensor.__init__(self, Base.detach(value).node)
        if requires_grad:
            self.requires_grad = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        twin = memo[id(self)] = type(self)(self, self.requires_grad)
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce__(self) -> Any:
        return _parameter, (self.detach().numpy(), self.requires_grad)


def _parameter(array: np.ndarray[Any, Any], requires_grad: bool) -> Parameter:
    return Parameter(of(array), requires_grad)


class Buffer(Tensor):
    """A tensor that becomes a buffer of a module when set as an attribute."""

    persistent: bool

    def __init__(self, data: Any = None, *, persistent: bool = True) -> None:
        super().__init__(of(np.zeros(0, np.float32) if data is None else data).detach().node)
        self.persistent = persistent


# --- not made yet -----------------------------------------------------------------------------------------------------


class UninitializedTensorMixin:
    """A tensor of a lazy layer whose shape is not known yet."""

    cls_to_become: Any = None

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of this shape, filled with zeros."""
        where = self.node.device if device is None else str(device)
        self.materialize_from(of(wg.zeros(tuple(shape), dtype=dtype or self.node.dtype, device=where)))

    def materialize_from(self: Any, value: Any) -> Any:
        """Become an ordinary parameter or buffer with a tensor's shape and value."""
        self.__class__ = self.cls_to_become
        return self._become(value)

    @property
    def shape(self) -> Any:
        """Not known yet."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def detach(self) -> Any:
        """Return itself: it has no value to share."""
        return self

    def share_memory_(self) -> Any:
        """Raise an error: it has no value yet."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):  # type: ignore[misc]
    """A parameter whose shape is not known yet."""

    cls_to_become = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(of(wg.zeros(0, dtype=dtype or wg.float32, device=str(device or "cpu"))), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = memo[id(self)] = type(self)(self.requires_grad, self.node.device, self.node.dtype)
        return twin


class UninitializedBuffer(UninitializedTensorMixin, Tensor):  # type: ignore[misc]
    """A buffer whose shape is not known yet."""

    cls_to_become = Tensor

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> None:
        super().__init__(wg.zeros(0, dtype=dtype or wg.float32, device=str(device or "cpu")).node)
        self.persistent = persistent


def is_lazy(value: Any) -> bool:
    """Whether a tensor's shape is not known yet."""
    return isinstance(value, UninitializedTensorMixin)
