"""The end of a `while_loop` with a limit on a GPU: a copy of its carry, and a failure flag if the limit was reached.

The condition stays on the device: one block checks it for every lane of a batch, and sets the failure flag, which is
reported when a value is read.
"""

from __future__ import annotations

from wengert.core.graph import Node
from wengert.kernels.copy.cuda import copy
from wengert.kernels.launch import ERROR_FLAG, FAILING_OP, Asked, DeviceProperties, Launch, LaunchList, Named, in_turn

_THREADS = 128


def stopped(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList:
    """The check, and a copy of each result that is read."""
    going, *values = node.sources
    text = f"""extern "C" __global__ void wg_stopped(const unsigned char *going, int wg_op, int *wg_error)
{{
    for (long long i = threadIdx.x; i < {going.size}; i += {_THREADS}) {{
        if (going[i]) *wg_error = wg_op;
    }}
}}
"""
    why = f"{going.size} conditions"
    arguments = (named(going), FAILING_OP, ERROR_FLAG)
    check = Launch(text, "wg_stopped", (1, 1, 1), (_THREADS, 1, 1), arguments, why=why)
    copies = [copy(named(values[i]), named(result), result, device) for i, result in asked.results.items()]
    return in_turn([LaunchList((check,)), *copies])
