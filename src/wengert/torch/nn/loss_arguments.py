"""The constructors of losses: PyTorch's order of arguments, with the retired `size_average` and `reduce` among them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.nn.loss import _Between, _Loss
from wengert.torch.nn.accepted import require_classes
from wengert.torch.nn.functional import loss
from wengert.torch.nn.functional.loss import reduction_of
from wengert.torch.nn.module import parts, set_up

_ORDERS = {
    "BCELoss": "weight size_average reduce reduction",
    "BCEWithLogitsLoss": "weight size_average reduce reduction pos_weight",
    "CTCLoss": "blank reduction zero_infinity",
    "CosineEmbeddingLoss": "margin size_average reduce reduction",
    "CrossEntropyLoss": "weight size_average ignore_index reduce reduction label_smoothing",
    "GaussianNLLLoss": "* full eps reduction",
    "HingeEmbeddingLoss": "margin size_average reduce reduction",
    "HuberLoss": "reduction delta",
    "KLDivLoss": "size_average reduce reduction log_target",
    "L1Loss": "size_average reduce reduction",
    "MSELoss": "size_average reduce reduction",
    "MarginRankingLoss": "margin size_average reduce reduction",
    "MultiLabelMarginLoss": "size_average reduce reduction",
    "MultiLabelSoftMarginLoss": "weight size_average reduce reduction",
    "MultiMarginLoss": "p margin weight size_average reduce reduction",
    "NLLLoss": "weight size_average ignore_index reduce reduction",
    "PoissonNLLLoss": "log_input full size_average eps reduce reduction",
    "SmoothL1Loss": "size_average reduce reduction beta",
    "SoftMarginLoss": "size_average reduce reduction",
    "TripletMarginLoss": "margin p eps swap size_average reduce reduction",
    "TripletMarginWithDistanceLoss": "* distance_function margin swap reduction",
    "_Loss": "size_average reduce reduction",
}


def _constructor(kind: Any, order: str) -> Callable[..., None]:
    """An `__init__` with these arguments, whose defaults are those of Wengert's loss."""
    own = inspect.signature(kind.__init__).parameters
    how: Any = inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)]
    for name in order.split():
        if name == "*":
            how = inspect.Parameter.KEYWORD_ONLY
            continue
        found.append(inspect.Parameter(name, how, default=own[name].default if name in own else None))
    found[0] = found[0].replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD)
    signature = inspect.Signature(found)

    def __init__(*args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        self = given.pop("self")
        given["reduction"] = reduction_of(
            given.pop("size_average", None), given.pop("reduce", None), given["reduction"]
        )
        set_up(self)
        kind.__init__(self, **given)
        self._adapt()

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    return __init__


def _no_text(self: Any) -> str:
    """Nothing: PyTorch shows no settings of losses."""
    return ""


def _forward(name: str, setting: str | None = None) -> Callable[..., Any]:
    """What the function does, which broadcasts with a warning."""

    def forward(self: Any, input: Any, target: Any) -> Any:
        settings = {} if setting is None else {setting: getattr(self, setting)}
        return getattr(loss, name)(input, target, reduction=self.reduction, **settings)

    return forward


def _of_classes(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The same, refusing targets that PyTorch refuses."""

    def call(self: Any, input: Any, target: Any) -> Any:
        require_classes(target)
        return forward(self, input, target)

    return call


for _name, _order in _ORDERS.items():
    _kind = _Loss if _name == "_Loss" else getattr(wg.nn, _name)
    parts.setdefault(_name, {}).update(__init__=_constructor(_kind, _order), extra_repr=_no_text)
parts.setdefault("_Between", {}).update(__init__=_constructor(_Between, _ORDERS["L1Loss"]), extra_repr=_no_text)
parts["MSELoss"]["forward"], parts["L1Loss"]["forward"] = _forward("mse_loss"), _forward("l1_loss")
parts["CrossEntropyLoss"]["forward"] = _of_classes(wg.nn.CrossEntropyLoss.forward)
parts["NLLLoss"]["forward"] = _of_classes(wg.nn.NLLLoss.forward)
parts["SmoothL1Loss"]["forward"] = _forward("smooth_l1_loss", "beta")
parts["HuberLoss"]["forward"] = _forward("huber_loss", "delta")
