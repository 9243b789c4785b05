"""`torch.nn.utils`, recurrent layers over packed batches, attention's masks: run with either library and compared."""

import importlib

import numpy as np
import pytest

import wengert.torch as torch

from .test_layers import torch_random
from .test_modules import agree, net_of

theirs = pytest.importorskip("torch")


def drawn_alike(program):
    with torch_random():
        agree(program)


def test_clipping():
    def program(t):
        utils, found = t.nn.utils, []
        for kind in (2.0, 1, float("inf")):
            w = t.nn.Parameter(t.tensor([3.0, -4.0]))
            (w * w).sum().backward()
            found += [utils.clip_grad_norm_([w], 1.0, norm_type=kind, foreach=False), w.grad]
        total = utils.get_total_norm([w.grad], 2.0)
        utils.clip_grads_with_norm_([w], 0.1, total)
        found += [total, w.grad]
        w.grad.mul_(100)
        utils.clip_grad_value_(w, 0.5)
        return [*found, w.grad, utils.clip_grad_norm_([t.nn.Parameter(t.ones(1))], 1.0)]

    agree(program)


def test_vectors_and_functional_call():
    def program(t):
        net = net_of(t)
        vector = t.nn.utils.parameters_to_vector(net.parameters())
        t.nn.utils.vector_to_parameters(vector * 2, net.parameters())
        layer = t.nn.Linear(2, 2)
        given = {"weight": t.ones(2, 2), "bias": t.zeros(2)}
        y = t.func.functional_call(layer, given, t.ones(1, 2))
        return vector, net.scale, y, t.nn.utils.stateless.functional_call(layer, given, (t.ones(1, 2),))

    agree(program)


def test_reparametrised_weights():
    def program(t):
        t.manual_seed(0)
        utils, x = t.nn.utils, t.linspace(-1, 1, 6).reshape(2, 3)
        a = utils.weight_norm(t.nn.Linear(3, 2))
        b = utils.spectral_norm(t.nn.Linear(3, 2))
        c = utils.parametrizations.weight_norm(t.nn.Linear(3, 2))

        class Symmetric(t.nn.Module):
            def forward(self, x):
                return x.triu() + x.triu(1).mT

        d = t.nn.Linear(3, 3)
        utils.parametrize.register_parametrization(d, "weight", Symmetric())
        facts = utils.parametrize.is_parametrized(d), type(d.parametrizations).__name__
        outputs = [layer(x) for layer in (a, b, c, d)]
        sum(y.sum() for y in outputs).backward()
        states = [sorted(layer.state_dict()) for layer in (a, b, c, d)]
        gradients = [sorted((n, p.grad) for n, p in layer.named_parameters()) for layer in (a, c, d)]
        utils.remove_weight_norm(a)
        utils.parametrize.remove_parametrizations(d, "weight")
        return outputs, states, gradients, facts, sorted(a.state_dict()), d.weight, isinstance(d.weight, t.nn.Parameter)

    drawn_alike(program)


def test_packed_batches():
    def program(t):
        t.manual_seed(0)
        rnn = t.nn.utils.rnn
        lengths = [4, 2, 3]
        rows = [t.linspace(-1, 1, 2 * n).reshape(n, 2) for n in lengths]
        padded = rnn.pad_sequence(rows, batch_first=True, padding_value=9.0)
        left = rnn.pad_sequence(rows, padding_side="left")
        packed = rnn.pack_padded_sequence(padded, t.tensor(lengths), batch_first=True, enforce_sorted=False)
        layer = t.nn.LSTM(2, 3, num_layers=2, bidirectional=True, batch_first=True)
        layer.flatten_parameters()
        output, (h, c) = layer(packed)
        back, counts = rnn.pad_packed_sequence(output, batch_first=True, total_length=5)
        back.sum().backward()
        doubled = rnn.PackedSequence(
            packed.data * 2, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices
        )
        again = rnn.pad_packed_sequence(doubled)
        facts = isinstance(packed, rnn.PackedSequence), isinstance(back, t.Tensor), isinstance(counts, t.Tensor)
        return (
            [padded, left, packed.data, packed.batch_sizes, back, counts, h, c, *again],
            facts,
            [p.grad for p in layer.parameters()],
            [[tuple(w.shape) for w in weights] for weights in layer.all_weights],
            [x for x in rnn.unpack_sequence(rnn.pack_sequence(rows, enforce_sorted=False))],
        )

    drawn_alike(program)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_recurrent_states(kind):
    def program(t):
        t.manual_seed(0)
        layer = getattr(t.nn, kind)(2, 3, 2, batch_first=True, bidirectional=True)
        x, start = t.linspace(-1, 1, 16).reshape(2, 4, 2), t.linspace(0, 1, 24).reshape(4, 2, 3)
        y, state = layer(x, (start, start) if kind == "LSTM" else start)
        single, last = layer(x[0])
        return y, state, single, last

    drawn_alike(program)


