"""PyTorch's OpInfo database against Wengert: every sample of every entry that has a counterpart here.

`entries` finds the entries and their counterparts (`counterparts`, `linear_algebra`), `samples` turns a sample of torch
tensors into NumPy arrays, `judge` compares one sample, `__main__` runs them all and prints a table.
"""
