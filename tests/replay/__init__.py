"""Replay: compile a corpus at two commits and show which generated kernels changed. `make replay BASE=<commit>`."""
