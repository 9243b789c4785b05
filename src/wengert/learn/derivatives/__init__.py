"""Ways to compute a derivative, side by side: symbolic, numeric, and automatic in forward and reverse mode.

`steps` is the table of intermediate values that textbooks draw, `differences` how exact numeric estimates are, `cost`
what each way takes as the number of parameters grows. `compare` puts them together in sections, which are shown in the
terminal or on a page; `tour` is the command `wengert learn`.
"""
