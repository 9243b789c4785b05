"""Dynamic execution: pending graphs are computed when a value is read."""
