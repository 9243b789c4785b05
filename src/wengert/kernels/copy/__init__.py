"""Copies, concatenation and slices."""
