"""GPU memory: the stream-ordered pools, and the arena that programs work in.

The arena is a reserved range of addresses that is backed by memory as it grows, so it never moves.
"""

from __future__ import annotations

import functools
from typing import Any

from wengert.backends.cuda.bindings import check
from wengert.backends.cuda.stream import Stream

RESERVED = 1 << 38  # addresses for the arena: far more than any GPU has memory


class Allocator(Stream):
    """A stream with the memory of its GPU."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.pool = self._kept(check(self.cu.cuDeviceGetDefaultMemPool(self.device)))
        self.arena_start = 0
        self.arena_size = 0

    def _kept(self, pool: Any) -> Any:
        """A pool that keeps freed memory for the next allocation instead of returning it at every synchronisation."""
        threshold = self.cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        check(self.cu.cuMemPoolSetAttribute(pool, threshold, self.cu.cuuint64_t(1 << 62)))
        return pool

    def allocate(self, size: int) -> int:
        """The address of new memory, usable from this point of the stream on."""
        with self.lock:
            self.flush()
            return int(check(self.cu.cuMemAllocAsync(size, self.stream)))

    def free(self, pointer: int) -> None:
        """Free memory from this point of the stream on; never captured into a graph."""
        self.when_not_capturing(lambda: check(self.cu.cuMemFreeAsync(pointer, self.stream)))

    @functools.cached_property
    def side_stream(self) -> tuple[Any, Any]:
        """A stream for copies that run beside the main stream, and the pool of the memory they fill.

        With the main pool, copies would wait for the work that released the memory.
        """
        cu = self.cu
        place = cu.CUmemPoolProps()
        place.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        place.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        place.location.id = self.index
        stream = check(cu.cuStreamCreate(int(cu.CUstream_flags.CU_STREAM_NON_BLOCKING)))
        return stream, self._kept(check(cu.cuMemPoolCreate(place)))

    def allocate_beside(self, size: int) -> int:
        """The address of new memory for a copy on the side stream; `free` gives it back."""
        stream, pool = self.side_stream
        return int(check(self.cu.cuMemAllocFromPoolAsync(size, pool, stream)))

    def trim(self) -> None:
        """Return unused memory of the pools to the driver."""
        with self.lock:
            self.flush()
            self.synchronize()
        for pool in self._pools():
            check(self.cu.cuMemPoolTrimTo(pool, 0))

    def reserved(self) -> int:
        """The bytes that the pools hold, used or not."""
        attribute = self.cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        return sum(int(check(self.cu.cuMemPoolGetAttribute(pool, attribute))) for pool in self._pools())

    def _pools(self) -> list[Any]:
        return [self.pool, self.side_stream[1]] if "side_stream" in vars(self) else [self.pool]

    def memory_info(self) -> tuple[int, int]:
        """The free bytes of the GPU, and the total."""
        free, total = check(self.cu.cuMemGetInfo())
        return int(free), int(total)

    def index_of(self, pointer: int) -> int:
        """The number of the GPU that owns an address."""
        attribute = self.cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(check(self.cu.cuPointerGetAttribute(attribute, pointer)))

    # --- the arena --------------------------------------------------------------------------------------------------

    def arena(self, size: int) -> int:
        """The address of the arena, backed by at least this many bytes."""
        with self.lock:
            if not self.arena_start:
                self.arena_start = int(check(self.cu.cuMemAddressReserve(RESERVED, 0, 0, 0)))
            if size > self.arena_size:
                self._grow_arena(size)
            return self.arena_start

    def _grow_arena(self, size: int) -> None:
        cu = self.cu
        place = cu.CUmemAllocationProp()
        place.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        place.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        place.location.id = self.index
        unit = int(
            check(
                cu.cuMemGetAllocationGranularity(
                    place, cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
                )
            )
        )
        more = -(-(size - self.arena_size) // unit) * unit
        handle = check(cu.cuMemCreate(more, place, 0))
        start = self.arena_start + self.arena_size
        check(cu.cuMemMap(start, more, 0, handle, 0))
        access = cu.CUmemAccessDesc()
        access.location = place.location
        access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        check(cu.cuMemSetAccess(start, more, [access], 1))
        self.arena_size += more
