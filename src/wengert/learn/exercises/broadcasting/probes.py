"""What the checks of `broadcasting` call, beside the submission. They contain no right answers."""


def call(name, *inputs):
    """What a function returns."""
    from homework import broadcasting

    return getattr(broadcasting, name)(*inputs)
