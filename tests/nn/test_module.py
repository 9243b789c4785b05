"""Module: attributes, names, state, modes, hooks, errors, repr, summary, copies; and the containers."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import wengert as wg

nn = wg.nn


class Block(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(size, size)
        self.norm = nn.BatchNorm1d(size)
        self.scale = nn.Parameter(wg.ones(size))
        self.register_buffer("seen", wg.zeros(()))
        self.register_buffer("scratch", wg.zeros(2), persistent=False)

    def forward(self, x: Any) -> Any:
        return self.norm(wg.relu(self.first(x))) * self.scale


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Module()
        self.encoder.layers = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        for layer in self.encoder.layers:
            x = layer(x)
        return self.head(x)


# --- names ----------------------------------------------------------------------------------------------------------


def test_parameters_buffers_and_modules_are_found_with_their_paths() -> None:
    block = Block()
    assert [name for name, _ in block.named_parameters()] == [
        "scale", "first.weight", "first.bias", "norm.weight", "norm.bias",
    ]  # fmt: skip
    assert [name for name, _ in block.named_buffers()] == [
        "seen", "scratch", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked",
    ]  # fmt: skip
    assert [name for name, _ in Model().named_modules()][:4] == ["", "encoder", "encoder.layers", "encoder.layers.0"]
    assert [name for name, _ in block.named_children()] == ["first", "norm"]
    assert [name for name, _ in block.named_parameters(recurse=False)] == ["scale"]
    assert next(iter(block.named_parameters("b")))[0] == "b.scale"


def test_what_is_shared_counts_once_and_is_saved_under_each_name() -> None:
    model = nn.Module()
    model.a, model.b = nn.Linear(3, 3), nn.Linear(3, 3)
    model.b.weight = model.a.weight
    model.again = model.a
    assert [name for name, _ in model.named_parameters()] == ["a.weight", "a.bias", "b.bias"]
    assert len(list(model.parameters())) == 3 and len(list(model.children())) == 2 and len(list(model.modules())) == 3
    assert list(model.state_dict()) == ["a.weight", "a.bias", "b.weight", "b.bias", "again.weight", "again.bias"]


def test_a_module_needs_no_super_init() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(wg.ones(2))

        def forward(self, x: Any) -> Any:
            return x * self.weight

    bare = Bare()
    assert bare(wg.ones(2)).tolist() == [1.0, 1.0] and bare.training and len(list(bare.parameters())) == 1


def test_attributes_can_be_replaced_and_deleted() -> None:
    block = Block()
    del block.norm
    block.scale = None
    del block.seen
    assert [name for name, _ in block.named_parameters()] == ["first.weight", "first.bias"]
    assert [name for name, _ in block.named_buffers()] == ["scratch"]


def test_registering_refuses_names_and_kinds_that_cannot_be() -> None:
    block = Block()
    with pytest.raises(wg.errors.ArgumentError, match="a string without dots"):
        block.register_buffer("a.b", wg.zeros(1))
    with pytest.raises(wg.errors.ArgumentError, match="Block already has an attribute 'forward'"):
        block.register_parameter("forward", None)
    with pytest.raises(wg.errors.DTypeError, match="'p' is a Tensor, not a Parameter"):
        block.register_parameter("p", wg.zeros(1))
    with pytest.raises(wg.errors.DTypeError, match="'b' is a list, not a Tensor"):
        block.register_buffer("b", [1.0])
    with pytest.raises(wg.errors.DTypeError, match="'m' is a str, not a Module"):
        block.add_module("m", "layer")


def test_an_attribute_that_is_not_there_names_the_nearest_and_torchs_habits() -> None:
    with pytest.raises(AttributeError, match="Linear has no attribute 'wieght'; did you mean 'weight'"):
        nn.Linear(2, 2).wieght
    with pytest.raises(AttributeError, match=r"write \.to\(wg\.float64\)"):
        nn.Linear(2, 2).double()


def test_get_submodule_follows_a_path() -> None:
    model = Model()
    assert model.get_submodule("encoder.layers.1.first") is model.encoder.layers[1].first
    assert model.get_submodule("") is model
    with pytest.raises(AttributeError, match="no attribute '7'"):
        model.get_submodule("encoder.layers.7")


# --- state ----------------------------------------------------------------------------------------------------------


def test_state_is_a_snapshot_without_scratch_buffers() -> None:
    block = Block()
    state = block.state_dict()
    assert "seen" in state and "scratch" not in state
    with wg.no_grad():
        block.scale += 1
    assert state["scale"].tolist() == [1.0] * 4
    block.load_state_dict(state)
    assert block.scale.tolist() == [1.0] * 4 and block.scale.is_leaf


def test_loading_takes_tensors_arrays_and_torch_tensors() -> None:
    layer = nn.Linear(2, 1)
    layer.load_state_dict({"weight": wg.tensor([[1.0, 2.0]]), "bias": np.array([3.0])})
    assert layer.weight.tolist() == [[1.0, 2.0]] and layer.bias.dtype == wg.float32
    torch = pytest.importorskip("torch", reason="a torch state dict is loaded")
    layer.load_state_dict({"weight": torch.nn.Parameter(torch.tensor([[4.0, 5.0]])), "bias": torch.zeros(1)})
    assert layer.weight.tolist() == [[4.0, 5.0]]
    half = {"weight": torch.tensor([[0.5, 1.5]], dtype=torch.bfloat16), "bias": torch.ones(1, dtype=torch.bfloat16)}
    layer.load_state_dict(half)
    assert layer.weight.tolist() == [[0.5, 1.5]]


def test_a_state_that_does_not_fit_lists_everything_and_loads_nothing() -> None:
    model = Model()
    state = {name: value.numpy() + 1 for name, value in model.state_dict().items()}
    del state["encoder.layers.0.norm.running_var"]
    state["encoder.layers.0.norm.extra"] = np.zeros(1)
    state["head.weight"] = np.zeros((3, 5))
    before = model.head.bias.tolist()
    with pytest.raises(wg.errors.ArgumentError) as caught:
        model.load_state_dict(state)
    text = str(caught.value)
    assert "this state does not fit Model, and nothing was loaded" in text
    assert "1 missing from the state:\n    encoder.layers.0.norm.running_var" in text
    assert "1 not in the model:\n    encoder.layers.0.norm.extra" in text
    assert "1 of another shape:\n    head.weight: (3, 4) in the model, (3, 5) in the state" in text
    assert model.head.bias.tolist() == before


def test_loading_what_fits_reports_the_rest() -> None:
    layer = nn.Linear(2, 1)
    report = layer.load_state_dict({"bias": np.array([3.0]), "scale": np.zeros(1)}, strict=False)
    assert report.missing_keys == ["weight"] and report.unexpected_keys == ["scale"] and layer.bias.tolist() == [3.0]
    with pytest.raises(wg.errors.ArgumentError, match="1 of another shape"):
        layer.load_state_dict({"bias": np.zeros(2)}, strict=False)


def test_saving_and_loading_a_file(tmp_path: Any) -> None:
    model, other = Model(), Model()
    wg.save(tmp_path / "model.safetensors", model.state_dict())
    other.load_state_dict(wg.load(tmp_path / "model.safetensors"))
    x = wg.random.normal((5, 4))
    assert model.eval()(x).tolist() == other.eval()(x).tolist()


# --- modes, dtypes, gradients ---------------------------------------------------------------------------------------


def test_modes_reach_every_module() -> None:
    model = Model()
    assert not any(module.training for module in model.eval().modules())
    assert all(module.training for module in model.train().modules())


def test_to_moves_floating_slots_in_place_and_keeps_them_leaves() -> None:
    block = Block()
    scale, seen = block.scale, block.seen
    block(wg.ones((3, 4))).sum().backward()
    assert block.to(wg.float64) is block
    assert block.scale is scale and scale.dtype == wg.float64 and scale.is_leaf and scale.grad.dtype == wg.float64
    assert block.seen is seen and seen.dtype == wg.float64 and not seen.requires_grad
    assert block.norm.num_batches_tracked.dtype == wg.int64
    block.zero_grad()
    block(wg.ones((3, 4), dtype=wg.float64)).sum().backward()
    assert scale.grad.dtype == wg.float64
    assert block.to("cpu", dtype=wg.float32).scale.dtype == wg.float32
    with pytest.raises(wg.errors.DeviceError, match=r"no device 'cuda:9'|driver|cuda-bindings"):
        block.to("cuda:9")


def test_a_computed_tensor_cannot_be_moved_in_place() -> None:
    with pytest.raises(wg.errors.AssignmentError, match="computed from tracked ones"):
        (nn.Parameter(wg.ones(2)) * 2).to_(wg.float64)


def test_freezing_and_forgetting_gradients() -> None:
    block = Block()
    block.first.requires_grad_(False)
    block(wg.random.normal((3, 4))).sum().backward()
    assert block.first.weight.grad is None and block.scale.grad is not None
    block.zero_grad(set_to_none=False)
    assert block.scale.grad.tolist() == [0.0] * 4
    block.zero_grad()
    assert block.scale.grad is None
    block.requires_grad_()
    assert all(parameter.requires_grad for parameter in block.parameters())


def test_apply_goes_inside_out() -> None:
    order: list[str] = []
    Model().apply(lambda module: order.append(type(module).__name__))
    assert order[:3] == ["Linear", "BatchNorm1d", "Block"] and order[-1] == "Model"


def test_setting_an_attribute_is_noticed_and_building_a_module_is_not() -> None:
    block = Block()
    block(wg.ones((3, 4)))

    def changes(act: Any) -> bool:
        before = wg.config.version
        act()
        return wg.config.version != before

    assert changes(block.eval) and not changes(block.eval)
    assert changes(lambda: setattr(block.norm, "eps", 1e-3)) and not changes(lambda: setattr(block.norm, "eps", 1e-3))
    assert changes(lambda: setattr(block, "new", 1)) and changes(lambda: delattr(block, "new"))
    assert changes(lambda: setattr(block, "scale", nn.Parameter(wg.ones(4))))
    assert changes(lambda: block.register_forward_hook(lambda *_: None).remove())
    assert changes(lambda: block.to(wg.float64)) and changes(lambda: block.requires_grad_(False))
    assert not changes(lambda: nn.CrossEntropyLoss()(wg.zeros((2, 3)), wg.tensor([0, 1])))
    assert not changes(Model)
    assert not changes(lambda: block.scale.assign(wg.zeros(4)))


# --- hooks ----------------------------------------------------------------------------------------------------------


def test_hooks_see_and_replace_arguments_and_outputs() -> None:
    layer, seen = nn.Identity(), []
    before = layer.register_forward_pre_hook(lambda module, args: seen.append(args) or (args[0] + 1,))
    after = layer.register_forward_hook(lambda module, args, output: output * 10)
    assert layer(wg.tensor(1.0)).item() == 20 and seen[0][0].item() == 1
    before.remove()
    assert layer(wg.tensor(1.0)).item() == 10
    after.remove()
    after.remove()
    assert layer(wg.tensor(1.0)).item() == 1


def test_hooks_with_keyword_arguments_and_for_a_while() -> None:
    layer = nn.Identity()
    with layer.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {"input": kwargs["input"] * 2}), with_kwargs=True
    ):
        assert layer(input=wg.tensor(3.0)).item() == 6
    with layer.register_forward_hook(lambda m, args, kwargs, output: output + kwargs["input"], with_kwargs=True):
        assert layer(input=wg.tensor(3.0)).item() == 6
    assert layer(input=wg.tensor(3.0)).item() == 3


# --- errors ---------------------------------------------------------------------------------------------------------


def _notes(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))


def test_an_error_in_a_forward_names_the_layer_by_its_path() -> None:
    model = Model()
    model.encoder.layers[1].first = nn.Linear(5, 4)
    with pytest.raises(wg.errors.ShapeError) as caught:
        model(wg.ones((3, 4)))
    assert _notes(caught.value) == ["in encoder.layers.1.first (Linear) of Model, called with float32 (3, 4)"]
    with pytest.raises(wg.errors.ShapeError) as caught:
        nn.Linear(3, 2)(wg.ones((3, 4)))
    assert _notes(caught.value) == ["in Linear, called with float32 (3, 4)"]


def test_the_error_keeps_its_type_and_traceback_whatever_it_is() -> None:
    class Odd(nn.Module):
        def forward(self, x: Any, scale: Any = None) -> Any:
            raise KeyError("gone")

    with pytest.raises(KeyError, match="gone") as caught:
        nn.Sequential(nn.Identity(), Odd())(wg.ones(2))
    assert _notes(caught.value) == ["in 1 (Odd) of Sequential, called with float32 (2,)"]
    assert caught.traceback[-1].name == "forward"


def test_a_layer_that_is_called_from_outside_its_model_is_named_too() -> None:
    helper = nn.Linear(3, 2)

    class Caller(nn.Module):
        def forward(self, x: Any) -> Any:
            return helper(x)

    with pytest.raises(wg.errors.ShapeError) as caught:
        Caller()(wg.ones(2))
    assert _notes(caught.value) == ["in Linear, called with float32 (2,)"]


def test_a_module_without_a_forward_says_so() -> None:
    with pytest.raises(wg.errors.ArgumentError, match="ModuleList has no forward"):
        nn.ModuleList()(wg.ones(1))


# --- showing --------------------------------------------------------------------------------------------------------


def test_repr_is_nested_and_readable() -> None:
    assert repr(Model()) == (
        "Model(\n"
        "  (encoder): Module(\n"
        "    (layers): ModuleList(\n"
        "      (0-1): 2 x Block(\n"
        "        (first): Linear(in_features=4, out_features=4, bias=True)\n"
        "        (norm): BatchNorm1d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)\n"
        "      )\n"
        "    )\n"
        "  )\n"
        "  (head): Linear(in_features=4, out_features=3, bias=True)\n"
        ")"
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda nn: nn.Conv2d(3, 4, 3, padding=1, bias=False),
        lambda nn: nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=True), nn.Dropout(0.2)),
        lambda nn: nn.ModuleList([nn.GELU(), nn.LeakyReLU(0.1), nn.Softmax(dim=1), nn.Flatten()]),
        lambda nn: nn.LayerNorm(4),
        lambda nn: nn.GroupNorm(2, 4),
        lambda nn: nn.BatchNorm2d(4, momentum=None),
        lambda nn: nn.Embedding(5, 3, padding_idx=0),
        lambda nn: nn.LSTM(3, 4, num_layers=2, bidirectional=True),
        lambda nn: nn.MaxPool2d(2),
        lambda nn: nn.AdaptiveAvgPool2d((1, 1)),
        lambda nn: nn.RMSNorm(4),
    ],
)
def test_repr_is_torchs(make: Any) -> None:
    torch = pytest.importorskip("torch", reason="its reprs are compared")
    assert repr(make(nn)) == repr(make(torch.nn))


def test_summary_counts_shapes_parameters_and_flops() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 4 * 4, 10))
    lines = model.summary(wg.zeros((2, 3, 4, 4))).splitlines()
    conv, linear = 2 * (2 * 8 * 16) * 3 * 9, 2 * 2 * 128 * 10
    assert lines[1].split() == ["Sequential", "(2,", "10)", f"{224 + 1290:,}", f"{conv + linear:,}"]
    assert lines[2].split() == ["0", "(Conv2d)", "(2,", "8,", "4,", "4)", "224", f"{conv:,}"]
    assert lines[5].split() == ["3", "(Linear)", "(2,", "10)", "1,290", f"{linear:,}"]
    assert lines[-1] == f"1,514 parameters (1,514 to learn), {1514 * 4:,} bytes; {conv + linear:,} FLOPs forward"


def test_summary_leaves_the_model_as_it_was() -> None:
    block = Block()
    block.norm.eval()
    block.summary(wg.ones((3, 4)))
    assert block.training and not block.norm.training and not block._hooks and not block.norm._hooks
    assert block.norm.num_batches_tracked.item() == 0


def test_summary_of_attention_and_recurrent_layers_counts_their_products() -> None:
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = wg.zeros((2, 5, 8))
    total = attention.summary(x, x, x, need_weights=False).splitlines()[1].split()[-1]
    assert int(total.replace(",", "")) == 2 * 10 * 8 * 24 + 2 * 2 * 2 * 5 * 5 * 8 + 2 * 10 * 8 * 8
    total = nn.GRU(3, 4).summary(wg.zeros((5, 2, 3))).splitlines()[1].split()[-1]
    assert int(total.replace(",", "")) == 2 * 10 * 12 * (3 + 4)


# --- copies ---------------------------------------------------------------------------------------------------------


def test_deepcopy_is_independent_and_keeps_sharing() -> None:
    model = nn.Module()
    model.a, model.b = Block(), Block()
    model.b.scale = model.a.scale
    model.a.first.requires_grad_(False)
    twin = copy.deepcopy(model)
    assert twin.a.scale is twin.b.scale and twin.a.scale is not model.a.scale
    assert isinstance(twin.a.scale, nn.Parameter) and twin.a.scale.is_leaf and not twin.a.first.weight.requires_grad
    twin.a.scale.assign(wg.zeros(4))
    twin.a.seen.assign(5.0)
    assert model.a.scale.tolist() == [1.0] * 4 and model.a.seen.item() == 0
    assert [name for name, _ in twin.named_buffers()] == [name for name, _ in model.named_buffers()]


def test_modules_pickle() -> None:
    layer = nn.Linear(3, 2)
    again = pickle.loads(pickle.dumps(layer))
    assert again.weight.tolist() == layer.weight.tolist() and isinstance(again.weight, nn.Parameter)
    assert again.weight.is_leaf


# --- parameters -----------------------------------------------------------------------------------------------------


def test_a_parameter_is_a_leaf_of_its_own() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    parameter = nn.Parameter(x * 2)
    assert (
        parameter.is_leaf
        and parameter.tolist() == [2.0, 4.0]
        and not nn.Parameter(x, requires_grad=False).requires_grad
    )
    (parameter * parameter).sum().backward()
    assert parameter.grad.tolist() == [4.0, 8.0] and x.grad is None
    assert type(parameter + 1) is wg.Tensor and repr(parameter).startswith("Parameter containing:\nTensor(")
    with wg.no_grad():
        parameter -= 0.5 * parameter.grad
    assert isinstance(parameter, nn.Parameter) and parameter.tolist() == [0.0, 0.0] and parameter.is_leaf


# --- containers -----------------------------------------------------------------------------------------------------


def test_sequential_indexes_slices_and_changes() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(model) == 3 and model[-1] is model[2] and isinstance(model[1:], nn.Sequential) and len(model[1:]) == 2
    model[1] = nn.Tanh()
    model.append(nn.Sigmoid())
    model.insert(0, nn.Identity())
    del model[-1]
    assert [type(part).__name__ for part in model] == ["Identity", "Linear", "Tanh", "Linear"]
    assert list(model.state_dict()) == ["1.weight", "1.bias", "3.weight", "3.bias"]
    assert model(wg.zeros((5, 2))).shape == (5, 1)
    with pytest.raises(wg.errors.OutOfRangeError, match="Sequential has 4 parts; index 4 is out of range"):
        model[4]
    with pytest.raises(wg.errors.DTypeError, match="Sequential holds Modules, not a function"):
        nn.Sequential(lambda x: x)


def test_sequential_with_names() -> None:
    model = nn.Sequential({"flat": nn.Flatten(), "head": nn.Linear(4, 2)})
    assert model.head is model[1] and list(model.state_dict()) == ["head.weight", "head.bias"]
    assert [name for name, _ in model[1:].named_children()] == ["head"]


def test_module_list_and_dict() -> None:
    layers = nn.ModuleList([nn.Linear(2, 2)])
    layers.extend([nn.ReLU(), nn.Tanh()])
    del layers[1]
    assert [type(layer).__name__ for layer in layers] == ["Linear", "Tanh"] and layers[1] in layers
    assert isinstance(layers[:1], nn.ModuleList) and [name for name, _ in layers.named_children()] == ["0", "1"]
    heads = nn.ModuleDict({"a": nn.Linear(2, 2)})
    heads["b"] = nn.ReLU()
    heads.update([("a", nn.Tanh())])
    assert heads.keys() == ["a", "b"] and "b" in heads and len(heads) == 2 and isinstance(heads["a"], nn.Tanh)
    del heads["a"]
    assert [name for name, _ in heads.items()] == ["b"] and isinstance(heads.values()[0], nn.ReLU)
    with pytest.raises(KeyError, match="there are"):
        heads["a"]
    with pytest.raises(wg.errors.ArgumentError, match="ModuleDict already has an attribute 'keys'"):
        heads["keys"] = nn.ReLU()


def test_parameter_list_makes_parameters() -> None:
    scales = nn.ParameterList([wg.ones(2), nn.Parameter(wg.zeros(3))])
    assert [name for name, _ in scales.named_parameters()] == ["0", "1"] and scales[1].shape == (3,)
    assert all(isinstance(scale, nn.Parameter) for scale in scales)
    assert repr(scales) == "ParameterList((0): (2,), (1): (3,))"


# --- importing ------------------------------------------------------------------------------------------------------


def test_importing_wengert_does_not_import_the_layers() -> None:
    code = (
        "import sys, wengert as wg; assert 'wengert.nn' not in sys.modules; assert 'nn' in dir(wg);"
        "wg.nn.Linear; assert 'wengert.nn' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
