"""Transforms: functions from graph to graph. They nest in any order, and their results are recorded like everything
else."""

from wengert.autodiff import numeric, symbolic

__all__ = ["numeric", "symbolic"]
