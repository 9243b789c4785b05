"""CUDA on an NVIDIA GPU: from groups of values to launches over one arena, replayed as a CUDA graph.

In the order of a program's way:

graphs      graphs as a GPU takes them
candidates  who carries out a group: our own kernels, or a library
blas, dnn, dnn_attention    the libraries: cuBLASLt, cuDNN
choices, tuning             which candidate won when they were timed
together, margins, totals, finishes   steps that become one, and what a step brings along
closings    what is left of a step whose totals another takes
follow      a program's only kernel, so that it is there when the one before it ends
inplace     results in the place of operands
arena       where values lie
order       which steps wait for which
program     the steps of a graph, carried out
stretch, stream, fills      those that one CUDA graph replays
repeat      calls again on the memory of the last one
interpret, alone            code that is not compiled: an op at a time, by kernels for all sizes
checked, told               programs that check themselves, and what they tell

And what all of them stand on:

bindings, driver, compile   the driver, and NVRTC
memory, copies, exchange    values on a GPU, to and from the host, to and from other libraries
"""
