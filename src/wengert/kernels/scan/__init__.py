"""Scans: running sums along an axis."""
