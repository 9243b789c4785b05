"""`torch.distributions`: Wengert's distributions, which give this package's tensors here.

The classes are made in `classes`; constraints, transforms and divergences are Wengert's own, since they compute with
the tensors that they are given. Every module that PyTorch keeps a class in is there as well.
"""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Any

from wengert import distributions as _wengert
from wengert.distributions import constraint_registry, constraints, kl
from wengert.distributions.constraint_registry import biject_to, transform_to
from wengert.distributions.kl import kl_divergence, register_kl
from wengert.torch.distributions import utils
from wengert.torch.distributions.classes import CLASSES as _CLASSES
from wengert.torch.distributions.classes import Distribution
from wengert.torch.missing import missing_attribute as _missing_attribute

globals().update(_CLASSES)
_TRANSFORMS = {
    name: getattr(_wengert, name)
    for name in _wengert.__all__
    if name.endswith("Transform") or name == "identity_transform"
}
globals().update(_TRANSFORMS)

_MODULES = {
    "fishersnedecor": "FisherSnedecor",
    "lkj_cholesky": "LKJCholesky",
    "lowrank_multivariate_normal": "LowRankMultivariateNormal",
    "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
    "relaxed_bernoulli": "RelaxedBernoulli LogitRelaxedBernoulli",
    "relaxed_categorical": "RelaxedOneHotCategorical ExpRelaxedCategorical",
    "studentT": "StudentT",
}
"""The modules of PyTorch that are not called as their only class."""


def _add_modules() -> None:
    """Enter the modules below this one, which PyTorch has, under their names."""
    listed = {name for names in _MODULES.values() for name in names.split()}
    contents: dict[str, Any] = {
        re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower(): {name: made}
        for name, made in _CLASSES.items()
        if name not in listed
    }
    contents |= {module: {name: _CLASSES[name] for name in names.split()} for module, names in _MODULES.items()}
    contents["distribution"] = {"Distribution": Distribution}
    contents["transforms"] = _TRANSFORMS
    for module, members in contents.items():
        made = ModuleType(f"{__name__}.{module}", f"`torch.distributions.{module}`.")
        vars(made).update(members)
        globals()[module] = sys.modules[made.__name__] = made
    for known in (constraints, constraint_registry, kl):
        sys.modules[f"{__name__}.{known.__name__.rpartition('.')[2]}"] = known


_add_modules()


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.distributions", name)
