"""PyTorch's files (`.pt`, `.pth`): read without running anything in them, and written so that PyTorch reads them.

`reader` and `writer` are what others call; the caller chooses the class of tensors. `storages` has what a tensor is
in a file, `archive` the zip archives, `unpickler` the machine that reads pickles, `names` what it knows, `tensors`
what is made of it here. PyTorch need not be there.
"""

from wengert.api.torch_format.reader import is_torch_file, read
from wengert.api.torch_format.storages import (
    DTYPES,
    ArchiveError,
    MapLocation,
    RefusedError,
    Storage,
    TensorInStorage,
    TorchDType,
    host_moves_to,
)
from wengert.api.torch_format.tensors import TensorMaker, described
from wengert.api.torch_format.writer import Name, write

__all__ = [
    "DTYPES",
    "ArchiveError",
    "MapLocation",
    "Name",
    "RefusedError",
    "Storage",
    "TensorInStorage",
    "TensorMaker",
    "TorchDType",
    "described",
    "host_moves_to",
    "is_torch_file",
    "read",
    "write",
]
