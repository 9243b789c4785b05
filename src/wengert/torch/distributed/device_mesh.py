"""`torch.distributed.device_mesh`: the names that libraries ask for; a mesh is `wg.distributed`'s."""

from __future__ import annotations

from typing import Any, NoReturn

from wengert.torch.missing import missing_attribute as _missing_attribute


class DeviceMesh:
    """A mesh of devices in PyTorch. There is none here: `isinstance` says no."""


def init_device_mesh(*args: Any, **kwargs: Any) -> NoReturn:
    """Say that it is not there."""
    raise RuntimeError(
        "torch.distributed.device_mesh is not in wengert.torch: wg.distributed.start().mesh(...) makes one"
    )


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.distributed.device_mesh", name)
