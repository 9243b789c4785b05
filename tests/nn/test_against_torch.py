"""Every layer, loss and initialiser against torch with the same weights, which travel through `state_dict`.

Forward and all gradients in train and eval mode, float64 to 1e-9 and float32 to rounding; buffers after three training
steps; state dicts there and back; the distributions of initial values. The table is in `layers.py`.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import wengert as wg
from tests.nn.layers import LAYERS, WITHOUT_COUNTERPART, Layer, drawn, made

torch = pytest.importorskip("torch", reason="torch is what the layers are compared with")

pytestmark = [
    pytest.mark.filterwarnings("ignore:reduction"),  # torch's KLDivLoss advises against "mean"
    pytest.mark.filterwarnings("ignore:LSTM with projections"),
]
MODES = [(dtype, training) for dtype in ("float64", "float32") for training in (True, False)]
CASES = [
    pytest.param(layer, dtype, training, id=f"{layer}-{dtype}-{'train' if training else 'eval'}")
    for layer in LAYERS
    for dtype, training in MODES
    if not (layer.random and training)
]


def _pair(layer: Layer, dtype: str, training: bool) -> tuple[Any, Any]:
    """The layer of both libraries, with torch's weights, made a little irregular, in both."""
    torch.manual_seed(1)
    theirs = made(layer, torch, dtype).train(training)
    with torch.no_grad():
        for name, slot in [*theirs.named_parameters(), *theirs.named_buffers()]:
            if slot.is_floating_point() and name != "weight":
                slot += 0.1 * torch.rand_like(slot)
    ours = made(layer, wg, dtype).train(training)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def _tensors(library: Any, value: Any, leaves: list[Any]) -> Any:
    """An array as a tensor, to differentiate by if it is floating; tuples within."""
    if isinstance(value, tuple):
        return tuple(_tensors(library, part, leaves) for part in value)
    tensor = (wg.tensor if library is wg else torch.tensor)(value)
    if value.dtype.kind == "f":
        tensor.requires_grad_(True)
        leaves.append(tensor)
    return tensor


def _flat(output: Any) -> list[Any]:
    if isinstance(output, tuple):
        return [leaf for part in output for leaf in _flat(part)]
    return [] if output is None else [output]


