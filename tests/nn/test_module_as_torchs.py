"""The same classes over `wg.nn` and `torch.nn`: overridden methods are called, and a module is held the same way."""

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import wengert as wg


@pytest.fixture(params=["wengert", "torch"])
def lib(request: Any) -> Any:
    return wg if request.param == "wengert" else pytest.importorskip("torch", reason="the same is asked of torch")


def of(tensor: Any) -> list[Any]:
    found: list[Any] = tensor.detach().tolist()
    return found


def ones(lib: Any, *shape: int) -> Any:
    return lib.ones(shape)


# --- overridden methods ---------------------------------------------------------------------------------------------


def test_a_childs_train_is_called(lib: Any) -> None:
    class Frozen(lib.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.bn = lib.nn.BatchNorm1d(2)

        def train(self, mode: bool = True) -> Any:
            super().train(mode)
            self.bn.eval()
            return self

        def forward(self, x: Any) -> Any:
            return self.bn(x)

    model = lib.nn.Sequential(lib.nn.Sequential(Frozen()))
    assert model.train() is model and model.training and model[0][0].training
    model(lib.tensor([[1.0, 2.0], [5.0, 9.0]]))
    assert not model[0][0].bn.training and of(model[0][0].bn.running_mean) == [0.0, 0.0]
    assert not model.eval().training
    with pytest.raises(ValueError):
        model.train("yes")


def test_apply_moves_and_representations_are_called(lib: Any) -> None:
    seen: list[Any] = []

    class Noted(lib.nn.Linear):  # type: ignore[misc, name-defined]
        def apply(self, function: Any) -> Any:
            seen.append("apply")
            return super().apply(function)

        def _apply(self, function: Any, recurse: bool = True) -> Any:
            seen.append("_apply")
            return super()._apply(function)

        def extra_repr(self) -> str:
            return "noted"

    model = lib.nn.Sequential(Noted(2, 2))
    model.to(lib.float64).apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["_apply", "apply", "Noted", "Sequential"]
    assert model[0].weight.dtype == lib.float64 and repr(model) == "Sequential(\n  (0): Noted(noted)\n)"


def test_any_function_of_tensors_can_be_applied(lib: Any) -> None:
    """It is how a subclass gets `half()` and its like."""
    layer = lib.nn.BatchNorm1d(2)
    weight, buffer = layer.weight, layer.num_batches_tracked
    layer(lib.tensor([[1.0, 2.0], [5.0, 9.0]])).sum().backward()
    layer._apply(lambda t: t.to(lib.float64) if t.dtype == lib.float32 else t)
    assert layer.weight is weight and weight.is_leaf and weight.requires_grad and weight.dtype == lib.float64
    assert weight.grad.dtype == lib.float64 and layer.running_mean.dtype == lib.float64
    assert buffer.dtype == lib.int64 and of(layer.num_batches_tracked) == 1


def test_a_convolutions_own_forward_is_called(lib: Any) -> None:
    class Doubled(lib.nn.Conv1d):  # type: ignore[misc, name-defined]
        def _conv_forward(self, input: Any, weight: Any, bias: Any) -> Any:
            return super()._conv_forward(input, weight * 2, bias)

    layer = Doubled(1, 1, 2, bias=False, padding=1, padding_mode="circular")
    layer.load_state_dict({"weight": lib.tensor([[[1.0, 3.0]]])})
    assert of(layer(lib.tensor([[[1.0, 2.0]]]))) == [[[10.0, 14.0, 10.0]]]


class Counting:
    """What a class over either library's Linear adds."""

    def get_extra_state(self) -> Any:
        return {"count": self.count}

    def set_extra_state(self, state: Any) -> None:
        self.count = state["count"]

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)  # type: ignore[misc]
        destination[prefix + "saved"] = 1

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        self.loaded = state_dict.pop(prefix + "saved")
        super()._load_from_state_dict(state_dict, prefix, *rest)  # type: ignore[misc]


