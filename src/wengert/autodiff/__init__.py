"""Transforms: functions from graph to graph. They nest in any order, and what they give is recorded like the rest."""

from wengert.autodiff import numeric, symbolic

__all__ = ["numeric", "symbolic"]
