"""The CUDA driver in Python: the operations that this backend needs from a GPU.

A CudaDriver is one GPU with one stream of ours. Its parts are one file each: `stream` (order, events), `allocator`
(memory), `transfer` (copies), `kernel` (loading, launching), `graph` (capture and replay). It implements the protocol
`backends.protocol.Driver`, as does the emulated GPU of the tests.
"""

from __future__ import annotations

from wengert.backends import protocol
from wengert.backends.cuda.graph import GraphCapture
from wengert.backends.cuda.transfer import Transfer


class CudaDriver(Transfer, GraphCapture):
    """One GPU."""


def make(index: int) -> protocol.Driver:
    """A driver of this GPU. Tests replace it."""
    return CudaDriver(index)
