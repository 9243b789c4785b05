"""CUDA on an NVIDIA GPU: a plan as launches over one arena, replayed as a CUDA graph.

program     a plan, carried out
segment     launches that one CUDA graph replays; memset_kernels: their memsets, as kernels
replay      calls again on the memory of the last one; recycle: arrays that nobody holds any more
interpret, single_op        code that is not compiled: an op at a time, by kernels for all sizes
libraries, blas, dnn, dnn_attention     what cuBLASLt and cuDNN suggest to a plan
choices, timing             which candidate won when they were timed
checked, report             programs that check themselves, and what they say of themselves

And what all of them stand on:

bindings, driver, properties, stream, event, graph, kernel, compile     the CUDA driver and NVRTC, a noun a file
allocator, memory, transfer, copies, dlpack     values on a GPU, to and from the host, to and from other libraries
device      all of it as a `Device` of the registry
"""
