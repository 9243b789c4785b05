"""CPU against GPU: ops and models, measured over sizes, as a table and a page of plots.

`cases` and `every` say what is measured, `build` compiles it ahead, `measure` says how, `run` does it in bounded time,
`page` and `plot` show what came out.
"""