def test_masks_of_attention():
    def program(t):
        t.manual_seed(0)
        nn = t.nn
        layer = nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True)
        stack = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        decoder = nn.TransformerDecoderLayer(4, 2, 8, 0.0, batch_first=True)
        x = t.linspace(-1, 1, 24).reshape(2, 3, 4).sin()
        causal = nn.Transformer.generate_square_subsequent_mask(3)
        padding = t.tensor([[False, False, True], [False, False, False]])
        attention = nn.MultiheadAttention(4, 2, batch_first=True)
        return [
            layer(x, src_mask=causal),
            layer(x, src_mask=causal, is_causal=True),
            stack(x, mask=causal, src_key_padding_mask=padding.float().masked_fill(padding, float("-inf"))),
            decoder(x, x, tgt_mask=causal, memory_key_padding_mask=padding),
            *attention(x, x, x, key_padding_mask=padding),
            *attention(x, x, x, attn_mask=causal == float("-inf"), average_attn_weights=False),
            attention(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)[0],
        ]

    drawn_alike(program)


def test_causal_without_a_mask():
    for t in (torch, theirs):
        attention, x = t.nn.MultiheadAttention(4, 2), t.zeros(3, 1, 4)
        with pytest.raises(RuntimeError, match="Need attn_mask"):
            attention(x, x, x, is_causal=True)


def test_gradients_of_convolutions():
    def program(t):
        x, w = t.linspace(-1, 1, 24).reshape(1, 2, 3, 4), t.linspace(-1, 1, 16).reshape(2, 2, 2, 2)
        g = t.nn.functional.conv2d(x, w, padding=1).cos()
        return t.nn.grad.conv2d_input(x.shape, w, g, padding=1), t.nn.grad.conv2d_weight(x, w.shape, g, 1, 1)

    agree(program)


ABSENT = {"transfer_parametrizations_and_params"}
PATHS = [
    "nn.modules.utils",
    "nn.modules.lazy",
    "nn.grad",
    "nn.utils.rnn",
    "nn.utils.parametrize",
    "nn.utils.clip_grad",
    "nn.utils.convert_parameters",
    "nn.utils.fusion",
    "nn.utils.stateless",
    "nn.parameter",
    "nn.init",
    "optim.swa_utils",
]


@pytest.mark.parametrize("path", PATHS)
def test_paths(path):
    """What PyTorch's file defines itself, and calls public, is there."""
    other = importlib.import_module(f"torch.{path}")
    ours = importlib.import_module(f"wengert.torch.{path}")
    for name in getattr(other, "__all__", dir(other)):
        if getattr(getattr(other, name), "__module__", "") == other.__name__ and not name.startswith("_"):
            assert name in ABSENT or hasattr(ours, name), name


def test_initial_values():
    def program(t):
        t.manual_seed(0)
        init, found = t.nn.init, []
        for fill in (
            lambda w: init.uniform_(w, -1, 2),
            lambda w: init.normal_(w, 1.0, 0.5),
            lambda w: init.trunc_normal_(w, std=0.02),
            lambda w: init.kaiming_normal_(w, mode="fan_out", nonlinearity="relu"),
            lambda w: init.kaiming_uniform_(w, a=1),
            lambda w: init.xavier_normal_(w, gain=init.calculate_gain("tanh")),
            lambda w: init.xavier_uniform_(w),
            lambda w: init.eye_(w),
            lambda w: init.constant_(w, 0.3),
            lambda w: init.sparse_(w, 0.5),
            lambda w: init.orthogonal_(w),
        ):
            w = t.empty(4, 3)
            assert fill(w) is w
            found.append(w)
        conv = t.empty(2, 2, 3)
        return [*found, init.dirac_(conv), init._calculate_fan_in_and_fan_out(conv)]

    with torch_random():
        ours, other = program(torch), program(theirs)
    for a, b in zip(ours[:-1], other[:-1]):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-6)
    assert ours[-1] == other[-1]
