"""CPU against GPU: ops of every family and models, measured over sizes, as a table and a page of plots.

`cases` says what is measured, `measure` how, `run` does it in bounded time, `page` and `plot` show what came out.
"""
