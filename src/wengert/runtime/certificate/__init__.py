"""Certificates: the rewrites that made a program with their proofs, and its kernels checked against references."""
