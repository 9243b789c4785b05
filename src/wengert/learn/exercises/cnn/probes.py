"""What the checks of `cnn` call, beside the submission. They contain no right answers."""


def call(name, *inputs):
    """What a function returns."""
    from homework import conv

    return getattr(conv, name)(*inputs)


class Tape:
    """An engine that keeps what is written on it, and does nothing with it."""

    def __init__(self):
        self.operations = []

    def add_operation(self, inputs, output, gradients_to_update, backward_operation):
        self.operations.append((inputs, output, gradients_to_update, backward_operation))


def layer(W, b, x, seed, stride, padding):
    """A Conv2d's output, what its rule gives, which arrays collect the gradients, and how many operations it wrote."""
    from homework import conv

    tape = Tape()
    module = conv.Conv2d(W, b, tape, stride, padding)
    y = module(x)
    inputs, output, collected, rule = tape.operations[-1]
    places = [k for k, array in enumerate(collected) if array is module.dW or array is module.db]
    return y, output, tuple(rule(seed, *inputs)), places, len(tape.operations)
