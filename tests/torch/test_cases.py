"""Snippets of PyTorch programs, run with PyTorch and with `wengert.torch`: the same values, texts and errors."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import wengert.torch as ours
from tests.torch import cases_everyday

theirs = pytest.importorskip("torch")
CASES = [found for name, found in vars(cases_everyday).items() if inspect.isfunction(found)]
ERRORS = (TypeError, ValueError, RuntimeError, IndexError, KeyError, AttributeError)


def _seen(case: Any, module: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _plain(case(module), module)
        except ERRORS as error:
            return next(kind.__name__ for kind in ERRORS if isinstance(error, kind))


def _plain(value: Any, module: Any) -> Any:
    if isinstance(value, module.Tensor):
        array = np.array(value.detach().numpy())
        return str(value.dtype), tuple(value.shape), value.requires_grad, array.tolist()
    return [_plain(one, module) for one in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_case(case: Any) -> None:
    """Both see the same."""
    assert _seen(case, ours) == _seen(case, theirs)
