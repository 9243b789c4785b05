"""Names of PyTorch's and slips of the pen: the error gives the spelling, and never an unrelated name."""

from __future__ import annotations

import pytest

import wengert as wg
from wengert.api.spelling_hints import nearest


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("from wengert import cat", "wengert has no 'cat': write wg.concat"),
        ("from wengert.nn import functional as F", "write wg.relu, wg.cross_entropy"),
        ("import wengert.nn.functional as F", "there is no module 'wengert.nn.functional': use wg.relu"),
        ("from wengert.optim.lr_scheduler import StepLR", "use wg.optim.StepLR"),
        ("from wengert.utils.data import DataLoader", "use wg.data for data"),
        ("from wengert.nn import Linaer", "did you mean 'Linear'"),
        ("from wengert import no_such_name", "wengert has no 'no_such_name'$"),
    ],
)
def test_imports_say_the_spelling(line: str, hint: str) -> None:
    with pytest.raises(ImportError, match=hint):
        exec(line)


def test_what_is_asked_for_by_name_is_not_there_as_anywhere() -> None:
    """`hasattr`, and imports that are tried, work as of any module."""
    assert not hasattr(wg, "cat") and not hasattr(wg.nn, "functional") and getattr(wg, "long", None) is None
    with pytest.raises(ModuleNotFoundError, match=r"No module named .wengert"):
        exec("import wengert.no_such_module")
    exec("from wengert import nn, relu, data; from wengert.nn import Linear; import wengert.optim")


@pytest.mark.parametrize(
    ("name", "spelling"),
    [("bernoulli", "wg.random.bernoulli"), ("utils", "wg.data"), ("long", "wg.int64"), ("device", 'x.to("cuda")')],
)
def test_known_names_of_a_module(name: str, spelling: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(wg, name)
    assert spelling in str(caught.value) and "did you mean" not in str(caught.value)


@pytest.mark.parametrize(("name", "spelling"), [("eq", "x == y"), ("new_zeros", "wg.zeros"), ("clamp_", "x.assign")])
def test_known_names_of_a_tensor(name: str, spelling: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(wg.ones(2), name)
    assert spelling in str(caught.value) and "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["bernoulli", "utils", "long", "eq", "new_zeros", "chol", "grid_sample", "i0", "slice"]
)
def test_no_name_that_is_merely_similar(name: str) -> None:
    assert nearest(name, [one for one in wg.__all__ if one != name]) == ""


@pytest.mark.parametrize("slip", ["sofmax", "softmaxx", "cross_entorpy", "layernorm", "matmull"])
def test_a_slip_is_set_right(slip: str) -> None:
    assert "did you mean" in nearest(slip, wg.__all__)
