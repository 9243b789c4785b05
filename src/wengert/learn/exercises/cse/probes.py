"""What the checks of `cse` call, beside the submission. They contain no right answers."""

import zlib

import numpy as np


def passes(names, lines, outputs, inputs):
    """What a program gives after some passes, how many lines it has, and whether the given one is as it was."""
    from homework import cse

    lines = [(name, op, tuple(operands)) for name, op, operands in lines]
    outputs = list(outputs)
    before = repr((lines, outputs))
    found = lines, outputs
    for name in names:
        found = getattr(cse, name)(*found)
    kept, named = [(name, op, tuple(operands)) for name, op, operands in found[0]], list(found[1])
    is_unchanged = repr((lines, outputs)) == before
    return {
        "the outputs": tuple(run(kept, named, inputs)),
        "the number of lines": len(kept),
        "the given program": "unchanged" if is_unchanged else "changed",
    }


def run(lines, outputs, inputs):
    """A program's outputs."""
    values = dict(inputs)
    for name, op, operands in lines:
        if name in values:
            raise ValueError(f"two lines have the name {name}")
        if op == "constant":
            values[name] = float(operands[0])
        elif op == "random":  # a draw is known by its name
            values[name] = zlib.crc32(name.encode()) / 2**32
        else:
            with np.errstate(all="ignore"):
                values[name] = float(getattr(np, op)(*(np.float64(values[operand]) for operand in operands)))
    return [values[output] for output in outputs]
