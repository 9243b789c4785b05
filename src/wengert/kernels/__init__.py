"""Kernels: the loop language, its C and its CUDA C++, and what is written by hand for both."""
