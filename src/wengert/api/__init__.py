"""The public functions over Tensors: creation, arithmetic, random numbers, linear algebra, files, NumPy exchange."""
