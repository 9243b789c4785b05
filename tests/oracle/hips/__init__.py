"""HIPS/autograd's own tests, run on Wengert through NumPy's protocols; see `__main__`."""
