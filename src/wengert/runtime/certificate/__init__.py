"""Certificates: which rewrites made a program and how each is known, and its kernels checked against references."""
