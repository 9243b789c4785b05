"""The CUDA C++ of a kernel of the loop IR, and the launches that carry it out.

shapes            what a launch looks like (threads, vectors, rows to a block), from the work and the device
fixed_shapes      the same under `config.invariant`: the order of a sum follows from its terms alone
source            statements as CUDA C++: accesses of several elements, loops, indices
reductions        what reductions accumulate
elements          no reduction: a thread computes some neighbouring elements
tiles             no reduction, but read along another axis than written: through shared memory
rows              the reduced axes lie along memory: threads share a row
shared_rows       the same, of rows too long for registers
columns           the reduced axes do not lie along memory: threads side by side have rows of their own
column_partials   rows, with partial sums of their columns
final_reduction   what adds up partial sums, by itself or one launch for many
multi_tensor      one launch for many kernels of one text
multi_transpose   one launch for many that exchange the last two axes of an array, of which the last is short
in_place          whether a result may lie where an operand does

Before they are written, kernels are changed where that is faster on a GPU: `fast_exp`, `one_pass_variance`,
`reciprocal`, `one_hot_lane`.
"""

from wengert.kernels.cuda.column_partials import takes_in
from wengert.kernels.cuda.multi_tensor import (
    final_reduction,
    final_reduction_shape,
    final_reduction_signature,
    multi_tensor_signature,
    transpose_signature,
    write_final_reductions,
    write_multi_tensor,
    write_multi_transpose,
)
from wengert.kernels.cuda.write import write, write_column_partials, write_in_place

__all__ = [
    "final_reduction",
    "final_reduction_shape",
    "final_reduction_signature",
    "multi_tensor_signature",
    "takes_in",
    "transpose_signature",
    "write",
    "write_final_reductions",
    "write_multi_tensor",
    "write_column_partials",
    "write_in_place",
    "write_multi_transpose",
]
