"""`torch.utils.tensorboard`: event files that TensorBoard shows, written by the package `tensorboard`."""

from __future__ import annotations

from typing import Any

try:
    from tensorboard.summary.writer.record_writer import RecordWriter as RecordWriter
except ImportError:
    raise ModuleNotFoundError(
        "torch.utils.tensorboard needs the package tensorboard: pip install tensorboard", name="tensorboard"
    ) from None

from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.utils.tensorboard.writer import SummaryWriter as SummaryWriter


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.utils.tensorboard", name)
