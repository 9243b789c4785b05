"""The CUDA C++ of a kernel of the loop IR, and the launches that run it.

    shapes            launch shapes (threads, vectors, rows per block), from the work and the device
    fixed_shapes      the same under `config.invariant`: the order of a sum follows from its terms alone
    source            statements as CUDA C++: vector accesses, loops, indices
    reductions        accumulators of reductions
    elements          no reduction: a thread computes some neighbouring elements
    tiles             no reduction, but read along another axis than written: through shared memory
    rows              the reduced axes are contiguous: threads share a row
    shared_rows       the same, for rows too long for registers
    columns           the reduced axes are not contiguous: neighbouring threads have separate rows
    column_partials   rows, with partial sums of their columns
    final_reduction   adds partial sums, separately or in one launch for many
    multi_tensor      one launch for many kernels of equal text
    multi_transpose   one launch for many transposes of the last two axes, the last of which is short
    in_place          whether a result may overwrite an operand

Some kernels are rewritten first where that is faster on a GPU: `fast_exp`, `one_pass_variance`, `reciprocal`,
`one_hot_lane`.
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
