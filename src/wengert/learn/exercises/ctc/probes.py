"""What the checks of `ctc` call, beside the submission. They contain no right answers."""


def call(name, *inputs):
    """What a function returns."""
    from homework import ctc

    return getattr(ctc, name)(*inputs)
