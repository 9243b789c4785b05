"""CUDA on an NVIDIA GPU: a plan as launches over one arena, replayed as a CUDA graph.

    program     runs a plan
    memset_kernels      replaces the memsets of a CUDA graph by kernels
    replay      calls again on the memory of the last call; recycle: reuses output arrays
    interpret, single_op        code that is not compiled: one op at a time, by kernels for all sizes
    libraries   candidates from cuBLASLt and cuDNN (blas, dnn, dnn_attention), and which of them won when timed
    checked, report             programs that check themselves, and their reports

They are built on:

    bindings, driver, properties, stream, event, graph, compile     the CUDA driver and NVRTC, one noun per file
    kernel      loading and launching kernels, alone or in a segment that one CUDA graph replays
    allocator, memory, transfer, copies, dlpack     values on a GPU, and copies to and from the host and other libraries
    device      the `Device` of the registry
"""
