"""What the checks of `vmap` call, beside the submission. They contain no right answers."""

import numpy as np


def rule(name, *operands):
    """What a rule returns. Operands that are pairs are batched values."""
    from homework import vmap

    operands = [(np.asarray(x[0]), x[1]) if isinstance(x, tuple) else x for x in operands]
    if name == "unary":
        return vmap.unary(getattr(np, operands[0]), *operands[1:])
    return getattr(vmap, name)(*operands)


def run(program, inputs):
    """What a program gives."""
    from homework import vmap

    return vmap.run([tuple(line) for line in program], [(np.asarray(array), axis) for array, axis in inputs])
