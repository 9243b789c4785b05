"""CUDA on an NVIDIA GPU: a plan as launches over one arena, replayed as a CUDA graph.

program     a plan, carried out
memset_kernels      the memsets of a CUDA graph, as kernels
replay      calls again on the memory of the last one; recycle: arrays that nobody holds any more
interpret, single_op        code that is not compiled: an op at a time, by kernels for all sizes
libraries   what cuBLASLt and cuDNN (blas, dnn, dnn_attention) suggest to a plan, and which candidate won when timed
checked, report             programs that check themselves, and what they say of themselves

And what all of them stand on:

bindings, driver, properties, stream, event, graph, compile     the CUDA driver and NVRTC, a noun a file
kernel      loading and launching, alone or as a segment that one CUDA graph replays
allocator, memory, transfer, copies, dlpack     values on a GPU, to and from the host, to and from other libraries
device      all of it as a `Device` of the registry
"""
