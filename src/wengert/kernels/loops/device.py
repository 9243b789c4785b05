"""Kernels between the steps of a loop on a GPU: copies that bring values to a step's addresses, and conditions.

A copy reads and writes each byte once, in words of 16 bytes if both sides allow that; the copies of a launch are the
rows of its grid. In a repeated part of a graph, a copy advances by a stride per trip, with the trip number in memory,
so that the launch itself is constant. `cudaGraphSetConditional` is a device function that the driver links when a
kernel is loaded; the following graph node reads the condition when it starts.
"""

from __future__ import annotations

from wengert.kernels.launch import Launch

MOST = 32  # copies of one launch: a table of 2 KB, which a launch takes by value
THREADS = 256
WORD = 16  # bytes that a thread moves at once
BLOCKS = 512  # for one copy: enough to saturate memory
_MOVES = f"""
struct wg_copy {{
    unsigned char *to;
    const unsigned char *from;
    long long size, rows, to_pitch, from_pitch, to_stride, from_stride;
}};
struct wg_copies {{ wg_copy of[{MOST}]; }};

template <typename Word>
__device__ void wg_copy_rows(unsigned char *to, const unsigned char *from, const wg_copy &copy) {{
    const long long words = copy.size / sizeof(Word), all = words * copy.rows;
    const long long threads = gridDim.x * (long long)blockDim.x;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < all; i += threads) {{
        const long long row = copy.rows == 1 ? 0 : i / words, word = i - row * words;
        ((Word *)(to + row * copy.to_pitch))[word] = ((const Word *)(from + row * copy.from_pitch))[word];
    }}
}}

extern "C" __global__ void __launch_bounds__({THREADS})
wg_loop_copies(const __grid_constant__ wg_copies copies, const int *counter, int trip) {{
    const wg_copy &copy = copies.of[blockIdx.y];
    const long long number = counter ? *counter : trip;
    unsigned char *to = copy.to + number * copy.to_stride;
    const unsigned char *from = copy.from + number * copy.from_stride;
    unsigned long long odd = (unsigned long long)to | (unsigned long long)from | copy.size;
    odd |= copy.to_pitch | copy.from_pitch;
    if (odd % {WORD} == 0) wg_copy_rows<uint4>(to, from, copy);
    else if (odd % 4 == 0) wg_copy_rows<unsigned int>(to, from, copy);
    else wg_copy_rows<unsigned char>(to, from, copy);
}}
"""
_CONDITIONS = """
#ifndef WG_EMULATED
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned int value);
#endif

extern "C" __global__ void wg_loop_decide(unsigned long long handle, const unsigned char *flag) {
    cudaGraphSetConditional(handle, *flag != 0);
}

extern "C" __global__ void wg_loop_begin(unsigned long long handle, int *counter) {
    *counter = 0;
    cudaGraphSetConditional(handle, 1);
}

extern "C" __global__ void wg_loop_next(unsigned long long handle, int *counter, int trips) {
    const int number = *counter + 1;
    *counter = number;
    cudaGraphSetConditional(handle, number < trips);
}
"""
_ONE = (1, 1, 1)
COPIES = Launch(_MOVES, "wg_loop_copies", _ONE, (THREADS, 1, 1), ())
DECIDE = Launch(_CONDITIONS, "wg_loop_decide", _ONE, _ONE, ())
BEGIN = Launch(_CONDITIONS, "wg_loop_begin", _ONE, _ONE, ())
NEXT = Launch(_CONDITIONS, "wg_loop_next", _ONE, _ONE, ())
KERNELS = (COPIES, DECIDE, BEGIN, NEXT)


def copies_shape(most: int, count: int) -> tuple[int, int, int, int, int, int, int]:
    """Grid, block and shared memory of this many copies, the largest of this many bytes.

    >>> copies_shape(16 * 256 + 1, 3)
    (2, 3, 1, 256, 1, 1, 0)
    """
    return (min(max(-(-most // (WORD * THREADS)), 1), BLOCKS), count, 1, THREADS, 1, 1, 0)
