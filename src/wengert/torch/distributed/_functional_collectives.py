"""What libraries import of PyTorch's traced collectives; `torch.distributed`'s own are the ones that run."""

from __future__ import annotations

from typing import Any, NoReturn


def wait_tensor(tensor: Any) -> Any:
    """The tensor: collectives here are done when they return."""
    return tensor


def all_to_all_single_autograd(*args: Any, **kwargs: Any) -> NoReturn:
    """Say that it is not there."""
    raise RuntimeError(
        "torch.distributed._functional_collectives is not in wengert.torch: use wg.distributed.all_to_all"
    )
