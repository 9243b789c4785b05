"""wg.learn: the same ideas at smaller scales, and the ways to a derivative side by side.

`compare` differentiates a function symbolically, numerically and automatically, and tells what each way costs; the
command `wengert learn` is a tour of it. `value` differentiates single numbers, at the size of micrograd; `mytorch`
arrays on a tape, the engine of CMU's course 11-785. `distributed` tells what many ranks do (`wengert learn
distributed`), and `ranks` has all-reduce from messages and a sharded optimizer. `python -m wengert.learn.handout DIR`
writes an exercise for a class, and `python -m wengert.learn.grade DIR` grades it.
"""

from wengert.learn import mytorch, value
from wengert.learn.derivatives.compare import Comparison, compare

__all__ = ["Comparison", "compare", "mytorch", "value"]
