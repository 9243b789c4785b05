"""What the checks of `products` call, beside the submission. They contain no right answers."""


def call(name, *inputs):
    """What a function returns."""
    from homework import products

    return getattr(products, name)(*inputs)


def jacobian(name, matrix):
    """The Jacobian of a linear function, and how often its product was asked for."""
    from homework import products

    calls = []

    def product(vector):
        calls.append(1)
        return matrix @ vector if name == "jacobian_by_columns" else vector @ matrix

    found = getattr(products, name)(product, matrix.shape[1 if name == "jacobian_by_columns" else 0])
    return found, len(calls)
