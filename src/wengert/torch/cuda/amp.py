"""`torch.cuda.amp`: `torch.amp` for GPUs, under its old name."""

from __future__ import annotations

from typing import Any

from wengert.torch import amp, dtypes


class autocast(amp.autocast):
    """`torch.amp.autocast("cuda")`."""

    def __init__(self, enabled: bool = True, dtype: Any = dtypes.float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler("cuda")`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("cuda", *args, **kwargs)
