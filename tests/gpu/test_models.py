"""Layers, optimizers and models, three training steps on the GPU: losses, gradients and states of the references."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.compiler import test_layers_compiled, test_models_compiled, test_optimizers_compiled
from tests.compiler.test_layers_compiled import GROUPS
from tests.compiler.test_models_compiled import DEEP, MODELS
from tests.compiler.three_steps import assert_compiled_as_interpreted, dynamic, interpreted, replayed

WAYS = pytest.mark.parametrize("way", [replayed, dynamic, interpreted], ids=lambda way: way.__name__)
DTYPES = ("float64", "float32")
Way = Callable[[Any], dict[str, Any]]


@WAYS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", GROUPS)
def test_layers(group: str, dtype: str, way: Way) -> None:
    assert_compiled_as_interpreted(way, partial(test_layers_compiled.training, GROUPS[group]), dtype, "cuda")


@WAYS
@pytest.mark.parametrize("dtype", DTYPES)
def test_optimizers(dtype: str, way: Way) -> None:
    assert_compiled_as_interpreted(way, test_optimizers_compiled.training, dtype, "cuda")


@WAYS
@pytest.mark.parametrize("name, dtype", [(name, dtype) for name in MODELS for dtype in DTYPES[: 1 + (name != DEEP)]])
def test_models(name: str, dtype: str, way: Way) -> None:
    assert_compiled_as_interpreted(way, partial(test_models_compiled.training, name), dtype, "cuda")
