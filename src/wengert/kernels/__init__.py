"""Kernels: the loop language, its C, and what is written by hand."""
