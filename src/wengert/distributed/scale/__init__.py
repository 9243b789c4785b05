"""Predicting the time of a step on other ranks: `wengert scale script.py:train --ranks 8,64,1024 --machine h200`.

`pretend` runs a script as rank 0 of a simulated world. `rank_program` partitions and plans the step that the
script compiled: the very program of a rank. `machines` knows published machines, `measure` this one. `model` puts the
plan's steps and its collectives on two lanes of time, and `report` prints the result.
"""
