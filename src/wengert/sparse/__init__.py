"""Sparse Jacobians and Hessians: their structure is derived from the graph, their entries come from a few products.

`structure` has the rules, `coloring` says which columns or rows go together, `jacobian` has the functions users call.
SciPy is imported when one of them is called.
"""
