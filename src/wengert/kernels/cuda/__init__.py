"""The CUDA of a kernel: the second way to write the loop language down, and the launches that carry it out.

shapes      what a launch looks like (threads, vectors, rows to a block) and how that follows from work and device
text        statements as CUDA C++: accesses of several elements, loops, indices
totals      what reductions accumulate
elements    no reduction: a thread computes some neighbouring elements
rows        the reduced axes lie along memory: threads share a row
shared_rows the same, of rows too long for registers
margins     rows, with the totals of their columns
columns     they do not: threads side by side have rows of their own
closing     what puts parts of their totals together, by itself or one launch for many
many        one launch for many kernels of one text
turned      one launch for many that exchange the last two axes of an array, of which the last is short
inplace     whether a result may lie where an operand does
"""

from wengert.kernels.cuda.column_partials import takes_in
from wengert.kernels.cuda.final_reduction import closing, closing_shape, closing_signature, write_closings
from wengert.kernels.cuda.multi_tensor import signature, write_many
from wengert.kernels.cuda.multi_transpose import turned_signature, write_turned
from wengert.kernels.cuda.reductions import parts_name
from wengert.kernels.cuda.write import write, write_margins, write_over

__all__ = [
    "closing",
    "closing_shape",
    "closing_signature",
    "parts_name",
    "signature",
    "takes_in",
    "turned_signature",
    "write",
    "write_closings",
    "write_many",
    "write_margins",
    "write_over",
    "write_turned",
]