def _run(library: Any, model: Any, inputs: list[Any], options: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """The outputs, and the gradients of a fixed mixture of them by the inputs and the parameters."""
    leaves: list[Any] = []
    args = [_tensors(library, value, leaves) for value in inputs]
    kwargs = {key: _tensors(library, v, leaves) if isinstance(v, np.ndarray) else v for key, v in options.items()}
    outputs = _flat(model(*args, **kwargs))
    rng = np.random.default_rng(7)
    total: Any = 0.0
    for y in outputs:
        mixture = rng.normal(size=tuple(y.shape))
        if "float" in str(y.dtype) and y.requires_grad:
            total = total + (y * _tensors(library, mixture.astype(str(y.dtype).split(".")[-1]), [])).sum()
    if not isinstance(total, float):
        total.backward()
    parameters = sorted(model.named_parameters(), key=lambda item: item[0])
    return outputs, [leaf.grad for leaf in leaves] + [parameter.grad for _, parameter in parameters]


def _array(tensor: Any) -> np.ndarray[Any, Any]:
    return np.asarray(tensor.detach().numpy())


def _assert_same(ours: list[Any], theirs: list[Any], dtype: str, what: str, tolerance: float = 1e-9) -> None:
    tolerance = tolerance if dtype == "float64" else 2e-5
    assert len(ours) == len(theirs), what
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if a is None or b is None:
            zero = next((x for x in (a, b) if x is not None), None)
            assert zero is None or not np.any(_array(zero)), f"{what} {i}: one is None, the other not zero"
            continue
        a, b = _array(a), _array(b)
        assert a.shape == b.shape, f"{what} {i}: {a.shape} and {b.shape}"
        assert a.dtype == b.dtype, f"{what} {i}: {a.dtype} and {b.dtype}"
        scale = max(1.0, float(np.abs(b).max())) if b.size else 1.0
        np.testing.assert_allclose(a, b, rtol=0, atol=scale * tolerance, err_msg=what)


@pytest.mark.parametrize("layer, dtype, training", CASES)
def test_forward_and_gradients(layer: Layer, dtype: str, training: bool) -> None:
    ours, theirs = _pair(layer, dtype, training)
    rng = np.random.default_rng(3)
    inputs = [drawn(spec, rng, dtype) for spec in layer.inputs]
    options = {key: drawn(spec, rng, dtype) if callable(spec) else spec for key, spec in layer.options.items()}
    if training and layer.options.get("is_causal"):
        assert "attn_mask" in options, "torch takes is_causal as a hint beside a mask"
    found, expected = _run(wg, ours, inputs, options), _run(torch, theirs, inputs, options)
    _assert_same(found[0], expected[0], dtype, "output")
    _assert_same(found[1], expected[1], dtype, "gradient", layer.tolerance)


@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_nothing_looks_at_a_value(layer: Layer) -> None:
    """A layer records on abstract inputs, as `compile` will have it do, and gives what it gives on real ones."""
    ours, _ = _pair(layer, "float64", training=False)
    rng = np.random.default_rng(3)
    arrays = [drawn(spec, rng, "float64") for spec in layer.inputs]
    options = {key: drawn(spec, rng, "float64") if callable(spec) else spec for key, spec in layer.options.items()}
    kwargs = {key: wg.tensor(v) if isinstance(v, np.ndarray) else v for key, v in options.items()}
    inputs = [_tensors(wg, value, []) for value in arrays]
    direct = ours(*inputs, **kwargs)
    once = wg.tree.map(lambda x: wg.expand_dims(x.detach(), 0), inputs)
    _, stacked = wg.scan(lambda carry, xs: (carry, ours(*xs, **kwargs)), (), once)
    _assert_same([y[0] for y in _flat(stacked)], _flat(direct), "float64", "output")


WITH_BUFFERS = [layer for layer in LAYERS if layer.name.startswith(("BatchNorm", "InstanceNorm")) and not layer.random]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("layer", WITH_BUFFERS, ids=str)
def test_buffers_after_three_steps(layer: Layer, dtype: str) -> None:
    ours, theirs = _pair(layer, dtype, True)
    rng = np.random.default_rng(5)
    for _ in range(3):
        inputs = [drawn(spec, rng, dtype) for spec in layer.inputs]
        _run(wg, ours, inputs, {})
        _run(torch, theirs, inputs, {})
    buffers = dict(theirs.named_buffers())
    assert sorted(buffers) == sorted(name for name, _ in ours.named_buffers())
    for name, buffer in ours.named_buffers():
        _assert_same([buffer], [buffers[name]], dtype, name)


WITH_STATE = [layer for layer in LAYERS if len(made(layer, torch, "float32").state_dict())]


@pytest.mark.parametrize("layer", WITH_STATE, ids=str)
def test_state_dict_there_and_back(layer: Layer) -> None:
    ours, theirs = made(layer, wg, "float32"), made(layer, torch, "float32")
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    state = ours.state_dict()
    assert list(state) == list(theirs.state_dict()), "the names, in torch's order"
    for name, value in theirs.state_dict().items():
        np.testing.assert_array_equal(state[name].numpy(), value.numpy())
        assert str(value.dtype) == f"torch.{state[name].dtype}"
    other = made(layer, wg, "float32")
    theirs.load_state_dict({name: torch.tensor(value.numpy()) for name, value in other.state_dict().items()})
    ours.load_state_dict(theirs.state_dict())
    for name, value in other.state_dict().items():
        np.testing.assert_array_equal(ours.state_dict()[name].numpy(), value.numpy())


def _initial_values(layer: Layer, library: Any, copies: int) -> dict[str, np.ndarray[Any, Any]]:
    models = [dict(made(layer, library, "float32").named_parameters()) for _ in range(copies)]
    names = list(models[0])
    return {name: np.concatenate([_array(model[name]).ravel() for model in models]) for name in names}


def _assert_same_distribution(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any], what: str) -> None:
    if theirs.std() == 0:
        np.testing.assert_array_equal(ours, theirs, err_msg=what)
        return
    # Seeds are fixed, so that a pass stays a pass: one in ten thousand honest draws would fail here.
    assert stats.ks_2samp(ours, theirs).pvalue > 1e-4, what
    assert abs(ours.mean() - theirs.mean()) < 6 * theirs.std() / math.sqrt(theirs.size) + 1e-7, what
    assert abs(ours.std() / theirs.std() - 1) < 10 / math.sqrt(theirs.size), what


def _with_parameters() -> list[Layer]:
    return [layer for layer in LAYERS if list(made(layer, torch, "float32").parameters())]


@pytest.mark.parametrize("layer", _with_parameters(), ids=str)
def test_initial_values_have_torchs_distribution(layer: Layer) -> None:
    wg.manual_seed(11)
    torch.manual_seed(11)
    copies = 20
    ours, theirs = (_initial_values(layer, library, copies) for library in (wg, torch))
    assert list(ours) == list(theirs)
    for name in theirs:
        _assert_same_distribution(ours[name], theirs[name], name)


