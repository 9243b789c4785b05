"""Dynamic execution: pending graphs are computed when somebody looks."""
