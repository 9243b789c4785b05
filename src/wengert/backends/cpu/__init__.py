"""The CPU: plans built as C by the system compiler, and run on NumPy arrays."""
