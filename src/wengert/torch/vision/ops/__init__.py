"""`torchvision.ops`: boxes, and the blocks that models are built of."""

from __future__ import annotations

from typing import Any

from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.vision.ops.boxes import (
    batched_nms,
    box_area,
    box_convert,
    box_iou,
    clip_boxes_to_image,
    generalized_box_iou,
    nms,
    remove_small_boxes,
)
from wengert.torch.vision.ops.focal_loss import sigmoid_focal_loss
from wengert.torch.vision.ops.misc import (
    MLP,
    Conv2dNormActivation,
    Conv3dNormActivation,
    FrozenBatchNorm2d,
    Permute,
    SqueezeExcitation,
)
from wengert.torch.vision.ops.stochastic_depth import StochasticDepth, stochastic_depth


def __getattr__(name: str) -> Any:
    return _missing_attribute("torchvision.ops", name)
