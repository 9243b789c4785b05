"""Convolutions: direct, sliding and implicit-GEMM kernels."""
