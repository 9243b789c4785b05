"""`torch.distributed.checkpoint`: the names that libraries ask for.

Checkpoints of many ranks are `wg.distributed.checkpoint`'s, which other ranks and other sizes can read.
"""

from __future__ import annotations

from typing import Any, NoReturn

from wengert.torch.missing import missing_attribute as _missing_attribute


def _refused(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"torch.distributed.checkpoint.{name} is not in wengert.torch: wg.distributed.checkpoint writes and reads "
            "what several ranks hold, and torch.save what one holds"
        )

    refuse.__name__ = name
    return refuse


save, load, async_save = _refused("save"), _refused("load"), _refused("async_save")
FileSystemReader, FileSystemWriter = _refused("FileSystemReader"), _refused("FileSystemWriter")


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.distributed.checkpoint", name)
