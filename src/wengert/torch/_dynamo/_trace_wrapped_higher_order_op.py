"""`torch._dynamo._trace_wrapped_higher_order_op`: the block in which libraries index tensors by tensors under vmap."""

from __future__ import annotations

from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute


class TransformGetItemToIndex:
    """A block in which `x[i]` with a tensor `i` is recorded as indexing. Here that is so everywhere."""

    def __enter__(self) -> TransformGetItemToIndex:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch._dynamo._trace_wrapped_higher_order_op", name)
