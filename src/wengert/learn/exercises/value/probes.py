"""What the checks of `value` call, beside the submission. They contain no right answers."""


def _evaluated(expression, names):
    """A sequence of assignments, and the value of `y`."""
    scope = dict(names)
    exec(expression, {}, scope)
    return scope


def gradient(program, inputs, backwards=1):
    """The value of y and the gradients of the inputs, after so many calls of backward."""
    from homework.value import Value

    names = {name: Value(number) for name, number in inputs.items()}
    scope = _evaluated(program, names)
    for _ in range(backwards):
        scope["y"].backward()
    return scope["y"].data, {name: value.grad for name, value in names.items()}


def chain(length, x):
    """The gradient of x through a chain of additions and products."""
    from homework.value import Value

    value = Value(x)
    y = value
    for k in range(length):
        y = y * 1.0 + 0.5 if k % 2 else y + value * 0.0
    y.backward()
    return value.grad


def two_results(x):
    """Two results that share a part, one backward each."""
    from homework.value import Value

    value = Value(x)
    shared = value * value
    first, second = shared * 3.0, shared.sin()
    first.backward()
    after_one = value.grad
    second.backward()
    return after_one, value.grad
