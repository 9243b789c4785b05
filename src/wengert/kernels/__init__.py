"""Kernels: the loop IR, its C and CUDA C++ writers, and the hand-written kernels for both."""
