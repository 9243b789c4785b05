"""Collectives from messages, and an optimizer that the ranks share: what the exercise `ranks` asks for.

Every function is that of one rank. `wengert.distributed.simulate` runs all ranks in one process.
"""

from . import ring, sharded

__all__ = ["ring", "sharded"]
