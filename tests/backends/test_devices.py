"""What is recorded of values on a GPU stays there: every op, layer, optimizer and model, on a GPU that does nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import IdleDriver, install
from tests.compiler import test_layers_compiled, test_models_compiled, test_optimizers_compiled
from tests.compiler.three_steps import Training
from tests.ops.suite import Call, collect, function_of, identifier
from wengert.backends.cuda import interpret
from wengert.backends.cuda.memory import DeviceArray, opened
from wengert.core import tree
from wengert.core.dtypes import FLOATING
from wengert.core.errors import DeviceError
from wengert.core.graph import Node

GPU = "cuda:0"
MAKES_VALUES = ("nonzero", "unique", "masked_select", "repeat")  # look at values, which an idle GPU does not have


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A GPU that does nothing."""
    install(monkeypatch, IdleDriver())
    monkeypatch.setattr(interpret, "_computed", lambda node, *_: zeros(node))
    yield
    wg.synchronize()


def zeros(node: Node) -> Any:
    """What stands for the value of a node."""
    if isinstance(node.dtype, tuple):
        return tuple(DeviceArray(shape, dtype, GPU) for shape, dtype in zip(node.shape, node.dtype))
    return DeviceArray(node.shape, node.dtype, GPU)


def moved(leaf: Any) -> Any:
    return wg.tensor(leaf, device=GPU) if isinstance(leaf, np.ndarray) else leaf


def off_device(function: Callable[..., Any], *arguments: Any, **options: Any) -> bool:
    """Whether one of the results is not on the GPU, or devices were mixed on the way."""
    try:
        results = tree.flatten(function(*arguments, **options))[0]
    except DeviceError:
        return True
    return any(isinstance(result, wg.Tensor) and result.device != GPU for result in results)


def test_ops_and_their_gradients_stay() -> None:
    wrong = []
    for case in collect():
        call = Call(case)
        arguments, options = tree.unflatten(call.structure, [moved(leaf) for leaf in call.leaves])
        tensors = [leaf for leaf in tree.flatten((arguments, options))[0] if isinstance(leaf, wg.Tensor)]
        if not tensors or case.name.startswith(MAKES_VALUES):
            continue
        function = function_of(case)
        if off_device(function, *arguments, **options):
            wrong.append(identifier(case))
        floating = [tensor for tensor in tensors if tensor.dtype in FLOATING]
        if case.differentiable and floating:
            for tensor in floating:
                tensor.requires_grad = True
            parts = tree.flatten(function(*arguments, **options))[0]
            loss = sum(wg.real(part).sum() for part in parts if isinstance(part, wg.Tensor) and part.requires_grad)
            if isinstance(loss, wg.Tensor) and off_device(loss.backward):
                wrong.append(f"the gradient of {identifier(case)}")
    assert not wrong


def test_values_that_are_looked_at_go_back() -> None:
    x = wg.ones((3,), device=GPU)
    assert not off_device(wg.nonzero, x) and not off_device(wg.unique_all, x)
    assert not off_device(wg.masked_select, x, x > 0) and not off_device(wg.repeat, x, 2)


def test_a_number_sent_there_has_no_axes() -> None:
    for made in (wg.tensor(True, device=GPU), wg.tensor(1.5).to(GPU)):
        assert made.numpy().shape == ()


def test_what_is_filled_with_a_value_is_where_that_is() -> None:
    assert wg.full((2,), wg.ones((), device=GPU)).device == GPU
    assert wg.full((2,), wg.ones(()), device=GPU).device == GPU
    assert wg.full((2,), np.float32(1), device=GPU).device == GPU and wg.full((2,), np.float32(1)).device == "cpu"
    assert wg.random.normal(mean=np.ones(2), device=GPU).device == GPU
    assert wg.random.normal(mean=np.ones(2)).device == "cpu"


def trainings() -> dict[str, Callable[[], Training]]:
    """What is trained, by name."""
    layers = {
        str(layer): lambda layer=layer: test_layers_compiled.training([layer], "float32", GPU)
        for group in test_layers_compiled.GROUPS.values()
        for layer in group
    }
    models = {
        name: lambda name=name: test_models_compiled.training(name, "float32", GPU)
        for name in test_models_compiled.MODELS
        if name != test_models_compiled.DEEP
    }
    return {**layers, **models, "optimizers": lambda: test_optimizers_compiled.training("float32", GPU)}


@pytest.mark.slow
def test_training_steps_stay() -> None:
    wrong = []
    for name, build in trainings().items():
        try:
            training = build()
            results = [*training.step().values(), *training.state.values()]
        except DeviceError as error:
            wrong.append(f"{name}: {error}")
            continue
        wrong += [name] if any(result.device != GPU for result in results) else []
    assert not wrong, "\n".join(wrong)


def test_text_is_generated_on_the_device() -> None:
    config = wg.models.GPTConfig(vocab_size=11, n_positions=8, n_embd=8, n_layer=1, n_head=2)
    model = wg.models.GPT(config).to("cuda")
    prompt = wg.tensor([[1, 2]], device="cuda")
    for cached in (True, False):
        assert model.generate(prompt, 3, top_k=3, top_p=0.9, use_cache=cached).device == GPU


def test_synchronize_waits_for_the_gpus_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    monkeypatch.setattr(opened(GPU), "synchronize", lambda: waited.append(GPU), raising=False)
    wg.synchronize()
    assert waited == [GPU]
