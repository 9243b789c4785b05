"""What tests of the plan share: a GPU of the emulator's, which no library knows."""

from tests.backends.conftest import gpu, without_libraries

__all__ = ["gpu", "without_libraries"]
