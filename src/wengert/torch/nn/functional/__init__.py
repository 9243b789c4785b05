"""`torch.nn.functional`: what layers compute, as functions. Where Wengert's function is PyTorch's, it is that."""

from __future__ import annotations

from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.nn.functional.activation import *  # noqa: F403
from wengert.torch.nn.functional.attention import *  # noqa: F403
from wengert.torch.nn.functional.helpers import *  # noqa: F403
from wengert.torch.nn.functional.loss import *  # noqa: F403
from wengert.torch.nn.functional.renamed import *  # noqa: F403
from wengert.torch.nn.functional.shape import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.nn.functional", name)
