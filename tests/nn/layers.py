"""The table of layers that the suite compares with torch: how each is made in either library, and what it is given."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator], Array]


@dataclass(frozen=True)
class Layer:
    """A layer of both libraries. Inputs are shapes (of normal numbers) or functions that draw an array."""

    name: str
    args: tuple[Any, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    inputs: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # keyword inputs of the forward; arrays are drawn
    build: Callable[[Any], Any] | None = None  # for layers made of others: a function of the library's nn
    random: bool = False  # draws random numbers when training, so that only eval mode compares
    tolerance: float = 1e-9  # in float64; more where torch's own kernel rounds
    note: str = ""

    def __str__(self) -> str:
        settings = ",".join([*map(_short, self.args), *[f"{k}={_short(v)}" for k, v in self.settings.items()]])
        return f"{self.name}({settings}){self.note}"


def _short(value: Any) -> str:
    return "array" if isinstance(value, np.ndarray) else str(value).replace(" ", "")


def integers(high: int, *shape: int, low: int = 0) -> Draw:
    """Integers from `low` to below `high`."""
    return lambda rng: rng.integers(low, high, shape)


def counts(high: int, *shape: int) -> Draw:
    """Whole numbers as floating-point ones: torch takes the logarithm of integers in float32, whatever the input."""
    return lambda rng: rng.integers(0, high, shape).astype("float64")


def between(low: float, high: float, *shape: int) -> Draw:
    """Uniform numbers."""
    return lambda rng: rng.uniform(low, high, shape)


def signs(*shape: int) -> Draw:
    """1 and -1, as floating-point numbers."""
    return lambda rng: rng.integers(0, 2, shape) * 2.0 - 1.0


def distribution(*shape: int, axis: int = 1) -> Draw:
    """Probabilities along an axis."""

    def draw(rng: np.random.Generator) -> Array:
        e = np.exp(rng.normal(size=shape))
        return e / e.sum(axis, keepdims=True)

    return draw


def hidden(*shape: int) -> Draw:
    """A boolean mask that hides about a third and leaves the first key of every query."""

    def draw(rng: np.random.Generator) -> Array:
        mask = rng.uniform(size=shape) < 0.35
        mask[..., 0] = False
        return mask

    return draw


def later(queries: int, keys: int) -> Draw:
    """A boolean mask of the keys that come after their query."""
    return lambda rng: np.arange(queries)[:, None] < np.arange(keys)


def with_ignored(high: int, *shape: int, ignore: int = -100) -> Draw:
    """Class numbers, some of them to be ignored."""

    def draw(rng: np.random.Generator) -> Array:
        target = rng.integers(0, high, shape)
        target.reshape(-1)[::3] = ignore
        return target

    return draw


CLASS_WEIGHTS = np.array([0.5, 2.0, 1.0, 0.25])
IMAGE, SIGNAL, VOLUME = (2, 4, 6, 7), (2, 4, 9), (2, 4, 5, 4, 3)


def _offsets(rng: np.random.Generator) -> Array:
    """Where bags of six rows or more begin, one of them empty."""
    return np.array([0, 2, 2, 5])


LINEAR = [
    Layer("Linear", (5, 3), inputs=((4, 5),)),
    Layer("Linear", (5, 3), {"bias": False}, inputs=((2, 4, 5),)),
    Layer("Linear", (5, 3), inputs=((5,),), note=" of a vector"),
    Layer("Bilinear", (3, 4, 2), inputs=((5, 3), (5, 4))),
    Layer("Bilinear", (3, 4, 2), {"bias": False}, inputs=((2, 5, 3), (2, 5, 4))),
    Layer("Embedding", (7, 3), inputs=(integers(7, 2, 5),)),
    Layer("Embedding", (7, 3), {"padding_idx": 2}, inputs=(integers(7, 4, 5),)),
    Layer("Embedding", (7, 3), {"padding_idx": -1}, inputs=(integers(7, 4, 5),)),
    Layer("Embedding", (7, 3), {"max_norm": 0.8}, inputs=(integers(7, 2, 5),)),
    Layer("Embedding", (7, 3), {"max_norm": 1.0, "norm_type": 1.0, "scale_grad_by_freq": True}, (integers(3, 6),)),
    *[Layer("EmbeddingBag", (7, 3), {"mode": mode}, (integers(7, 4, 3),)) for mode in ("mean", "sum", "max")],
    Layer("EmbeddingBag", (7, 3), {"padding_idx": 1, "mode": "max"}, (integers(3, 4, 3),)),
    Layer("EmbeddingBag", (7, 3), {"max_norm": 0.8, "mode": "sum"}, (integers(7, 6), _offsets, (6,))),
    Layer("EmbeddingBag", (7, 3), {"include_last_offset": True}, (integers(7, 5), _offsets)),
    Layer("Identity", (), inputs=((2, 3),)),
    Layer("Flatten", (), inputs=((2, 3, 4),)),
    Layer("Flatten", (0, 1), inputs=((2, 3, 4),)),
    Layer("Unflatten", (1, (2, 3)), inputs=((2, 6, 2),)),
    Layer("Unflatten", (-1, (2, -1)), inputs=((2, 6),)),
]

CONVOLUTIONS = [
    Layer("Conv1d", (4, 6, 3), inputs=(SIGNAL,)),
    Layer("Conv1d", (4, 6, 3), {"padding": "same", "dilation": 2, "groups": 2}, inputs=(SIGNAL,)),
    Layer("Conv1d", (4, 2, 3), {"padding": 2, "padding_mode": "circular"}, inputs=(SIGNAL,)),
    Layer("Conv2d", (4, 6, 3), inputs=(IMAGE,)),
    Layer("Conv2d", (4, 6, (3, 2)), {"stride": (2, 1), "padding": (1, 0), "bias": False}, inputs=(IMAGE,)),
    Layer("Conv2d", (4, 8, 3), {"groups": 4, "dilation": 2, "padding": 2}, inputs=(IMAGE,)),
    Layer("Conv2d", (4, 2, 3), {"padding": 1, "padding_mode": "reflect"}, inputs=(IMAGE,)),
    Layer("Conv2d", (4, 2, (3, 4)), {"padding": "same", "padding_mode": "replicate"}, inputs=(IMAGE,)),
    Layer("Conv2d", (4, 2, 3), inputs=(IMAGE[1:],), note=" unbatched"),
    Layer("Conv3d", (4, 2, 2), {"padding": 1}, inputs=(VOLUME,)),
    Layer("Conv3d", (4, 2, (1, 2, 3)), {"stride": (2, 1, 1)}, inputs=(VOLUME,)),
    Layer("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}, inputs=(SIGNAL,)),
    Layer("ConvTranspose1d", (4, 6, 3), {"padding": 1, "groups": 2, "bias": False}, inputs=(SIGNAL,)),
    Layer("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1}, inputs=(IMAGE,)),
    Layer("ConvTranspose2d", (4, 6, (2, 3)), {"dilation": 2, "groups": 2}, inputs=(IMAGE,)),
    Layer(
        "ConvTranspose2d", (4, 2, 3), {"stride": 2}, (IMAGE,), {"output_size": (14, 15)}, note=" of a given output size"
    ),
    Layer("ConvTranspose3d", (4, 2, 2), {"stride": 2}, inputs=(VOLUME,)),
]

POOLING = [
    Layer("MaxPool1d", (3,), {"stride": 2, "padding": 1}, inputs=(SIGNAL,)),
    Layer("MaxPool1d", (2,), {"dilation": 2, "ceil_mode": True}, inputs=(SIGNAL,)),
    Layer("MaxPool2d", (2,), inputs=(IMAGE,)),
    Layer("MaxPool2d", ((3, 2),), {"stride": 2, "padding": (1, 0), "ceil_mode": True}, inputs=(IMAGE,)),
    Layer("MaxPool2d", (2,), {"return_indices": True}, inputs=(IMAGE,)),
    Layer("AvgPool1d", (3,), {"stride": 2, "padding": 1}, inputs=(SIGNAL,)),
    Layer("AvgPool1d", (4,), {"ceil_mode": True, "padding": 1, "count_include_pad": False}, inputs=(SIGNAL,)),
    Layer("AvgPool2d", (2,), inputs=(IMAGE,)),
    Layer("AvgPool2d", (3,), {"padding": 1, "count_include_pad": False, "ceil_mode": True}, inputs=(IMAGE,)),
    Layer("AvgPool2d", ((2, 3),), {"stride": 1, "divisor_override": 5}, inputs=(IMAGE,)),
    Layer("AdaptiveAvgPool1d", (4,), inputs=(SIGNAL,)),
    Layer("AdaptiveAvgPool2d", ((3, 7),), inputs=(IMAGE,)),
    Layer("AdaptiveAvgPool2d", ((None, 2),), inputs=(IMAGE,)),
    Layer("AdaptiveAvgPool2d", (1,), inputs=(IMAGE,)),
    Layer("AdaptiveMaxPool1d", (3,), inputs=(SIGNAL,)),
    Layer("AdaptiveMaxPool2d", ((2, 3),), inputs=(IMAGE,)),
    Layer("AdaptiveMaxPool2d", ((4, 3), True), inputs=(IMAGE,)),
    Layer("MaxPool3d", (2,), {"ceil_mode": True}, inputs=(VOLUME,)),
    Layer("MaxPool3d", ((2, 1, 2),), {"stride": 1, "return_indices": True}, inputs=(VOLUME,)),
    Layer("AvgPool3d", (2,), {"padding": 1, "count_include_pad": False}, inputs=(VOLUME,)),
    Layer("AvgPool3d", (2,), {"stride": 1, "divisor_override": 3}, inputs=(VOLUME,)),
    Layer("AdaptiveAvgPool3d", ((2, None, 2),), inputs=(VOLUME,)),
    Layer("AdaptiveMaxPool3d", ((2, 3, 2),), inputs=(VOLUME,)),
    Layer("LPPool1d", (2, 3), inputs=(SIGNAL,)),
    Layer("LPPool2d", (4, 2), {"stride": 1, "ceil_mode": True}, inputs=(IMAGE,)),
    Layer("LPPool3d", (2, 2), inputs=(VOLUME,)),
    Layer("MaxUnpool1d", (2,), inputs=((1, 1, 3), lambda rng: np.array([[[1, 2, 5]]]))),
    Layer("MaxUnpool2d", (2,), inputs=((1, 1, 2, 2), lambda rng: np.array([[[[0, 3], [9, 14]]]]))),
    Layer("MaxUnpool3d", (2,), inputs=((1, 1, 1, 1, 2), lambda rng: np.array([[[[[6, 3]]]]]))),
]

NORMS = [
    Layer("BatchNorm1d", (4,), inputs=((6, 4),)),
    Layer("BatchNorm1d", (4,), {"momentum": 0.3, "eps": 1e-3}, inputs=(SIGNAL,)),
    Layer("BatchNorm2d", (4,), inputs=(IMAGE,)),
    Layer("BatchNorm2d", (4,), {"momentum": None}, inputs=(IMAGE,)),
    Layer("BatchNorm2d", (4,), {"affine": False}, inputs=(IMAGE,)),
    Layer("BatchNorm2d", (4,), {"bias": False}, inputs=(IMAGE,)),
    Layer("BatchNorm2d", (4,), {"track_running_stats": False}, inputs=(IMAGE,)),
    Layer("BatchNorm3d", (4,), inputs=(VOLUME,)),
    Layer("LayerNorm", (5,), inputs=((3, 4, 5),)),
    Layer("LayerNorm", ((4, 5),), {"eps": 1e-2}, inputs=((3, 4, 5),)),
    Layer("LayerNorm", (5,), {"elementwise_affine": False}, inputs=((3, 5),)),
    Layer("LayerNorm", (5,), {"bias": False}, inputs=((3, 5),)),
    Layer("GroupNorm", (2, 4), inputs=(IMAGE,)),
    Layer("GroupNorm", (4, 4), {"affine": False}, inputs=(SIGNAL,)),
    Layer("InstanceNorm1d", (4,), inputs=(SIGNAL,)),
    Layer("InstanceNorm1d", (4,), inputs=(SIGNAL[1:],), note=" unbatched"),
    Layer("InstanceNorm2d", (4,), {"affine": True, "track_running_stats": True}, inputs=(IMAGE,)),
    Layer("InstanceNorm3d", (4,), {"affine": True}, inputs=(VOLUME,)),
    Layer("RMSNorm", (5,), inputs=((3, 4, 5),)),
    Layer("RMSNorm", ((4, 5),), {"eps": 1e-3, "elementwise_affine": False}, inputs=((3, 4, 5),)),
    Layer("LocalResponseNorm", (3,), inputs=(IMAGE,)),
    Layer("LocalResponseNorm", (2,), {"alpha": 0.3, "beta": 0.5, "k": 2.0}, inputs=(SIGNAL,)),
]

SHAPES = [
    Layer("Dropout", (0.4,), inputs=((3, 4),), random=True),
    Layer("Dropout", (0.0,), inputs=((3, 4),)),
    Layer("Dropout", (1.0,), inputs=((3, 4),)),
    Layer("Dropout1d", (), inputs=(SIGNAL,), random=True),
    Layer("Dropout2d", (), inputs=(IMAGE,), random=True),
    Layer("Dropout3d", (), inputs=(VOLUME,), random=True),
    Layer("AlphaDropout", (), inputs=((3, 4),), random=True),
    *[
        Layer(f"{kind}{axes}d", (pads,), inputs=((SIGNAL, IMAGE, VOLUME)[axes - 1],))
        for kind in ("ZeroPad", "ReflectionPad", "ReplicationPad", "CircularPad")
        for axes, pads in ((1, (2, 1)), (1, 2), (2, (2, 1, 0, 3)), (2, 1), (3, (1, 2, 0, 1, 2, 1)))
    ],
    Layer("ConstantPad1d", ((1, 2), 3.5), inputs=(SIGNAL,)),
    Layer("ConstantPad2d", (1, -2.0), inputs=(IMAGE,)),
    Layer("ConstantPad3d", (1, 0.5), inputs=(VOLUME,)),
    Layer("Upsample", (), {"scale_factor": 2}, inputs=(IMAGE,)),
    Layer("Upsample", ((9, 4),), inputs=(IMAGE,)),
    Layer("Upsample", (), {"scale_factor": 1.5, "mode": "bilinear"}, inputs=(IMAGE,)),
    Layer("Upsample", ((9, 10),), {"mode": "bilinear", "align_corners": True}, inputs=(IMAGE,)),
    Layer("Upsample", (12,), {"mode": "linear"}, inputs=(SIGNAL,)),
    Layer("Upsample", ((6, 6, 6),), {"mode": "trilinear"}, inputs=(VOLUME,)),
    Layer("Upsample", (), {"scale_factor": 1.5, "mode": "bicubic", "recompute_scale_factor": True}, (IMAGE,)),
    Layer("UpsamplingNearest2d", (), {"scale_factor": 2}, inputs=(IMAGE,)),
    Layer("UpsamplingBilinear2d", ((5, 9),), inputs=(IMAGE,)),
    Layer("Unfold", ((2, 3),), {"padding": 1, "stride": 2}, inputs=(IMAGE,)),
    Layer("Fold", ((4, 5), 2), inputs=((2, 8, 12),)),
    Layer("ChannelShuffle", (2,), inputs=(IMAGE,)),
    Layer("FeatureAlphaDropout", (), inputs=(IMAGE,), random=True),
    Layer("PixelShuffle", (2,), inputs=(IMAGE,)),
    Layer("PixelUnshuffle", (2,), inputs=((2, 3, 4, 6),)),
    Layer("CosineSimilarity", (), inputs=((4, 5), (4, 5))),
    Layer("CosineSimilarity", (), {"dim": -1, "eps": 1e-3}, inputs=((2, 4, 5), (4, 5))),
    Layer("PairwiseDistance", (), inputs=((4, 5), (4, 5))),
    Layer("PairwiseDistance", (1.0,), {"keepdim": True}, inputs=((4, 5), (4, 5))),
    Layer("PairwiseDistance", (3.0,), inputs=((2, 4, 5), (2, 4, 5))),
]

_PLAIN = (
    "ReLU ReLU6 SiLU SELU Mish Hardswish Sigmoid LogSigmoid Tanh Tanhshrink Softsign GELU ELU CELU LeakyReLU "
    "PReLU Hardtanh Softplus GLU"
)
ACTIVATIONS = [
    *[Layer(name, inputs=(between(-4, 4, 3, 8),)) for name in _PLAIN.split()],
    # torch's derivative has 1/6 rounded to float32, also in float64
    Layer("Hardsigmoid", inputs=(between(-4, 4, 3, 8),), tolerance=1e-7),
    Layer("GELU", ("tanh",), inputs=((3, 4),)),
    Layer("ELU", (0.3,), inputs=((3, 4),)),
    Layer("CELU", (0.3,), inputs=((3, 4),), tolerance=1e-7),  # torch rounds 1 / alpha to float32
    Layer("LeakyReLU", (0.3,), inputs=((3, 4),)),
    Layer("PReLU", (4,), {"init": 0.1}, inputs=(IMAGE,)),
    Layer("PReLU", (), inputs=((5,),), note=" of a vector"),
    Layer("Hardtanh", (-0.5, 2.0), inputs=((3, 4),)),
    Layer("Softplus", (2.0, 3.0), inputs=(between(-4, 4, 3, 8),)),
    Layer("GLU", (0,), inputs=((4, 3),)),
    Layer("Threshold", (0.1, 2.0), inputs=((3, 4),)),
    Layer("Hardshrink", (), inputs=((3, 4),)),
    Layer("Softshrink", (0.2,), inputs=((3, 4),)),
    Layer("RReLU", (0.1, 0.4), inputs=((3, 4),), random=True),
    Layer("Softmin", (-1,), inputs=((3, 4),)),
    Layer("Softmax2d", (), inputs=(IMAGE,)),
    Layer("Softmax", (-1,), inputs=((3, 4),)),
    Layer("Softmax", (1,), inputs=((2, 3, 4),)),
    Layer("LogSoftmax", (0,), inputs=((3, 4),)),
]

RECURRENT = [
    Layer("RNN", (3, 5), inputs=((6, 2, 3),)),
    Layer("RNN", (3, 5, 2, "relu"), {"bias": False, "batch_first": True}, inputs=((2, 6, 3), (2, 2, 5))),
    Layer("RNN", (3, 5, 2), {"bidirectional": True, "dropout": 0.3}, inputs=((6, 2, 3),), random=True),
    Layer("LSTM", (3, 5), inputs=((6, 2, 3),)),
    Layer("LSTM", (3, 5, 2), {"bidirectional": True, "batch_first": True}, inputs=((2, 6, 3),)),
    Layer("LSTM", (3, 5, 2), {"dropout": 1.0}, inputs=((6, 2, 3),)),
    Layer("LSTM", (3, 5), inputs=((6, 3),), note=" unbatched"),
    Layer("LSTM", (3, 5), inputs=((6, 2, 3), ((1, 2, 5), (1, 2, 5))), note=" with a state"),
    Layer("LSTM", (3, 5, 2), {"proj_size": 2, "bidirectional": True}, inputs=((6, 2, 3),)),
    Layer("GRU", (3, 5), inputs=((6, 2, 3), (1, 2, 5))),
    Layer("GRU", (3, 5, 3), {"bidirectional": True}, inputs=((6, 2, 3),)),
    Layer("GRU", (3, 5), {"bias": False}, inputs=((6, 3), (1, 5)), note=" unbatched"),
    Layer("RNNCell", (3, 5), inputs=((2, 3), (2, 5))),
    Layer("RNNCell", (3, 5, False, "relu"), inputs=((2, 3),)),
    Layer("LSTMCell", (3, 5), inputs=((2, 3), ((2, 5), (2, 5)))),
    Layer("LSTMCell", (3, 5), {"bias": False}, inputs=((3,),)),
    Layer("GRUCell", (3, 5), inputs=((2, 3), (2, 5))),
    Layer("GRUCell", (3, 5), inputs=((2, 3),), note=" without a state"),
]

QUERY, MEMORY = (5, 2, 8), (6, 2, 8)
ATTENTION = [
    Layer("MultiheadAttention", (8, 2), inputs=(QUERY, MEMORY, MEMORY)),
    Layer("MultiheadAttention", (8, 2), {}, (QUERY, MEMORY, MEMORY), {"need_weights": False}, note=" no weights"),
    Layer(
        "MultiheadAttention",
        (8, 4),
        {"batch_first": True, "bias": False},
        ((2, 5, 8), (2, 6, 8), (2, 6, 8)),
        {"attn_mask": hidden(5, 6), "key_padding_mask": hidden(2, 6), "average_attn_weights": False},
        note=" masks",
    ),
    Layer(
        "MultiheadAttention",
        (8, 2),
        {},
        (QUERY, MEMORY, MEMORY),
        {"attn_mask": hidden(4, 5, 6), "need_weights": False},
        note=" mask by head",
    ),
    Layer("MultiheadAttention", (8, 2), {}, (QUERY, MEMORY, MEMORY), {"attn_mask": between(-1, 1, 5, 6)}, note=" bias"),
    Layer(
        "MultiheadAttention",
        (8, 2),
        {},
        (QUERY, QUERY, QUERY),
        {"attn_mask": later(5, 5), "is_causal": True, "need_weights": False},
        note=" causal",
    ),
    Layer("MultiheadAttention", (8, 2), {"kdim": 3, "vdim": 4}, (QUERY, (6, 2, 3), (6, 2, 4))),
    Layer(
        "MultiheadAttention",
        (8, 2),
        {"add_bias_kv": True, "add_zero_attn": True},
        (QUERY, MEMORY, MEMORY),
        {"key_padding_mask": hidden(2, 6), "attn_mask": hidden(5, 6)},
    ),
    Layer("MultiheadAttention", (8, 2), inputs=((5, 8), (6, 8), (6, 8)), note=" unbatched"),
    Layer("MultiheadAttention", (8, 2), {"dropout": 0.5}, (QUERY, MEMORY, MEMORY), random=True),
]


def _encoder(norm: bool, **settings: Any) -> Callable[[Any], Any]:
    def build(nn: Any) -> Any:
        layer = nn.TransformerEncoderLayer(8, 2, 12, **settings)
        return nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8) if norm else None, enable_nested_tensor=False)

    return build


def _decoder(nn: Any) -> Any:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 12, 0.0), 2, norm=nn.LayerNorm(8))


SMALL = {"dim_feedforward": 12, "dropout": 0.0}
TRANSFORMERS = [
    Layer("TransformerEncoderLayer", (8, 2), SMALL, (QUERY,)),
    Layer("TransformerEncoderLayer", (8, 2), {**SMALL, "norm_first": True, "activation": "gelu"}, (QUERY,)),
    Layer("TransformerEncoderLayer", (8, 2, 12), inputs=(QUERY,), random=True),
    Layer(
        "TransformerEncoderLayer",
        (8, 2),
        {**SMALL, "batch_first": True, "bias": False, "layer_norm_eps": 1e-3},
        ((2, 5, 8),),
        {"src_mask": later(5, 5), "src_key_padding_mask": hidden(2, 5)},
        note=" masks",
    ),
    Layer("TransformerDecoderLayer", (8, 2), SMALL, (QUERY, MEMORY)),
    Layer(
        "TransformerDecoderLayer",
        (8, 2),
        {**SMALL, "norm_first": True},
        (QUERY, MEMORY),
        {
            "tgt_mask": later(5, 5),
            "memory_mask": hidden(5, 6),
            "tgt_key_padding_mask": hidden(2, 5),
            "memory_key_padding_mask": hidden(2, 6),
        },
        note=" masks",
    ),
    Layer("TransformerEncoder", inputs=(QUERY,), build=_encoder(True, dropout=0.0)),
    Layer(
        "TransformerEncoder",
        inputs=((2, 5, 8),),
        options={"mask": later(5, 5), "src_key_padding_mask": hidden(2, 5)},
        build=_encoder(False, dropout=0.0, batch_first=True, norm_first=True),
        note=" masks",
    ),
    Layer("TransformerDecoder", inputs=(QUERY, MEMORY), options={"tgt_mask": later(5, 5)}, build=_decoder),
    Layer(
        "Transformer",
        (8, 2, 1, 2, 12, 0.0),
        {},
        (MEMORY, QUERY),
        {"tgt_mask": later(5, 5), "src_key_padding_mask": hidden(2, 6), "memory_key_padding_mask": hidden(2, 6)},
    ),
    Layer(
        "Transformer", (8, 2, 1, 1, 12, 0.0, "gelu"), {"norm_first": True, "batch_first": True}, ((2, 6, 8), (2, 5, 8))
    ),
]

PAIR = ((3, 4), (3, 4))


def _in_each_reduction(name: str, settings: dict[str, Any], inputs: tuple[Any, ...], *more: str) -> list[Layer]:
    return [Layer(name, (), {**settings, "reduction": r}, inputs) for r in ("mean", "sum", "none", *more)]


LOSSES = [
    *_in_each_reduction("MSELoss", {}, PAIR),
    *_in_each_reduction("L1Loss", {}, PAIR),
    *_in_each_reduction("SmoothL1Loss", {}, PAIR),
    Layer("SmoothL1Loss", (), {"beta": 0.3}, PAIR),
    Layer("SmoothL1Loss", (), {"beta": 0.0}, PAIR),
    *_in_each_reduction("HuberLoss", {"delta": 0.7}, PAIR),
    *_in_each_reduction("CrossEntropyLoss", {}, ((5, 4), integers(4, 5))),
    Layer("CrossEntropyLoss", (CLASS_WEIGHTS,), {"label_smoothing": 0.2}, ((5, 4), integers(4, 5))),
    Layer("CrossEntropyLoss", (CLASS_WEIGHTS,), {"reduction": "none"}, ((5, 4, 3), integers(4, 5, 3))),
    Layer("CrossEntropyLoss", (), {"label_smoothing": 0.1}, ((6, 4), with_ignored(4, 6)), note=" ignored"),
    Layer("CrossEntropyLoss", (CLASS_WEIGHTS,), {"ignore_index": 1}, ((2, 4, 3, 3), integers(4, 2, 3, 3))),
    Layer("CrossEntropyLoss", (CLASS_WEIGHTS,), {"label_smoothing": 0.1}, ((5, 4), distribution(5, 4)), note=" soft"),
    Layer("CrossEntropyLoss", (), {}, ((4,), integers(4)), note=" of a vector"),
    *_in_each_reduction("NLLLoss", {}, ((5, 4), integers(4, 5))),
    Layer("NLLLoss", (CLASS_WEIGHTS,), {"ignore_index": 2}, ((5, 4, 3), integers(4, 5, 3))),
    *_in_each_reduction("BCELoss", {}, (between(0.05, 0.95, 3, 4), between(0, 1, 3, 4))),
    Layer("BCELoss", (CLASS_WEIGHTS,), {}, (between(0.05, 0.95, 3, 4), between(0, 1, 3, 4))),
    *_in_each_reduction("BCEWithLogitsLoss", {}, ((3, 4), between(0, 1, 3, 4))),
    Layer("BCEWithLogitsLoss", (), {"pos_weight": CLASS_WEIGHTS}, ((3, 4), between(0, 1, 3, 4))),
    Layer("BCEWithLogitsLoss", (CLASS_WEIGHTS,), {}, ((3, 4), between(0, 1, 3, 4))),
    *_in_each_reduction("KLDivLoss", {}, ((3, 4), distribution(3, 4)), "batchmean"),
    Layer("KLDivLoss", (), {"log_target": True, "reduction": "batchmean"}, PAIR),
    *_in_each_reduction("HingeEmbeddingLoss", {}, ((3, 4), signs(3, 4))),
    Layer("HingeEmbeddingLoss", (0.3,), {}, ((3, 4), signs(3, 4))),
    *_in_each_reduction("MarginRankingLoss", {}, ((5,), (5,), signs(5))),
    Layer("MarginRankingLoss", (0.4,), {}, ((5,), (5,), signs(5))),
    *_in_each_reduction("CosineEmbeddingLoss", {}, ((5, 3), (5, 3), signs(5))),
    Layer("CosineEmbeddingLoss", (0.2,), {}, ((5, 3), (5, 3), signs(5))),
    *_in_each_reduction("TripletMarginLoss", {}, ((5, 3), (5, 3), (5, 3))),
    Layer("TripletMarginLoss", (0.5, 3.0, 1e-3, True), {}, ((5, 3), (5, 3), (5, 3))),
    *_in_each_reduction("SoftMarginLoss", {}, ((3, 4), lambda rng: rng.integers(0, 2, (3, 4)) * 2 - 1)),
    *_in_each_reduction("MultiLabelMarginLoss", {}, ((3, 4), integers(4, 3, 4, low=-1))),
    *_in_each_reduction("MultiLabelSoftMarginLoss", {}, ((3, 4), counts(2, 3, 4))),
    Layer("MultiLabelSoftMarginLoss", (CLASS_WEIGHTS,), {}, ((3, 4), counts(2, 3, 4))),
    *_in_each_reduction("MultiMarginLoss", {}, ((5, 4), integers(4, 5))),
    Layer("MultiMarginLoss", (2, 0.5, CLASS_WEIGHTS), {}, ((5, 4), integers(4, 5))),
    *_in_each_reduction("TripletMarginWithDistanceLoss", {"margin": 0.7, "swap": True}, ((5, 3), (5, 3), (5, 3))),
    *_in_each_reduction("PoissonNLLLoss", {}, ((3, 4), integers(6, 3, 4))),
    Layer("PoissonNLLLoss", (False, True), {}, (between(0.1, 3, 3, 4), counts(6, 3, 4))),
    *_in_each_reduction("GaussianNLLLoss", {}, ((3, 4), (3, 4), between(0.1, 2, 3, 4))),
    Layer("GaussianNLLLoss", (), {"full": True, "eps": 0.5}, ((3, 4), (3, 4), between(0.1, 2, 3, 1))),
]

LAYERS = [
    *LINEAR,
    *CONVOLUTIONS,
    *POOLING,
    *NORMS,
    *SHAPES,
    *ACTIVATIONS,
    *RECURRENT,
    *ATTENTION,
    *TRANSFORMERS,
    *LOSSES,
]


def drawn(spec: Any, rng: np.random.Generator, dtype: str) -> Any:
    """An input: a shape or a function becomes an array, a tuple of shapes a tuple of arrays."""
    if isinstance(spec, tuple) and spec and isinstance(spec[0], tuple):
        return tuple(drawn(part, rng, dtype) for part in spec)
    array = np.asarray(spec(rng) if callable(spec) else rng.normal(size=spec))
    return array.astype(dtype) if array.dtype.kind == "f" else array


def made(layer: Layer, library: Any, dtype: str) -> Any:
    """A layer as a module of wengert or torch."""
    if layer.build is not None:
        return layer.build(library.nn).to(getattr(library, dtype))

    def converted(value: Any) -> Any:
        return library.tensor(value.astype(dtype)) if isinstance(value, np.ndarray) else value

    args = [converted(value) for value in layer.args]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's advice on its own short cuts
        kind = getattr(library.nn, layer.name)
        return kind(*args, **{key: converted(value) for key, value in layer.settings.items()}).to(
            getattr(library, dtype)
        )


_LAZY = ("Conv", "ConvTranspose", "BatchNorm", "InstanceNorm")
WITHOUT_COUNTERPART = {
    "Module": "tests/nn/test_module.py",
    "ModuleDict": "tests/nn/test_module.py",
    "ModuleList": "tests/nn/test_module.py",
    "Parameter": "tests/nn/test_module.py",
    "ParameterDict": "tests/nn/test_module_as_torchs.py",
    "ParameterList": "tests/nn/test_module.py",
    "Sequential": "tests/nn/test_module.py",
    **dict.fromkeys((f"Lazy{kind}{rank}d" for kind in _LAZY for rank in (1, 2, 3)), "tests/nn/test_lazy.py"),
    "LazyLinear": "tests/nn/test_lazy.py",
    "AdaptiveLogSoftmaxWithLoss": "tests/nn/test_adaptive_softmax.py",
    "CTCLoss": "tests/nn/test_ctc.py",
    "FractionalMaxPool2d": "tests/ops/cases_images.py",
    "FractionalMaxPool3d": "tests/ops/cases_images.py",
    "RotaryEmbedding": "tests/nn/test_layers.py",
    "PackedSequence": "tests/nn/test_sequences.py",
}
"""Public classes that this table does not compare with torch, and where they are tested."""
