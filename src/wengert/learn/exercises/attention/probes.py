"""What the checks of `attention` call, beside the submission. They contain no right answers."""


def call(name, *inputs):
    """What a function returns."""
    from homework import attention

    return getattr(attention, name)(*inputs)
