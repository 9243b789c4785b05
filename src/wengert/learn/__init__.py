"""wg.learn: the same ideas at smaller scales, and the ways to differentiate side by side.

`compare` differentiates a function symbolically, numerically and automatically, and shows what each way costs; the
command `wengert learn` is a tour of it. `value` differentiates single numbers, at the size of micrograd; `mytorch`
arrays on a tape, the engine of CMU's course 11-785; `dual` carries derivatives forward beside the numbers.
`wengert_list` writes the computation of either as the list v1, v2, v3, ..., and `draw` draws it. `distributed`
shows what many ranks do (`wengert learn distributed`), and `ranks` has all-reduce from messages and a sharded
optimizer. `exercises` are for a class: `wengert learn handout` writes one for students, `wengert learn grade` grades
what comes back (`grading`), and `wengert learn kit` writes a whole term (`kit`).
"""

from wengert.learn import drawing, dual, mytorch, value
from wengert.learn.derivatives.compare import Comparison, compare
from wengert.learn.drawing.computations import draw
from wengert.learn.wengert_list import wengert_list

__all__ = ["Comparison", "compare", "draw", "drawing", "dual", "mytorch", "value", "wengert_list"]