INITIALISERS: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("uniform_", (60, 50), {}),
    ("uniform_", (60, 50), {"a": -2.0, "b": 0.5}),
    ("normal_", (60, 50), {}),
    ("normal_", (60, 50), {"mean": 3.0, "std": 0.1}),
    ("trunc_normal_", (60, 50), {}),
    ("trunc_normal_", (60, 50), {"mean": 0.5, "std": 2.0, "a": -1.0, "b": 1.0}),
    ("trunc_normal_", (60, 50), {"std": 0.02}),
    ("constant_", (3, 4), {"val": 0.3}),
    ("ones_", (3, 4), {}),
    ("zeros_", (3, 4), {}),
    ("eye_", (3, 5), {}),
    ("dirac_", (6, 4, 3), {}),
    ("dirac_", (6, 2, 3, 5), {"groups": 3}),
    ("dirac_", (4, 4, 2, 3, 3), {"groups": 2}),
    ("xavier_uniform_", (60, 50), {}),
    ("xavier_uniform_", (16, 8, 3, 5), {"gain": 2.0}),
    ("xavier_normal_", (60, 50), {"gain": 0.5}),
    ("xavier_normal_", (16, 8, 3, 5), {}),
    ("kaiming_uniform_", (60, 50), {}),
    ("kaiming_uniform_", (16, 8, 3, 5), {"a": 0.5, "mode": "fan_out"}),
    ("kaiming_normal_", (16, 8, 3, 5), {"mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_normal_", (60, 50), {"nonlinearity": "tanh"}),
    ("orthogonal_", (60, 50), {}),
    ("orthogonal_", (20, 8, 5), {"gain": 2.0}),
    ("sparse_", (60, 50), {"sparsity": 0.3}),
]


@pytest.mark.parametrize("name, shape, settings", INITIALISERS, ids=lambda value: str(value).replace(" ", ""))
def test_initialiser(name: str, shape: tuple[int, ...], settings: dict[str, Any]) -> None:
    wg.manual_seed(2)
    torch.manual_seed(2)
    ours = getattr(wg.nn.init, name)(wg.nn.Parameter(wg.full(shape, 7.0)), **settings)
    theirs = getattr(torch.nn.init, name)(torch.nn.Parameter(torch.full(shape, 7.0)), **settings)
    assert isinstance(ours, wg.nn.Parameter) and ours.requires_grad and ours.is_leaf
    a, b = ours.detach().numpy(), theirs.detach().numpy()
    if name in ("eye_", "dirac_"):
        np.testing.assert_array_equal(a, b)
    else:
        _assert_same_distribution(a.ravel(), b.ravel(), name)
    if name == "orthogonal_":
        for array in (a, b):
            flat = array.reshape(shape[0], -1)
            gram = flat @ flat.T if flat.shape[0] < flat.shape[1] else flat.T @ flat
            np.testing.assert_allclose(gram, settings.get("gain", 1.0) ** 2 * np.eye(len(gram)), atol=1e-5)
    if name == "sparse_":
        np.testing.assert_array_equal((a == 0).sum(0), (b == 0).sum(0))
    if name == "trunc_normal_":
        low, high = settings.get("a", -2.0), settings.get("b", 2.0)
        assert low <= a.min() and a.max() <= high


@pytest.mark.parametrize("shape", [(3, 4), (8, 3, 5), (8, 3, 5, 2), (4, 2, 3, 3, 3), (0, 4)])
def test_fans_are_torchs(shape: tuple[int, ...]) -> None:
    expected = torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(shape))
    assert wg.nn.init.fan_in_and_fan_out(wg.empty(shape)) == expected


@pytest.mark.parametrize(
    "nonlinearity, param",
    [(n, None) for n in ("linear", "conv2d", "conv_transpose3d", "sigmoid", "tanh", "relu", "selu", "leaky_relu")]
    + [("leaky_relu", 0.2)],
)
def test_gains_are_torchs(nonlinearity: str, param: float | None) -> None:
    assert wg.nn.init.calculate_gain(nonlinearity, param) == torch.nn.init.calculate_gain(nonlinearity, param)


LEFT_OUT = {
    "": {"size_average", "reduce"},  # retired in torch
    "Hardtanh": {"min_value", "max_value"},  # retired in torch
}
"""Arguments of torch's layers that ours do not take."""


@pytest.mark.parametrize("name", sorted({layer.name for layer in LAYERS} - {"RNN", "LSTM", "GRU"}))
def test_arguments_have_torchs_names_order_and_defaults(name: str) -> None:
    for method in ("__init__", "forward"):
        theirs = dict(inspect.signature(getattr(getattr(torch.nn, name), method)).parameters)
        ours = inspect.signature(getattr(getattr(wg.nn, name), method)).parameters
        for left_out in LEFT_OUT[""] | LEFT_OUT.get(name, set()):
            theirs.pop(left_out, None)
        assert list(ours) == list(theirs), method
        for argument, parameter in theirs.items():
            if not callable(parameter.default) or parameter.default is inspect.Parameter.empty:
                assert ours[argument].default == parameter.default, argument


def test_every_public_class_is_compared_or_tested_elsewhere() -> None:
    public = {name for name in wg.nn.__all__ if isinstance(getattr(wg.nn, name), type)}
    assert public == {layer.name for layer in LAYERS} | WITHOUT_COUNTERPART.keys()
