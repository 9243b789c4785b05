"""What the checks of `ranks` call, beside the submission. They contain no right answers."""


def on_all(function, ranks, *values):
    """What a function gives on every rank, from values of every rank."""
    import wengert as wg
    from wengert.distributed import simulate

    wg.config.tier = "interpret"
    return simulate(function, ranks)(*[v if isinstance(v, wg.Tensor) else wg.tensor(v) for v in values])


def scatter_steps(chunks, ranks, steps):
    """The chunks of all ranks after some steps of the reduce-scatter."""
    from ranks import ring

    for step in range(steps):
        chunks = on_all(lambda c, s=step: ring.reduce_scatter_step(c, s, ranks), ranks, chunks).numpy()
    return chunks


def gather_steps(chunks, ranks, steps):
    """The chunks of all ranks after some steps of the all-gather."""
    from ranks import ring

    for step in range(steps):
        chunks = on_all(lambda c, s=step: ring.all_gather_step(c, s, ranks), ranks, chunks).numpy()
    return chunks


def all_reduce(x, ranks):
    """The sum on every rank."""
    from ranks import ring

    return on_all(lambda x: ring.all_reduce(x, ranks), ranks, x).numpy()


def messages(x, ranks):
    """The sizes of the messages that a rank sends."""
    from ranks import ring

    sent, kept = [], ring.send_to_next

    def counting(value):
        sent.append(int(value.size))
        return kept(value)

    ring.send_to_next = counting
    try:
        on_all(lambda x: ring.all_reduce(x, ranks), ranks, x)
    finally:
        ring.send_to_next = kept
    return sent


def gradient(x, w, ranks):
    """The gradient of sum(w * all_reduce(x)) with respect to every rank's x."""
    from ranks import ring

    import wengert as wg

    def loss(x):
        return on_all(lambda x, w: w * ring.all_reduce(x, ranks), ranks, x, w).sum()

    return wg.grad(loss)(wg.tensor(x)).numpy()


def state(parameter, ranks):
    """The state of every rank before the first step."""
    from ranks import sharded

    found = on_all(sharded.new_state, ranks, parameter)
    return found.mean.numpy(), found.square.numpy()


def steps(parameter, gradients, ranks):
    """The parameter of every rank after a sharded step for each of the gradients."""
    from ranks import sharded

    def run(parameter, *gradients):
        held = sharded.new_state(parameter)
        for each in gradients:
            parameter, held = sharded.sharded_step(parameter, each, held, ranks)
        return parameter

    return on_all(run, ranks, parameter, *gradients).numpy()