def counting(lib: Any, count: int) -> Any:
    class Layer(Counting, lib.nn.Linear):  # type: ignore[misc, name-defined]
        pass

    layer = Layer(2, 1)
    layer.count = count
    return lib.nn.Sequential(layer)


def test_extra_state_and_own_ways_of_saving_and_loading(lib: Any) -> None:
    state = counting(lib, 3).state_dict()
    assert list(state) == ["0.weight", "0.bias", "0._extra_state", "0.saved"]
    model = counting(lib, 0)
    assert tuple(model.load_state_dict(state)) == ([], [])
    assert (model[0].count, model[0].loaded) == (3, 1)
    del state["0._extra_state"]
    assert model.load_state_dict(state, strict=False).missing_keys == ["0._extra_state"]
    plain = lib.nn.Sequential(lib.nn.Linear(2, 1))
    found = plain.load_state_dict(counting(lib, 3).state_dict(), strict=False)
    assert found.unexpected_keys == ["0._extra_state", "0.saved"]


def test_mixins_have_an_init_of_their_own(lib: Any) -> None:
    class Ranked:
        def __init__(self, rank: int) -> None:
            self.rank = rank

    class Layer(lib.nn.Linear, Ranked):  # type: ignore[misc, name-defined]
        def __init__(self, rank: int) -> None:
            lib.nn.Linear.__init__(self, 2, 3)
            Ranked.__init__(self, rank)

    assert Layer(4).rank == 4 and Layer(4)(ones(lib, 2)).shape == (3,)

    class Asking(lib.nn.Module, Ranked):  # type: ignore[misc, name-defined]
        call_super_init = True

    assert Asking(5).rank == 5
    with pytest.raises(TypeError):
        lib.nn.Module(5)


# --- what is assigned -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["weight", "bias", "inner", "table"])
def test_parts_are_replaced_by_their_kind_alone(lib: Any, name: str) -> None:
    layer = lib.nn.Linear(2, 2, bias=False)
    layer.inner = lib.nn.ReLU()
    layer.register_buffer("table", ones(lib, 2))
    wrong = [0.0] if name == "table" else ones(lib, 2, 2)
    with pytest.raises(TypeError, match="cannot assign"):
        setattr(layer, name, wrong)
    assert [key for key, _ in layer.named_parameters()] == ["weight"]
    setattr(layer, name, None)
    assert list(layer.state_dict()) == [key for key in ("weight", "table") if key != name]
    setattr(layer, name, lib.nn.Parameter(ones(lib, 2)))
    assert name in dict(layer.named_parameters()) and name not in dict(layer.named_buffers())


# --- the mappings ---------------------------------------------------------------------------------------------------


def held(lib: Any) -> Any:
    module = lib.nn.Module()
    module.b = lib.nn.Parameter(ones(lib, 1))
    module.register_parameter("none", None)
    module.layer = lib.nn.ReLU()
    module.a = lib.nn.Parameter(ones(lib, 2))
    module.register_buffer("table", ones(lib, 3))
    module.register_buffer("scratch", ones(lib, 4), persistent=False)
    module.register_buffer("later", None)
    module.add_module("absent", None)
    module.register_module("last", lib.nn.Tanh())
    return module


def test_what_is_held_can_be_read_by_kind(lib: Any) -> None:
    module = held(lib)
    assert list(module._parameters) == ["b", "none", "a"] and len(module._parameters) == 3
    assert list(module._buffers) == ["table", "scratch", "later"] and module._buffers["later"] is None
    assert list(module._modules) == ["layer", "absent", "last"] and module._modules["layer"] is module.layer
    assert module._parameters["none"] is None and "table" not in module._parameters
    assert module._parameters.get("missing") is None and list(module._parameters.copy()) == ["b", "none", "a"]
    with pytest.raises(KeyError):
        module._parameters["layer"]
    assert list(module.state_dict()) == ["b", "a", "table"]


