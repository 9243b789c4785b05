"""`torch.onnx`: not there yet."""

from __future__ import annotations

from typing import Any


def export(*args: Any, **kwargs: Any) -> Any:
    """Raise an error: export is not supported."""
    raise RuntimeError("torch.onnx.export is not in wengert.torch: save the state_dict and export it with PyTorch")


dynamo_export = export


def is_in_onnx_export() -> bool:
    """Whether a module is being exported: never."""
    return False
