"""From an optimised graph to a plan: fused groups, their order, kernels and launches, and the memory they use."""