def test_what_is_held_can_be_written_by_kind(lib: Any) -> None:
    module = held(lib)
    one = lib.nn.Parameter(ones(lib, 5))
    module._parameters["none"] = one
    module._modules["more"] = lib.nn.Linear(2, 1)
    module._buffers["later"] = ones(lib, 2)
    assert module.none is one and isinstance(module.more, lib.nn.Linear)
    assert [name for name, _ in module.named_parameters()] == ["b", "none", "a", "more.weight", "more.bias"]
    del module._parameters["b"]
    assert module._modules.pop("layer") is not None and module._buffers.pop("table") is not None
    assert not hasattr(module, "b") and not hasattr(module, "layer") and not hasattr(module, "table")
    assert [name for name, _ in module.named_buffers()] == ["scratch", "later"]
    module._modules.clear()
    assert list(module.children()) == []
    module._parameters = OrderedDict(x=one)
    assert [name for name, _ in module.named_parameters()] == ["x"] and module.x is one


def test_a_parameter_can_be_a_computed_tensor_where_it_is_put_by_hand(lib: Any) -> None:
    """What meta-learning does: a step on a copy whose gradient goes back to the first."""
    layer = lib.nn.Linear(1, 1, bias=False)
    layer.load_state_dict({"weight": lib.tensor([[2.0]])})
    first = layer.weight
    layer._parameters["weight"] = first * 3
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    layer(lib.tensor([[5.0]])).sum().backward()
    assert of(first.grad) == [[15.0]]


def test_parts_are_found_by_path(lib: Any) -> None:
    model = lib.nn.Sequential(lib.nn.Sequential(lib.nn.BatchNorm1d(2)))
    assert model.get_parameter("0.0.weight") is model[0][0].weight
    assert model.get_buffer("0.0.running_mean") is model[0][0].running_mean
    model.set_submodule("0.0", lib.nn.Linear(2, 3))
    assert isinstance(model[0][0], lib.nn.Linear)
    for wrong in (lambda: model.get_parameter("0.0.in_features"), lambda: model.get_buffer("0.0.weight")):
        with pytest.raises(AttributeError):
            wrong()
    with pytest.raises(AttributeError):
        model.set_submodule("0.7", lib.nn.ReLU(), strict=True)
    model[0][0].again = model[0][0].weight
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    assert names == ["0.0.weight", "0.0.bias", "0.0.again"]
    memo = {model[0]}
    assert [name for name, _ in model.named_modules(memo, "m")] == ["m"]


# --- states ---------------------------------------------------------------------------------------------------------


def test_a_state_goes_into_a_dict_that_is_given(lib: Any) -> None:
    layer = lib.nn.Linear(2, 1)
    destination = OrderedDict(first=0)
    assert layer.state_dict(destination=destination, prefix="p.", keep_vars=True) is destination
    assert list(destination) == ["first", "p.weight", "p.bias"] and destination["p.weight"] is layer.weight


def test_a_state_can_bring_its_dtype(lib: Any) -> None:
    layer = lib.nn.Linear(1, 1)
    state = {name: value.to(lib.float64) for name, value in layer.state_dict().items()}
    layer.load_state_dict(state)
    assert layer.weight.dtype == lib.float32
    layer.load_state_dict(state, assign=True)
    assert layer.weight.dtype == lib.float64 and layer.weight.is_leaf and layer.weight.requires_grad


