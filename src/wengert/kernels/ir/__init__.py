"""The loop IR: kernels as loops and statements over index expressions, and transforms of them."""
