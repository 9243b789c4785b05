"""A matplotlib that draws nothing: the programs are compared by their numbers."""


def use(backend: str) -> None:
    """Take any backend."""
