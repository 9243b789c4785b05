"""The end of a `while_loop` with a limit on a GPU: a copy of its carry, and a note if it has not come to its end.

Whether the condition still holds is on the device and stays there: one block looks at it, for every lane of a batch,
and notes the op where failures are noted, which somebody sees who looks at a value.
"""

from __future__ import annotations

from wengert.core.graph import Node
from wengert.kernels.copy.cuda import copy
from wengert.kernels.launch import ERROR_FLAG, FAILING_OP, Asked, DeviceProperties, Launch, LaunchList, Named, in_turn

_THREADS = 128


def stopped(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList:
    """The check, and a copy for each result that somebody reads."""
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