def test_state_hooks_are_called_in_order(lib: Any) -> None:
    seen: list[Any] = []
    layer = lib.nn.Linear(1, 1, bias=False)
    model = lib.nn.Sequential(layer)
    layer.register_state_dict_pre_hook(lambda module, prefix, keep_vars: seen.append(("saving", prefix)))
    layer.register_state_dict_post_hook(lambda module, state, prefix, metadata: state.update({prefix + "extra": 1}))
    layer._register_state_dict_hook(lambda module, state, prefix, metadata: seen.append(metadata["version"]))
    state = model.state_dict()
    assert list(state) == ["0.weight", "0.extra"] and seen == [("saving", "0."), 1]

    def renamed(module: Any, state: Any, prefix: str, *rest: Any) -> None:
        state[prefix + "weight"] = state.pop(prefix + "old")
        state.pop(prefix + "extra")

    handle = layer.register_load_state_dict_pre_hook(renamed)
    model.register_load_state_dict_post_hook(lambda module, keys: seen.append(tuple(map(list, keys))))
    state["0.old"] = state.pop("0.weight") * 0 + 7
    model.load_state_dict(state)
    assert of(layer.weight) == [[7.0]] and seen[2:] == [([], [])]
    handle.remove()
    layer._register_load_state_dict_pre_hook(lambda state, prefix, *rest: seen.append(prefix))
    layer.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    assert model.load_state_dict({}).missing_keys == [] and seen[3:] == ["0.", ([], [])]


# --- hooks on calls and gradients -----------------------------------------------------------------------------------


def test_backward_hooks_see_both_ends_and_replace(lib: Any) -> None:
    seen: list[Any] = []

    def shown(values: Any) -> Any:
        return [None if value is None else of(value) for value in values]

    class Two(lib.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, y: Any, n: int) -> Any:
            return x * y, x + n

    module = Two()
    x = lib.tensor([2.0, 3.0], requires_grad=True)
    y = lib.tensor([5.0, 7.0])
    handle = module.register_full_backward_hook(lambda m, got, given: seen.append((shown(got), shown(given))))
    a, b = module(x, y, 1)
    (a * 2 + b).sum().backward()
    assert seen == [([[11.0, 15.0], [0.0, 0.0], None], [[2.0, 2.0], [1.0, 1.0]])] and of(x.grad) == [11.0, 15.0]
    handle.remove()
    module.register_full_backward_pre_hook(lambda m, given: tuple(g * 10 for g in given))
    module.register_full_backward_hook(lambda m, got, given: (got[0] + 1, None, None))
    x.grad = None
    a, b = module(x, y, 1)
    (a * 2 + b).sum().backward()
    assert of(x.grad) == [111.0, 151.0]


@pytest.mark.filterwarnings("ignore:Full backward hook")
def test_a_backward_hook_without_gradients_of_arguments(lib: Any) -> None:
    seen: list[Any] = []
    layer = lib.nn.Linear(1, 1, bias=False)
    layer.register_full_backward_hook(lambda m, got, given: seen.append((got, of(given[0]))))
    layer(lib.tensor([[3.0]])).sum().backward()
    assert seen == [((None,), [[1.0]])] and of(layer.weight.grad) == [[3.0]]


def test_backward_hooks_are_part_of_a_compiled_step() -> None:
    model = wg.nn.Sequential(wg.nn.Linear(2, 3), wg.nn.Tanh(), wg.nn.Linear(3, 1))
    for layer in model:
        layer.register_full_backward_hook(lambda m, got, given: None if got[0] is None else (got[0] * 2,))
        layer.register_full_backward_pre_hook(lambda m, given: (given[0] + 1,))

    def step(x: Any) -> list[wg.Tensor]:
        model.zero_grad()
        model(x).sum().backward()
        return [p.grad * 1 for p in model.parameters()]

    x, compiled = wg.random.normal((4, 2)), wg.compile(step)
    for _ in range(3):
        for found, wanted in zip(compiled(x), step(x)):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
    assert compiled.recordings <= 3


def test_hooks_on_every_module(lib: Any) -> None:
    seen: list[str] = []
    place = wg.nn if lib is wg else lib.nn.modules.module
    model = lib.nn.Sequential(lib.nn.ReLU(), lib.nn.Tanh())
    before = place.register_module_forward_pre_hook(lambda m, args: seen.append("before " + type(m).__name__))
    after = place.register_module_forward_hook(lambda m, args, output: seen.append("after " + type(m).__name__))
    model(ones(lib, 2))
    before.remove()
    after.remove()
    model(ones(lib, 2))
    kinds = ["before Sequential", "before ReLU", "after ReLU", "before Tanh", "after Tanh", "after Sequential"]
    assert seen == kinds
    if lib is wg:
        assert not wg.nn.hooks.observers


