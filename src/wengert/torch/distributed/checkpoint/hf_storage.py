"""`torch.distributed.checkpoint.hf_storage`: the names of what reads and writes a checkpoint of many ranks."""

from __future__ import annotations

from typing import Any

from wengert.torch.distributed.checkpoint import _refused
from wengert.torch.missing import missing_attribute as _missing_attribute

HuggingFaceStorageReader = _refused("HuggingFaceStorageReader")
HuggingFaceStorageWriter = _refused("HuggingFaceStorageWriter")


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.distributed.checkpoint.hf_storage", name)
