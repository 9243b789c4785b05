"""`torch.nn.functional` beside PyTorch's: names, signatures, values, gradients, refusals."""

import inspect
import warnings

import numpy as np
import pytest

import wengert.torch as torch

from .functional_table import TABLE

theirs = pytest.importorskip("torch")

# What is not there: products of blocks in eight bits, and texts that PyTorch's documentation is made of.
ABSENT = {"ScalingType", "SwizzleType", "TYPE_CHECKING", "grouped_mm", "scaled_grouped_mm", "scaled_mm"}


def evaluated(text, t):
    """The results of a call and the gradients of its inputs, in float64."""
    rng, leaves = np.random.default_rng(5), []

    def leaf(array):
        leaves.append(t.tensor(array, requires_grad=True))
        return leaves[-1]

    names = {
        "x": lambda *shape: leaf(rng.normal(size=shape)),
        "u": lambda *shape: leaf(rng.uniform(0.1, 0.9, size=shape)),
        "w": lambda n: t.linspace(0.5, 1.5, n, dtype=t.float64),
        "s": lambda *shape: t.tensor(rng.choice([-1.0, 1.0], size=shape)),
        "i": lambda high, *shape: t.tensor(rng.integers(0, high, size=shape)),
        "c": lambda high, *shape: t.tensor(rng.integers(1, high, size=shape)),
        "n": lambda *numbers: t.tensor(numbers),
        "zeros": lambda n: t.zeros(n, dtype=t.float64),
        "ones": lambda n: t.ones(n, dtype=t.float64),
        "t": t,
        "F": t.nn.functional,
    }
    found = eval(f"F.{text}", names)
    found = list(found) if isinstance(found, (tuple, list)) else [found]
    floating = [y for y in found if y.is_floating_point() and y.requires_grad]
    rng = np.random.default_rng(9)
    if floating:
        sum((y * t.tensor(rng.normal(size=tuple(y.shape)))).sum() for y in floating).backward()
    return found, [x.grad for x in leaves]


@pytest.mark.parametrize("text", TABLE)
@pytest.mark.filterwarnings("ignore")
def test_call(text):
    (ours, gradients), (others, expected) = evaluated(text, torch), evaluated(text, theirs)
    assert len(ours) == len(others)
    for a, b in zip(ours, others):
        assert isinstance(a, torch.Tensor) and str(a.dtype) == str(b.dtype) and tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-10)
    for a, b in zip(gradients, expected, strict=True):
        if b is None:
            assert a is None or not a.abs().sum().item()
        else:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-7, atol=1e-9)


def test_every_name_is_there():
    for name in dir(theirs.nn.functional):
        value = getattr(theirs.nn.functional, name)
        is_public = not name.startswith("_") and not inspect.ismodule(value) and not name.endswith("_notes")
        if is_public and name not in ABSENT and getattr(value, "__module__", "") not in ("typing", "collections.abc"):
            assert hasattr(torch.nn.functional, name), name
    with pytest.raises(AttributeError, match=r"torch.nn.functional.scaled_mm is not in wengert.torch"):
        torch.nn.functional.scaled_mm


def plain(function):
    found = inspect.signature(function).parameters.values()
    return [(p.name, p.kind, float(p.default) if type(p.default) is int else p.default) for p in found]


@pytest.mark.parametrize("name", sorted({text.partition("(")[0] for text in TABLE}))
def test_signature(name):
    """Where PyTorch's function is written in Python, ours has its arguments."""
    other = getattr(theirs.nn.functional, name)
    try:
        expected = plain(other)
    except ValueError:
        return
    if expected[0][0] != "args":
        assert plain(getattr(torch.nn.functional, name)) == expected


