"""wg.learn: the same ideas at smaller scales.

`value` differentiates single numbers, at the size of micrograd; `mytorch` arrays on a tape, the engine of CMU's course
11-785. `python -m wengert.learn.handout DIR` writes an exercise for a class, and `python -m wengert.learn.grade DIR`
grades it.
"""

from wengert.learn import mytorch, value

__all__ = ["mytorch", "value"]
