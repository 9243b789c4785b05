"""Test suites that others wrote, run against Wengert: PyTorch's OpInfo, array-api-tests and the graders of MyTorch."""
