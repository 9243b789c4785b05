"""What the checks of `dual` call, beside the submission. They contain no right answers."""


def _names():
    from homework import dual

    return {name: getattr(dual, name) for name in ("sin", "cos", "exp", "log", "derivative", "gradient")}


def gradient(expression, point):
    """The gradient of an expression in x and y."""
    names = _names()
    return names["gradient"](eval(f"lambda x, y: {expression}", names), list(point))


def derivative(expression, x):
    """The derivative at x of an expression, which may contain derivatives."""
    names = _names()
    return names["derivative"](eval(f"lambda x: {expression}", names), x)
