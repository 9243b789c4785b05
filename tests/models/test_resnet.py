"""ResNets beside torch's: names, scores, losses, all gradients and training steps, in both forms."""

from __future__ import annotations

import re

import numpy as np
import pytest

import wengert as wg

torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")

from tests.models import torch_references as references  # noqa: E402
from tests.models.compare import Comparison, optimizers, shake, train_beside  # noqa: E402

STEPS = {
    "SGD": {"lr": 0.02, "momentum": 0.9, "weight_decay": 1e-4},
    "AdamW": {"lr": 1e-3, "weight_decay": 0.05},
}


def pair(depth, num_classes, stem):
    torch.manual_seed(depth)
    reference = references.resnet(depth, num_classes, cifar=stem == "cifar").double()
    shake(reference)
    make = {18: wg.models.resnet18, 34: wg.models.resnet34, 50: wg.models.resnet50}[depth]
    return make(num_classes, stem=stem, dtype=wg.float64), reference


@pytest.mark.parametrize(
    "stem, size, optimizer",
    [
        ("cifar", 16, "AdamW"),
        pytest.param("imagenet", 64, "SGD", marks=pytest.mark.slow),
        pytest.param("imagenet", 64, "AdamW", marks=pytest.mark.slow),
        pytest.param("cifar", 16, "SGD", marks=pytest.mark.slow),
    ],
)
def test_resnet18_trains_as_torch_does(stem, size, optimizer, record_property):
    model, reference = pair(18, 10, stem)
    images, labels = torch.randn(3, 3, size, size).double(), torch.tensor([3, 1, 7])
    x, y = wg.tensor(images.detach().numpy()), wg.tensor(labels.detach().numpy())
    compared = train_beside(
        model,
        reference,
        optimizers(optimizer, model, reference, **STEPS[optimizer]),
        (
            lambda: wg.cross_entropy(model(x), y),
            lambda: torch.nn.functional.cross_entropy(reference(images), labels),
        ),
        steps=2,
    )
    assert compared.tensors == 2 * (1 + 62 + 122)
    record_property("compared", compared.counts)


@pytest.mark.parametrize("depth, parameters", [(18, 11_689_512), (34, 21_797_672), (50, 25_557_032)])
def test_the_forms_for_imagenet_have_the_published_sizes_and_torch_s_scores(depth, parameters, record_property):
    model, reference = pair(depth, 1000, "imagenet")
    assert sum(p.size for p in model.parameters()) == parameters
    with torch.no_grad():
        for buffer in reference.buffers():
            if buffer.is_floating_point():
                buffer += 0.1 * torch.rand_like(buffer)
    model.load_state_dict(reference.state_dict())
    images = torch.randn(2, 3, 32, 32).double()
    with torch.no_grad():
        expected = reference.eval()(images)
    compare = Comparison()
    compare.same(model.eval()(wg.tensor(images.detach().numpy())), expected, "scores")
    compare.same_state(model, reference)
    record_property("compared", compare.counts)


def test_convolutions_begin_with_the_variance_that_relu_keeps_backwards():
    wg.manual_seed(0)
    model = wg.models.resnet18(10)
    for name, weight in model.named_parameters():
        values = weight.detach().numpy()
        if weight.ndim == 4:
            outputs, _, height, width = weight.shape
            expected = np.sqrt(2 / (outputs * height * width))
            assert abs(values.mean()) < 0.05 * expected, name
            assert values.std() == pytest.approx(expected, rel=0.05), name
        elif re.search(r"bn\d\.|downsample\.1\.", name):
            assert (values == name.endswith("weight")).all(), name
    assert np.abs(model.fc.weight.detach().numpy()).max() <= 1 / np.sqrt(512)


def test_a_wrong_image_names_the_layer():
    with pytest.raises(wg.errors.ShapeError, match="conv1"):
        wg.models.resnet18(10)(wg.zeros((1, 4, 32, 32)))


def test_an_unknown_stem_names_those_there_are():
    with pytest.raises(wg.errors.ArgumentError, match='"imagenet" or "cifar", not \'mnist\''):
        wg.models.resnet18(10, stem="mnist")
