"""What the checks of `rnn` call, beside the submission. They contain no right answers."""


def call(name, *inputs):
    """What a function returns."""
    from homework import recurrent

    return getattr(recurrent, name)(*inputs)
