"""`torch.nn.utils.stateless`: a module called with other parameters; today's path is `torch.func`."""

from __future__ import annotations

from typing import Any

from wengert.torch.func import functional_call as _functional_call


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call the module with other values for its parameters and buffers, by name."""
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


__all__ = ["functional_call"]
