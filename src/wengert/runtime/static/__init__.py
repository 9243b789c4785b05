"""Static execution: `compile` records a function once and calls the compiled program again."""
