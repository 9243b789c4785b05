"""nn.utils: reparametrised weights against torch, compiled, copied and undone; vectors; folding; what is refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, DTypeError, ShapeError

nn, utils = wg.nn, wg.nn.utils
X = np.random.default_rng(0).normal(size=(6, 4))
IMAGE = np.random.default_rng(1).normal(size=(2, 4, 5, 6))


class Symmetric(nn.Module):
    """The upper triangle, mirrored."""

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        return wg.triu(x) + wg.triu(x, 1).mT

    def right_inverse(self, value: wg.Tensor) -> wg.Tensor:
        return wg.triu(value)


class Doubled(nn.Module):
    """Two times."""

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        return x * 2


class Tall(nn.Module):
    """Of another shape."""

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        return wg.concat([x, x])


# --- against torch --------------------------------------------------------------------------------------------------

WAYS: list[tuple[str, dict[str, Any]]] = [
    ("weight_norm", {}),
    ("weight_norm", {"dim": None}),
    ("weight_norm", {"dim": 1}),
    ("spectral_norm", {}),
    ("spectral_norm", {"n_power_iterations": 3, "dim": 1}),
    ("parametrizations.weight_norm", {}),
    ("parametrizations.weight_norm", {"dim": None}),
    ("parametrizations.spectral_norm", {}),
    ("parametrizations.spectral_norm", {"n_power_iterations": 2}),
]
LAYERS: list[tuple[str, tuple[Any, ...], Any]] = [
    ("Linear", (4, 3), X),
    ("Conv2d", (4, 3, 2), IMAGE),
    ("ConvTranspose2d", (4, 3, 2), IMAGE),
]


def _reached(library: Any, path: str) -> Any:
    found = library.nn.utils
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(("path", "options"), WAYS, ids=str)
@pytest.mark.parametrize(("kind", "args", "x"), LAYERS, ids=lambda v: v if isinstance(v, str) else "")
def test_values_gradients_and_states_are_torchs(path: str, options: Any, kind: str, args: Any, x: Any) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    theirs = _reached(torch, path)(getattr(torch.nn, kind)(*args, dtype=torch.float64), **options)
    ours = _reached(wg, path)(getattr(nn, kind)(*args, dtype=wg.float64), **options)
    assert {k: tuple(v.shape) for k, v in ours.state_dict().items()} == {
        k: tuple(v.shape) for k, v in theirs.state_dict().items()
    }
    ours.load_state_dict(theirs.state_dict())
    for training in (True, False):
        theirs.train(training)
        ours.train(training)
        theirs.zero_grad()
        ours.zero_grad()
        expected, found = theirs(torch.tensor(x)), ours(wg.tensor(x))
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-9, atol=1e-11)
        (expected**2).sum().backward()
        (found**2).sum().backward()
        gradients = {name: p.grad.numpy() for name, p in theirs.named_parameters()}
        for name, p in ours.named_parameters():
            np.testing.assert_allclose(p.grad.numpy(), gradients[name], rtol=1e-8, atol=1e-10, err_msg=name)
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[name].numpy(), value.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_is_folded(bias: bool, affine: bool) -> None:
    wg.manual_seed(0)
    for layer, norm, x in (
        (nn.Conv2d(4, 3, 2, bias=bias), nn.BatchNorm2d(3, affine=affine), IMAGE),
        (nn.ConvTranspose2d(4, 3, 2, bias=bias), nn.BatchNorm2d(3, affine=affine), IMAGE),
        (nn.Linear(4, 3, bias=bias), nn.BatchNorm1d(3, affine=affine), X),
    ):
        for module in (layer, norm):
            module.to(wg.float64)
        norm(layer(wg.tensor(x)))
        with pytest.raises(ArgumentError, match=r"call eval\(\) on both"):
            utils.fuse_conv_bn_eval(layer, norm)
        layer.eval(), norm.eval()
        fused = (
            utils.fuse_linear_bn_eval(layer, norm)
            if isinstance(layer, nn.Linear)
            else utils.fuse_conv_bn_eval(layer, norm, transpose=isinstance(layer, nn.ConvTranspose2d))
        )
        expected = norm(layer(wg.tensor(x)))
        np.testing.assert_allclose(fused(wg.tensor(x)).detach().numpy(), expected.detach().numpy(), atol=1e-12)


# --- parametrizations -----------------------------------------------------------------------------------------------


def test_a_parametrized_weight_is_learned_through_its_original() -> None:
    layer = nn.Linear(4, 4, dtype=wg.float64)
    weight = layer.weight
    before = weight.detach().numpy()
    utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    assert layer.parametrizations["weight"].original is weight  # an optimizer made before goes on with it
    np.testing.assert_array_equal(layer.weight.detach().numpy(), np.triu(before) + np.triu(before, 1).T)
    assert type(layer).__name__ == "ParametrizedLinear" and isinstance(layer, nn.Linear)
    assert utils.parametrize.type_before_parametrizations(layer) is nn.Linear
    optimizer = wg.optim.SGD(layer.parameters(), lr=0.1)

    @wg.compile
    def step(x: wg.Tensor) -> wg.Tensor:
        optimizer.zero_grad()
        loss = (layer(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(wg.tensor(X)).item() for _ in range(8)]
    assert losses == sorted(losses, reverse=True)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), layer.weight.detach().numpy().T)


def test_several_parametrizations_and_setting_the_attribute() -> None:
    layer = nn.Linear(3, 3)
    utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    utils.parametrize.register_parametrization(layer, "weight", Doubled())
    value = wg.tensor(np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 5.0], [3.0, 5.0, 6.0]], np.float32))
    layer.weight = value
    np.testing.assert_array_equal(layer.weight.detach().numpy(), 2 * value.numpy())
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]


def test_copies_and_pickles_are_parametrized_too() -> None:
    layer = utils.parametrizations.weight_norm(utils.spectral_norm(nn.Linear(4, 4), "weight"), "bias").eval()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        np.testing.assert_array_equal(twin(wg.ones(4)).detach().numpy(), layer(wg.ones(4)).detach().numpy())
        with wg.no_grad():
            twin.weight_orig.assign(twin.weight_orig * 0)
        assert layer.weight.detach().numpy().any()


@pytest.mark.parametrize("leave", [True, False])
def test_a_parametrization_is_removed(leave: bool) -> None:
    layer = nn.Linear(3, 3)
    utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    value, original = layer.weight.detach().numpy(), layer.parametrizations["weight"].original.detach().numpy()
    utils.parametrize.remove_parametrizations(layer, "weight", leave_parametrized=leave)
    np.testing.assert_array_equal(layer.weight.detach().numpy(), value if leave else original)
    assert type(layer) is nn.Linear and not utils.parametrize.is_parametrized(layer)
    assert {name for name, _ in layer.named_parameters()} == {"weight", "bias"}


def test_removing_norms_keeps_the_weight() -> None:
    for add, remove in (
        (utils.weight_norm, utils.remove_weight_norm),
        (utils.spectral_norm, utils.remove_spectral_norm),
    ):
        layer = add(nn.Linear(3, 2)).eval()
        before = layer.weight.detach().numpy()
        remove(layer)
        np.testing.assert_array_equal(layer.weight.detach().numpy(), before)
        assert sorted(layer.state_dict()) == ["bias", "weight"] and type(layer) is nn.Linear
        with pytest.raises(ArgumentError, match="has no"):
            remove(layer)


def test_a_buffer_can_be_parametrized() -> None:
    module = nn.BatchNorm1d(3)
    utils.parametrize.register_parametrization(module, "running_mean", Doubled())
    assert module.running_mean.tolist() == [0.0, 0.0, 0.0] and "running_mean" not in dict(module.named_parameters())


def test_cached_values_are_computed_once() -> None:
    layer = utils.parametrizations.weight_norm(nn.Linear(3, 2))
    assert layer.weight is not layer.weight
    with utils.parametrize.cached():
        assert layer.weight is layer.weight
        layer.weight = wg.ones((2, 3))
        assert layer.weight.tolist() == [[1.0] * 3] * 2
    assert layer.weight is not layer.weight


def test_what_cannot_be_parametrized_is_named() -> None:
    layer = nn.Linear(3, 3)
    register = utils.parametrize.register_parametrization
    with pytest.raises(ArgumentError, match="has no parameter or buffer 'wait'; it has weight, bias"):
        register(layer, "wait", Doubled())
    with pytest.raises(ShapeError, match=r"returns float32 \(6, 3\) for float32 \(3, 3\); unsafe=True allows"):
        register(layer, "weight", Tall())
    assert layer.weight.shape == (3, 3) and type(layer) is nn.Linear  # as it was
    with pytest.raises(ArgumentError, match="is not parametrized"):
        utils.parametrize.remove_parametrizations(layer, "weight")
    with pytest.raises(ArgumentError, match="there is no original value to restore"):
        utils.parametrize.remove_parametrizations(utils.parametrizations.weight_norm(layer), "weight", False)
    with pytest.raises(ArgumentError, match="or call remove_weight_norm first"):
        utils.weight_norm(nn.Linear(2, 2)).weight = wg.ones((2, 2))
    with pytest.raises(ArgumentError, match="no parameter 'wait'"):
        utils.weight_norm(nn.Linear(2, 2), "wait")


# --- vectors, initial values, clipping --------------------------------------------------------------------------------


def test_parameters_as_a_vector_and_back() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
    vector = utils.parameters_to_vector(model.parameters())
    assert vector.shape == (11,)
    utils.vector_to_parameters(vector.detach() * 2, model.parameters())
    np.testing.assert_array_equal(
        utils.parameters_to_vector(model.parameters()).detach().numpy(), vector.detach().numpy() * 2
    )
    assert all(p.requires_grad for p in model.parameters())
    with pytest.raises(ShapeError, match="the parameters have 11 elements"):
        utils.vector_to_parameters(wg.ones(10), model.parameters())


def test_initial_values_can_be_left_out() -> None:
    layer = utils.skip_init(nn.Conv1d, 2, 3, kernel_size=2)
    assert layer.weight.shape == (3, 2, 2) and not layer.weight.detach().numpy().any()
    with pytest.raises(DTypeError, match="takes a class of modules"):
        utils.skip_init(dict)


def test_clipping_is_the_optimizers() -> None:
    assert utils.clip_grad_norm_ is wg.optim.clip_grad_norm_ and utils.clip_grad_value_ is wg.optim.clip_grad_value_
    assert utils.rnn.pad_sequence is nn.pad_sequence
