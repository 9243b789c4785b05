"""Debugging tools: explain, profile, self-checking programs, bisection of a miscompile."""
