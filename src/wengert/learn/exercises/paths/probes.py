"""What the checks of `paths` call, beside the submission. They contain no right answers."""


def call(name, edges, *rest):
    """What a function returns for edges that it may not change for the next call."""
    from homework import paths

    return getattr(paths, name)([(int(a), int(b), float(d)) for a, b, d in edges], *rest)
