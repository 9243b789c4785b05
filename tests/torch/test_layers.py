"""Every layer of `torch.nn` beside PyTorch's: initial values, text, outputs and gradients."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

import wengert.torch as torch
from wengert.api import random as drawn
from wengert.torch import random as random_module
from wengert.torch.torch_random import TorchStream

from .layer_table import TABLE

theirs = pytest.importorskip("torch")

NOT_LAYERS = {"Module"}
# Layers whose constructor says (*args, **kwargs) in PyTorch, and bases that programs only ask `isinstance` of.
OTHER_SIGNATURES = {"RNN", "LSTM", "GRU", "RNNBase", "RNNCellBase"}


@contextmanager
def torch_random() -> Iterator[None]:
    before = random_module.stream, drawn.stream
    numbers = TorchStream()
    random_module.set_stream(numbers)
    drawn.stream = numbers
    try:
        yield
    finally:
        random_module.set_stream(before[0])
        drawn.stream = before[1]


def inputs_of(text, t, all_need=True):
    """The inputs that a line of the table tells, the same for either library."""
    rng = np.random.default_rng(7)
    floats = {
        "x": lambda *shape: rng.normal(size=shape),
        "u": lambda *shape: rng.uniform(0.1, 0.9, size=shape),
        "s": lambda *shape: rng.choice([-1.0, 1.0], size=shape),
        "l": lambda *shape: np.log(rng.dirichlet(np.ones(shape[-1]), size=shape[:-1])),
    }
    integers = {
        "i": lambda high, *shape: rng.integers(0, high, size=shape),
        "c": lambda high, *shape: rng.integers(1, high, size=shape),
        "m": lambda n, k: np.concatenate([np.tile([k - 1, 0], (n, 1)), -np.ones((n, k - 2))], 1).astype(np.int64),
        "n": lambda n, *more: np.array([n, *more]),
    }

    leaves = []

    def float_input(key, make):
        def made(*shape):
            x = t.tensor(make(*shape).astype(np.float32), requires_grad=not leaves or all_need)
            leaves.extend([x] if x.requires_grad else [])
            return x.log_softmax(-1) if key == "l" else x  # PyTorch's gradient of ctc_loss is for such an input

        return made

    names = {key: float_input(key, make) for key, make in floats.items()}
    names |= {key: lambda *a, make=make: t.tensor(make(*a)) for key, make in integers.items()}
    return eval(f"({text},)", names), leaves


def build(text, t):
    t.manual_seed(0)
    weights = lambda n: t.tensor(np.linspace(0.5, 1.5, n).astype(np.float32))
    return eval(f"nn.{text}", {"nn": t.nn, "w": weights})


def both(text):
    with torch_random():
        return build(text, torch), build(text, theirs)


def array(x):
    return np.asarray(x.detach().numpy())


def tensors_in(value):
    if isinstance(value, dict):
        return [x for part in value.values() for x in tensors_in(part)]
    if isinstance(value, (tuple, list)):
        return [x for part in value for x in tensors_in(part)]
    return [] if value is None else [value]


@pytest.mark.parametrize("text, given", TABLE, ids=[text for text, _ in TABLE])
def test_layer(text, given):
    with torch_random():
        ours, other = build(text, torch), build(text, theirs)
        assert repr(ours) == repr(other)
        if not text.startswith("Lazy"):
            compare_states(ours, other)
        results = []
        for t, layer in ((torch, ours), (theirs, other)):
            t.manual_seed(1)
            found, leaves = inputs_of(given, t, "Loss" not in text or "Softmax" in text)
            output = tensors_in(layer(*found))
            rng = np.random.default_rng(3)
            slopes = [t.tensor(rng.uniform(-1, 1, tuple(y.shape)).astype(np.float32)) for y in output]
            total = sum((y * slope).sum() for y, slope in zip(output, slopes) if y.is_floating_point())
            if total.requires_grad:
                total.backward()
            gradients = [x.grad for x in (*leaves, *layer.parameters())]
            results.append((output, gradients, layer))
        compare_states(results[0][2], results[1][2], exact=False)
        assert repr(results[0][2]) == repr(results[1][2])
    # PyTorch's CrossMapLRN2d counts the first channel in the windows of all from the third on.
    far = 1e-3 if "CrossMap" in text else 1e-5
    assert len(results[0][0]) == len(results[1][0])
    for a, b in zip(results[0][0], results[1][0]):
        assert isinstance(a, torch.Tensor) and str(a.dtype) == str(b.dtype) and tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(array(a), array(b), rtol=far, atol=far)
    for a, b in zip(results[0][1], results[1][1], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            np.testing.assert_allclose(array(a), array(b), rtol=far, atol=far)


def compare_states(ours, other, exact=True):
    a, b = ours.state_dict(), other.state_dict()
    assert list(a) == list(b)
    for key in b:
        assert str(a[key].dtype) == str(b[key].dtype) and tuple(a[key].shape) == tuple(b[key].shape), key
        if exact:
            np.testing.assert_array_equal(array(a[key]), array(b[key]), err_msg=key)
        else:
            np.testing.assert_allclose(array(a[key]), array(b[key]), rtol=1e-5, atol=1e-5, err_msg=key)
    assert [k for k, _ in ours.named_parameters()] == [k for k, _ in other.named_parameters()]


def layers_of(t):
    return {n for n, v in vars(t.nn).items() if inspect.isclass(v) and issubclass(v, t.nn.Module)}


def test_every_layer_is_there():
    for name in sorted(layers_of(theirs)):
        assert hasattr(torch.nn, name), name


def plain(signature):
    found = []
    for p in list(signature.parameters.values()):
        default = p.default if isinstance(p.default, (int, float, str, bool, type(None))) else str(p.default)[:9]
        found.append((p.name, p.kind, None if p.name == "activation" else default))
    return found


@pytest.mark.parametrize("name", sorted(layers_of(theirs) - NOT_LAYERS - OTHER_SIGNATURES))
def test_signature(name):
    expected = inspect.signature(getattr(theirs.nn, name).__init__)
    assert plain(inspect.signature(getattr(torch.nn, name).__init__)) == plain(expected)


@pytest.mark.parametrize("text", [text for text, _ in TABLE], ids=[text for text, _ in TABLE])
def test_attributes(text):
    """What PyTorch's layer keeps of its arguments, ours has under the same name."""
    ours, other = both(text)
    for name, value in vars(other).items():
        if name.startswith("_") and (name != "_reversed_padding_repeated_twice" or "Lazy" in text):
            continue
        if isinstance(value, (int, float, str, tuple, bool, type(None))):
            assert hasattr(ours, name), name
            got = getattr(ours, name)
            assert got == value and type(got) is type(value), (name, got, value)
