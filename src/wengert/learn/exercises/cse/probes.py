"""What the checks of `cse` call, beside the submission. They contain no right answers."""


def passes(names, lines, outputs):
    """The program after some passes, and whether they left what they were given as it was."""
    from homework import cse

    lines = [(name, op, tuple(operands)) for name, op, operands in lines]
    outputs = list(outputs)
    before = list(lines), list(outputs)
    found = lines, outputs
    for name in names:
        found = getattr(cse, name)(*found)
    return [list(line) for line in found[0]], list(found[1]), (lines, outputs) == before
