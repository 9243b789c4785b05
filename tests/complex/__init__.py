"""Complex numbers: their rules against differences of values, the convention, the sweep against PyTorch."""
