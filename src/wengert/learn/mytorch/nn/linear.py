"""The same as `modules.linear`, where older handouts look for it."""

from .modules.linear import Linear

__all__ = ["Linear"]
