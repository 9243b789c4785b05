"""Transforms: functions from graph to graph. They nest in any order, and what they give is recorded like anything else."""