def test_hooks_that_come_first_and_hooks_that_always_come(lib: Any) -> None:
    seen: list[Any] = []
    layer = lib.nn.Linear(2, 2)
    layer.register_forward_hook(lambda m, args, output: seen.append("second"))
    layer.register_forward_hook(lambda m, args, output: seen.append("first"), prepend=True)
    layer.register_forward_hook(lambda m, args, output: seen.append(output is None), always_call=True)
    layer(ones(lib, 2))
    with pytest.raises(Exception, match="shape"):
        layer(ones(lib, 3))
    assert seen == ["first", "second", False, True]


# --- containers -----------------------------------------------------------------------------------------------------


def test_lists_of_modules(lib: Any) -> None:
    nn = lib.nn
    layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    layers += [nn.Sigmoid()]
    assert type(layers.pop(0)).__name__ == "ReLU" and len(layers) == 2
    assert [type(layer).__name__ for layer in reversed(layers)] == ["Sigmoid", "Tanh"]
    longer = layers + nn.ModuleList([nn.ReLU()])
    assert [type(layer).__name__ for layer in longer] == ["Tanh", "Sigmoid", "ReLU"] and len(layers) == 2
    chain = nn.Sequential(nn.Linear(1, 1), nn.ReLU())
    assert len(chain * 2) == 4 and len(2 * chain) == 4 and (chain * 2)[2] is chain[0]
    assert len(chain + nn.Sequential(nn.Tanh())) == 3 and isinstance(chain.pop(1), nn.ReLU) and len(chain) == 1
    chain *= 3
    assert len(chain) == 3


def test_dicts_of_modules_and_parameters(lib: Any) -> None:
    nn = lib.nn
    heads = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})
    assert isinstance(heads.pop("a"), nn.ReLU) and list(heads) == ["b"] and "b" in heads
    heads.clear()
    assert len(heads) == 0
    scales = nn.ParameterDict({"x": ones(lib, 1), "y": nn.Parameter(ones(lib, 2))})
    assert isinstance(scales["x"], nn.Parameter) and list(scales.keys()) == ["x", "y"] and scales.get("z") is None
    assert list(scales.setdefault("z", ones(lib, 3)).shape) == [3] and scales.popitem()[0] == "z"
    assert list((scales | nn.ParameterDict({"w": ones(lib, 1)})).keys()) == ["x", "y", "w"]
    scales |= {"v": ones(lib, 1)}
    assert list(reversed(scales)) == ["v", "y", "x"] and [n for n, _ in scales.named_parameters()] == ["x", "y", "v"]
    assert scales.copy()["x"] is scales["x"] and list(scales.pop("y").shape) == [2] and len(list(scales.values())) == 2
    assert [name for name, _ in scales.items()] == ["x", "v"] and list(scales.state_dict()) == ["x", "v"]
    filled = scales.fromkeys(["p", "q"], ones(lib, 1))
    assert list(filled) == ["p", "q"]


# --- copies ---------------------------------------------------------------------------------------------------------


class Whole(wg.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = wg.nn.ModuleList([wg.nn.Linear(2, 2, bias=False)])
        self.scales = wg.nn.ParameterDict({"x": wg.ones(2)})
        self.register_buffer("scratch", wg.zeros(1), persistent=False)
        self.register_parameter("none", None)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_hold_the_same(copied: Any) -> None:
    model = Whole()
    twin = copied(model)
    assert list(twin.state_dict()) == list(model.state_dict()) == ["layers.0.weight", "scales.x"]
    assert list(twin._parameters) == ["none"] and list(twin._buffers) == ["scratch"]
    with wg.no_grad():
        twin.scales["x"].assign(wg.zeros(2))
    assert model.scales["x"].tolist() == [1.0, 1.0]
    np.testing.assert_array_equal(of(twin.layers[0].weight), of(model.layers[0].weight))
