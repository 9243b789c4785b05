"""The CPU: plans built as C with the system compiler, and run on NumPy arrays."""
