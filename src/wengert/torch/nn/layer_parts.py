"""What layers have otherwise than Wengert's: attributes that PyTorch's programs read, and what their repr shows."""

from __future__ import annotations

import functools
import inspect
from typing import Any

import wengert as wg
from wengert.torch.creation import type_name
from wengert.torch.nn.accepted import require_one_dtype
from wengert.torch.nn.functional.attention import check_causal
from wengert.torch.nn.module import adopted, layer_of, part_of, parts, property_of, set_up
from wengert.torch.nn.parameter import Parameter
from wengert.torch.tensor import write

# --- forward ----------------------------------------------------------------------------------------------------------


def _of_one_dtype(layer: str) -> None:
    """Have a layer refuse an input of another dtype than its weight's."""
    base = getattr(wg.nn, layer).forward

    @part_of(layer, called="forward")
    @functools.wraps(base)
    def forward(self: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
        require_one_dtype(layer, input, self.__dict__.get("weight"))  # a parametrized one is computed when it is read
        return base(self, input, *args, **kwargs)


for _layer in ("Linear", *(f"Conv{how}{n}d" for how in ("", "Transpose") for n in (1, 2, 3))):
    _of_one_dtype(_layer)

# --- attributes -------------------------------------------------------------------------------------------------------


@property_of("PairwiseDistance")
def norm(self: Any) -> Any:
    """The exponent."""
    return self.p


@property_of("RNN", "LSTM", "GRU")
def mode(self: Any) -> str:
    """The kind of recurrent layer."""
    return f"RNN_{self.nonlinearity.upper()}" if type(self).__name__ == "RNN" else self._get_name().upper()


@property_of("RNN", "LSTM", "GRU")
def _flat_weights(self: Any) -> list[Any]:
    """All parameters in their order."""
    return list(self.parameters())


@property_of("RNN", "LSTM", "GRU")
def _flat_weights_names(self: Any) -> list[str]:
    """The names of all parameters in their order."""
    return [name for name, _ in self.named_parameters()]


@property_of("RNN", "LSTM", "GRU")
def _all_weights(self: Any) -> list[list[str]]:
    """The names of the parameters of each layer and direction."""
    names, ends = self._flat_weights_names, []
    for name in names:
        end = name.partition("_l")[2]
        if end not in ends:
            ends.append(end)
    return [[name for name in names if name.endswith(f"_l{end}")] for end in ends]


@property_of("RNN", "LSTM", "GRU")
def all_weights(self: Any) -> list[list[Any]]:
    """The parameters of each layer and direction."""
    return [[getattr(self, name) for name in names] for names in self._all_weights]


@part_of("RNN", "LSTM", "GRU")
def flatten_parameters(self: Any) -> None:
    """Do nothing: parameters need no flattening."""


@property_of("RNNCell", "LSTMCell", "GRUCell")
def bias(self: Any) -> bool:
    """Whether there are biases."""
    return self.bias_ih is not None


@property_of("MultiheadAttention")
def head_dim(self: Any) -> int:
    """The number of features in each head."""
    return self.embed_dim // self.num_heads


@property_of("MultiheadAttention")
def _qkv_same_embed_dim(self: Any) -> bool:
    """Whether one weight makes queries, keys and values."""
    return self.in_proj_weight is not None


@property_of("TransformerEncoderLayer")
def activation_relu_or_gelu(self: Any) -> int:
    """1 for relu, 2 for gelu, 0 for another."""
    return {"relu": 1, "gelu": 2}.get(getattr(self.activation, "__name__", type(self.activation).__name__.lower()), 0)


@property_of("TransformerEncoder")
def enable_nested_tensor(self: Any) -> bool:
    """Whether padding rows may be skipped for speed; it does not change results."""
    return True


@property_of("TransformerEncoder")
def mask_check(self: Any) -> bool:
    """Whether masks are looked at first for that."""
    return True


@property_of("TransformerEncoder")
def use_nested_tensor(self: Any) -> bool:
    """Whether padding is left out."""
    return False


@property_of("ReLU6")
def min_val(self: Any) -> float:
    """The least value."""
    return 0.0


@property_of("ReLU6")
def max_val(self: Any) -> float:
    """The largest value."""
    return 6.0


@property_of("ZeroPad1d", "ZeroPad2d", "ZeroPad3d")
def value(self: Any) -> float:
    """What is put around."""
    return 0.0


@property_of("_ConvBase")
def _reversed_padding_repeated_twice(self: Any) -> Any:
    """How far is padded before and after, from the last axis to the first."""
    if self.transposed:
        return tuple(p for p in reversed(self.padding) for _ in range(2))
    if self.padding == "valid":
        return [0] * (2 * self.axes)
    found = self._pairs()
    return list(found) if isinstance(self.padding, str) else found


@part_of("MultiheadAttention")
def forward(
    self: Any,
    query: Any,
    key: Any,
    value: Any,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> Any:
    """What the queries find, and where they looked if `need_weights`."""
    check_causal(is_causal, attn_mask)
    masks = (key_padding_mask, need_weights, attn_mask, average_attn_weights)
    return wg.nn.MultiheadAttention.forward(self, query, key, value, *masks, is_causal)


# --- in place ---------------------------------------------------------------------------------------------------------


def _perhaps_in_place(kind: Any) -> Any:
    """The layer's forward, which with `inplace=True` gives its input the result too."""

    @functools.wraps(kind.forward)
    def forward(self: Any, input: Any) -> Any:
        result = kind.forward(self, input)
        return write(input, result) if self.inplace and result is not input else result

    return forward


for _name, _kind in vars(wg.nn).items():
    if isinstance(_kind, type) and "inplace" in inspect.signature(_kind).parameters:
        parts.setdefault(_name, {})["forward"] = _perhaps_in_place(_kind)


# --- text -------------------------------------------------------------------------------------------------------------


def _nothing(self: Any) -> str:
    """No settings are shown."""
    return ""


for _name in (
    "CosineSimilarity",
    "PairwiseDistance",
    "MultiheadAttention",
    "_FractionalMaxPool",
    "Hardswish",
    "Hardsigmoid",
):
    parts.setdefault(_name, {})["extra_repr"] = _nothing


@part_of("RReLU", "Threshold", "LeakyReLU", "ELU", "CELU", "Hardtanh", "ReLU6")
def extra_repr(self: Any) -> str:
    """The settings, and whether it works in place."""
    if type(self).__name__ == "ReLU6":
        return "inplace=True" if self.inplace else ""
    base: Any = next(kind for kind in type(self).__mro__ if kind.__module__ == "wengert.nn.activation")
    return base.extra_repr(self) + (", inplace=True" if self.inplace else "")


# --- constructors -----------------------------------------------------------------------------------------------------


@part_of("Hardtanh", called="__init__")
def _hardtanh(
    self: Any,
    min_val: float = -1.0,
    max_val: float = 1.0,
    inplace: bool = False,
    min_value: float | None = None,
    max_value: float | None = None,
) -> None:
    """`min_value` and `max_value` are what the bounds were once called."""
    set_up(self)
    low, high = (min_val if min_value is None else min_value), (max_val if max_value is None else max_value)
    if not low < high:
        raise AssertionError("max_val must be larger than min_val")
    wg.nn.Hardtanh.__init__(self, low, high, inplace)


@part_of("ModuleDict", called="__init__")
def _module_dict(self: Any, modules: Any = None) -> None:
    """Modules by name, from a mapping or from pairs."""
    set_up(self)
    wg.nn.ModuleDict.__init__(self, () if modules is None else modules)


@part_of("ModuleList", called="__init__")
def _module_list(self: Any, modules: Any = None) -> None:
    """Modules in order."""
    set_up(self)
    wg.nn.ModuleList.__init__(self, () if modules is None else modules)


@part_of("ParameterList", called="__init__")
def _parameter_list(self: Any, values: Any = None) -> None:
    """Parameters in order; a tensor becomes one."""
    set_up(self)
    wg.nn.ParameterList.__init__(self, () if values is None else values)


def _listed(name: str, part: Any, dtype: str) -> str:
    """A line of a container's repr about a parameter, or whatever else it has."""
    if not isinstance(part, wg.Tensor):
        return f"  ({name}): Object of type: {type(part).__name__}"
    kind = "Parameter" if isinstance(part, Parameter) else "Tensor"
    place = "" if part.node.device == "cpu" else f" ({part.device})"
    sizes = "x".join(str(size) for size in part.shape)
    return f"  ({name}): {kind} containing: [{dtype} of size {sizes}{place}]"


@part_of("ParameterList", called="extra_repr")
def _extra_repr_in_order(self: Any) -> str:
    """A line for each parameter."""
    return "\n".join(_listed(str(i), part, str(part.dtype)) for i, part in enumerate(self))


@part_of("ParameterDict", called="extra_repr")
def _extra_repr_by_name(self: Any) -> str:
    """A line for each parameter, with the name of its type."""
    return "\n".join(_listed(str(name), part, type_name(part)) for name, part in self.items())


@part_of("ParameterDict", called="__init__")
def _parameter_dict(self: Any, parameters: Any = None) -> None:
    """Parameters by name, from a mapping or from pairs."""
    set_up(self)
    wg.nn.ParameterDict.__init__(self, () if parameters is None else parameters)


@part_of("Sequential", called="__init__")
def _sequential(self: Any, *args: Any) -> None:
    """Modules in order, or one mapping of them by name."""
    set_up(self)
    wg.nn.Sequential.__init__(self, *args)


# --- Sequential -------------------------------------------------------------------------------------------------------


@part_of("Sequential")
def __getitem__(self: Any, idx: Any) -> Any:
    """A module, or some of them, under the names they have."""
    if isinstance(idx, slice):
        return type(self)(dict(list(self.named_children())[idx]))
    return wg.nn.Sequential.__getitem__(self, idx)


@part_of("Sequential")
def __add__(self: Any, other: Any) -> Any:
    """The modules of both, numbered anew."""
    if not isinstance(other, wg.nn.Sequential):
        raise ValueError(f"add operator supports only objects of Sequential class, but {type(other)} is given.")
    return layer_of(wg.nn.Sequential)(*self, *other)


@part_of("Sequential")
def __mul__(self: Any, other: int) -> Any:
    """The same modules, several times over."""
    if not isinstance(other, int):
        raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(other)}")
    if other <= 0:
        raise ValueError(f"Non-positive multiplication factor {other} for {type(self)}")
    return layer_of(wg.nn.Sequential)(*list(self) * other)


parts["Sequential"]["__rmul__"] = __mul__


# --- what is changed when a layer is made -----------------------------------------------------------------------------


@part_of("AvgPool1d", called="_adapt")
def _with_tuples(self: Any) -> None:
    """A tuple for each size, as PyTorch has it of this layer alone."""
    if type(self).__name__ == "AvgPool1d":
        for name in ("kernel_size", "stride", "padding"):
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(given) if isinstance(given, (tuple, list)) else (given,))


