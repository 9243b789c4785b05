"""What the checks of `mytorch` call, beside the submission. They contain no right answers."""

import numpy as np


def rule(name, seed, *inputs):
    """The gradients that a backward operation returns."""
    from mytorch.nn import functional

    return getattr(functional, name)(seed, *inputs)


def inputs_after(name, seed, *inputs):
    """The gradients of a backward operation, and the arrays that it was called with, after the call."""
    from mytorch.nn import functional

    return getattr(functional, name)(seed, *inputs), seed, inputs


def weighted(a, b):
    """2 a + 3 b, with its rule below."""
    return 2 * a + 3 * b


def weighted_backward(grad_output, a, b):
    return 2 * grad_output, 3 * grad_output


def cube(a):
    """a ** 3, with its rule below."""
    return a**3


def cube_backward(grad_output, a):
    return 3 * a**2 * grad_output


OPERATIONS = {"weighted": (weighted, weighted_backward), "cube": (cube, cube_backward)}


def recorded(engine, inputs, program, collected=()):
    """Run a program: lines (operation, numbers of its inputs) over a list of values, all written on the tape."""
    values = list(inputs)
    for name, numbers in program:
        function, backward_operation = OPERATIONS[name]
        taken = [values[k] for k in numbers]
        output = function(*taken)
        to_update = [collected[k] if k < len(collected) else None for k in numbers]
        engine.add_operation(taken, output, to_update, backward_operation)
        values.append(output)
    return values


def tape(inputs, program):
    """The number of operations on the tape, their operations' names, and of spots in the buffer."""
    from mytorch import Autograd

    engine = Autograd()
    recorded(engine, inputs, program)
    names = [operation.backward_operation.__name__ for operation in engine.operation_list]
    return names, len(engine.gradient_buffer.memory)


def too_few(inputs, count):
    """An operation with another number of gradients_to_update than of inputs."""
    from mytorch import Autograd

    Autograd().add_operation(list(inputs), sum(inputs), [None] * count, weighted_backward)


def walk(inputs, program, seeds):
    """The gradients of the inputs after a call of backward for each seed."""
    from mytorch import Autograd

    engine = Autograd()
    recorded(engine, inputs, program)
    for seed in seeds:
        engine.backward(seed)
    return tuple(engine.gradient_buffer.get_param(x) for x in inputs)


def cleared(inputs, program, seed):
    """The gradients after one program, zero_grad and the program again: those of the second one alone."""
    from mytorch import Autograd

    engine = Autograd()
    recorded(engine, inputs, program)
    engine.backward(seed)
    engine.zero_grad()
    recorded(engine, inputs, program)
    engine.backward(seed)
    return tuple(engine.gradient_buffer.get_param(x) for x in inputs)


def collect(inputs, program, before):
    """What the arrays in gradients_to_update have after backward."""
    from mytorch import Autograd

    engine, collected = Autograd(), [np.array(array) for array in before]
    recorded(engine, inputs, program, collected)
    engine.backward(1)
    return tuple(collected)


def _linear(engine, W, b):
    from mytorch import nn

    layer = nn.Linear(W.shape[1], W.shape[0], engine)
    layer.W, layer.b = np.array(W), np.array(b)
    layer.dW, layer.db = np.zeros(W.shape), np.zeros(b.shape)
    return layer


def linear(W, b, x, seed):
    """A Linear: its output, and after backward dW, db and the gradient of x."""
    from mytorch import Autograd

    engine = Autograd()
    layer = _linear(engine, W, b)
    y = layer(x)
    engine.backward(seed)
    return y, layer.dW, layer.db, engine.gradient_buffer.get_param(x)


def skip(W, b, x, seed):
    """A Linear with a skip connection, x + Linear(x)."""
    from mytorch import Autograd
    from mytorch.nn import functional

    engine = Autograd()
    layer = _linear(engine, W, b)
    y = layer(x)
    output = y + x
    engine.add_operation([y, x], output, [None, None], functional.add_backward)
    engine.backward(seed)
    return output, layer.dW, layer.db, engine.gradient_buffer.get_param(x)


def activation(name, x, seed):
    """An activation's output and the gradient of its input."""
    from mytorch import Autograd, nn

    engine = Autograd()
    y = getattr(nn, name)(engine)(x)
    engine.backward(seed)
    return y, engine.gradient_buffer.get_param(x)


def loss(name, labels, x):
    """A loss and the gradient of the network's output."""
    from mytorch import Autograd, nn

    engine = Autograd()
    criterion = getattr(nn, name)(engine)
    value = criterion(labels, x)
    criterion.backward()
    return np.asarray(value), engine.gradient_buffer.get_param(x)


def training(W, b, x, labels, rate, steps):
    """The losses of a Linear, trained by gradient descent."""
    from mytorch import Autograd, nn

    engine = Autograd()
    layer, criterion = _linear(engine, W, b), nn.SoftmaxCrossEntropy(engine)
    losses = []
    for _ in range(steps):
        engine.zero_grad()
        layer.dW.fill(0.0)
        layer.db.fill(0.0)
        losses.append(float(np.sum(criterion(labels, layer(x)))))
        criterion.backward()
        layer.W -= rate * layer.dW
        layer.b -= rate * layer.db
    return np.array(losses)
