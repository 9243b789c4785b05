"""CUDA on an NVIDIA GPU: programs as launches over one arena, replayed as CUDA graphs.

device      the GPU as everything else knows it: the protocol `core.devices.Device`
driver      the GPU as this package knows it: the protocol `backends.protocol.Driver`, from these parts:
            stream, event       the order of what happens, and points of it
            allocator, transfer memory, and copies to, from and within it
            kernel, graph       loading and launching kernels, capturing and replaying launches
            properties          what launch shapes follow from
bindings, compile           NVIDIA's libraries: the driver, and NVRTC
memory, copies, dlpack      arrays on a GPU, to and from the host, to and from other libraries
blas, dnn, dnn_attention    the libraries for products: cuBLASLt, cuDNN
choices, tuning             which candidate won when they were timed
program, segment            the steps of a graph, and those that one CUDA graph replays
memset_kernels              memsets of a captured graph, as kernels
replay                      calls again on the memory of the last one
interpret, single_op        code that is not compiled: an op at a time, by kernels for all sizes
checked, report             programs that check themselves, and what they report
"""
