"""The honesty suite: functions that read or change something outside, and whether their compiled form keeps up.

`case` reads the cases from the files in `cases/`, `judge` gives each its verdict, `python -m tests.honesty` prints the
table, and `test_honesty` holds each case to what is expected of it.
"""
