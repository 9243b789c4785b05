"""What tiny-diffusion imports and does not use with the circle."""

from typing import Any


def make_moons(*arguments: Any, **options: Any) -> None:
    """Is not asked for."""
    raise RuntimeError("the benchmark runs the circle")