@part_of("_FractionalMaxPool", called="_adapt")
def _with_sizes(self: Any) -> None:
    """A number for each axis."""
    axes = int(type(self).__name__[-2])
    for name in ("kernel_size", "output_size", "output_ratio"):
        given = getattr(self, name)
        if given is not None:
            sizes = tuple(given) if isinstance(given, (tuple, list)) else (given,) * axes
            object.__setattr__(self, name, sizes)


@part_of("Upsample", "UpsamplingNearest2d", "UpsamplingBilinear2d", called="_adapt")
def _with_floats(self: Any) -> None:
    """Scale factors are floats, and the layer says its name."""
    by = self.scale_factor
    if by is not None:
        object.__setattr__(self, "scale_factor", tuple(map(float, by)) if isinstance(by, tuple) else float(by))
    object.__setattr__(self, "name", type(self).__name__)


@part_of("TripletMarginWithDistanceLoss", called="_adapt")
def _with_distance(self: Any) -> None:
    """The distance is a layer, if none is given."""
    if self.distance_function is None:
        self.distance_function = layer_of(wg.nn.PairwiseDistance)()


@part_of("MultiheadAttention", called="_adapt")
def _with_last_layer(self: Any) -> None:
    """The last layer has a class of its own."""
    from wengert.torch.nn.extra_layers import NonDynamicallyQuantizableLinear

    adopted(self.out_proj).__class__ = NonDynamicallyQuantizableLinear
