"""The CUDA driver in Python's terms: what this backend asks of a GPU, and nothing more.

A CudaDriver is one GPU with one stream of ours. Its parts are a file each: `stream` (order, events), `allocator`
(memory), `transfer` (copies), `kernel` (loading, launching), `graph` (capture and replay). It implements the protocol
`backends.protocol.Driver`, and so does the emulated GPU of the tests.
"""

from __future__ import annotations

from wengert.backends import protocol
from wengert.backends.cuda.graph import GraphCapture
from wengert.backends.cuda.transfer import Transfer


class CudaDriver(Transfer, GraphCapture):
    """One GPU."""


def make(index: int) -> protocol.Driver:
    """A driver of this GPU. Tests put another in its place."""
    return CudaDriver(index)
