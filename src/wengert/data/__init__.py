"""Data to train on: what comes with Wengert, as NumPy arrays."""

from wengert.data.digits import load_digits

__all__ = ["load_digits"]