REFUSED = [
    ("linear(t.ones(2, 3), t.ones(2, 4))", RuntimeError),
    ("conv2d(t.ones(1, 3, 4, 4), t.ones(2, 2, 3, 3))", RuntimeError),
    ("max_pool2d(t.ones(2, 2), 2)", RuntimeError),
    ("dropout(t.ones(2), p=2.0)", ValueError),
    ("cross_entropy(t.ones(2, 3), t.tensor([1]))", ValueError),
    ("nll_loss(t.ones(2, 3), t.tensor([1, 2, 0]))", ValueError),
    ("pad(t.ones(1, 2, 3), (4, 4), mode='reflect')", RuntimeError),
    ("mse_loss(t.ones(2), t.ones(2), reduction='average')", ValueError),
    ("interpolate(t.ones(1, 1, 2, 2))", ValueError),
    ("softshrink(t.ones(2), -1.0)", RuntimeError),
    ("layer_norm(t.ones(2, 3), (4,))", RuntimeError),
    ("group_norm(t.ones(2, 3), 2)", RuntimeError),
    ("one_hot(t.tensor([3]), 2)", RuntimeError),
    ("binary_cross_entropy(t.ones(2), t.ones(3))", ValueError),
    ("scaled_dot_product_attention(t.ones(2, 3), t.ones(2, 4), t.ones(2, 4))", RuntimeError),
    ("softmax(t.ones(2, 3), dim=4)", IndexError),
    ("gelu(t.ones(2), approximate='x')", RuntimeError),
    ("batch_norm(t.ones(1, 3), t.zeros(3), t.ones(3), training=True)", ValueError),
    ("pixel_shuffle(t.ones(1, 3, 2, 2), 2)", RuntimeError),
]


@pytest.mark.parametrize("text, kind", REFUSED)
def test_refused(text, kind):
    for t in (torch, theirs):
        with warnings.catch_warnings(), pytest.raises(kind):
            warnings.simplefilter("ignore")
            eval(f"t.nn.functional.{text}", {"t": t}).sum().item()


@pytest.mark.parametrize("name", ["softmin", "softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [0, -1])
def test_softmax_of_a_number(name, dim):
    ours, expected = (getattr(t.nn.functional, name)(t.tensor(2.0), dim=dim) for t in (torch, theirs))
    assert ours.shape == () and ours.item() == expected.item()
    for t in (torch, theirs):
        with pytest.raises(IndexError):
            getattr(t.nn.functional, name)(t.tensor(2.0), dim=1)


def test_lengths_of_numbers():
    for t in (torch, theirs):
        functional, x, y = t.nn.functional, t.tensor(-2.0), t.tensor(3.0)
        assert functional.normalize(x, dim=0).tolist() == -1.0
        assert functional.cosine_similarity(x, y, dim=-1).tolist() == -1.0
        with pytest.raises(IndexError):
            functional.normalize(x)
        with pytest.raises(IndexError):
            functional.cosine_similarity(x, y)


@pytest.mark.parametrize("heads", [4, 2])
@pytest.mark.parametrize("mask", [None, "causal", "boolean", "floating"])
def test_attention_with_dropout(mask, heads):
    rng = np.random.default_rng(0)
    shapes = [(2, 4, 5, 3), (2, heads, 6, 3), (2, heads, 6, 2)]
    arrays = [rng.standard_normal(shape) for shape in shapes]
    look = rng.random((5, 6)) > 0.5
    look[1] = False  # a query that may look nowhere
    given = {"boolean": look, "floating": np.where(look, 0.5, -np.inf)}.get(mask)

    def attend(t, p):
        kwargs = {"attn_mask": None if given is None else t.tensor(given), "is_causal": mask == "causal"}
        return t.nn.functional.scaled_dot_product_attention(
            *map(t.tensor, arrays), dropout_p=p, enable_gqa=heads != 4, scale=0.7, **kwargs
        )

    expected = attend(theirs, 0.0).numpy()
    np.testing.assert_allclose(attend(torch, 1e-12).numpy(), expected, rtol=1e-7, atol=1e-9)
    assert not attend(torch, 1.0).numpy().any()
    torch.manual_seed(0)
    draws = np.stack([attend(torch, 0.3).numpy() for _ in range(300)])
    assert not np.allclose(draws[0], draws[1])
    np.testing.assert_allclose(draws.mean(0), expected, atol=6 * draws.std(0).max() / 300**0.5)
