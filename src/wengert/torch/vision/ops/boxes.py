"""Boxes as rows (x1, y1, x2, y2): areas, overlaps, conversions, and the suppression of boxes that overlap."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert.torch.tensor import Tensor, of


def box_area(boxes: Any) -> Tensor:
    """The area of each box."""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def _overlaps(boxes1: Any, boxes2: Any) -> tuple[Any, Any]:
    """The areas that each of the first boxes shares with each of the second, and those that both cover."""
    low = wg.maximum(boxes1[..., :, None, :2], boxes2[..., None, :, :2])
    high = wg.minimum(boxes1[..., :, None, 2:], boxes2[..., None, :, 2:])
    sides = wg.clip(high - low, 0, None)
    shared = sides[..., 0] * sides[..., 1]
    return shared, box_area(boxes1)[..., :, None] + box_area(boxes2)[..., None, :] - shared


def box_iou(boxes1: Any, boxes2: Any, fmt: str = "xyxy") -> Tensor:
    """The shared area of every pair over the area that it covers."""
    if fmt != "xyxy":
        boxes1, boxes2 = (box_convert(boxes, fmt, "xyxy") for boxes in (boxes1, boxes2))
    shared, covered = _overlaps(boxes1, boxes2)
    return of(shared / covered)


def generalized_box_iou(boxes1: Any, boxes2: Any) -> Tensor:
    """`box_iou`, less the share of the smallest box around a pair that the pair does not cover."""
    shared, covered = _overlaps(boxes1, boxes2)
    low = wg.minimum(boxes1[..., :, None, :2], boxes2[..., None, :, :2])
    high = wg.maximum(boxes1[..., :, None, 2:], boxes2[..., None, :, 2:])
    sides = wg.clip(high - low, 0, None)
    around = sides[..., 0] * sides[..., 1]
    return of(shared / covered - (around - covered) / around)


def _corners_of_center(boxes: Any) -> Any:
    center, half = boxes[..., :2], boxes[..., 2:] / 2
    return wg.concat([center - half, center + half], axis=-1)


_TO_CORNERS = {
    "xyxy": lambda boxes: boxes,
    "xywh": lambda boxes: wg.concat([boxes[..., :2], boxes[..., :2] + boxes[..., 2:]], axis=-1),
    "cxcywh": _corners_of_center,
}
_FROM_CORNERS = {
    "xyxy": lambda boxes: boxes,
    "xywh": lambda boxes: wg.concat([boxes[..., :2], boxes[..., 2:] - boxes[..., :2]], axis=-1),
    "cxcywh": lambda boxes: wg.concat(
        [(boxes[..., :2] + boxes[..., 2:]) / 2, boxes[..., 2:] - boxes[..., :2]], axis=-1
    ),
}


def box_convert(boxes: Any, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes from one of "xyxy", "xywh" (a corner and the size) and "cxcywh" (the centre and the size) to another."""
    for form in (in_fmt, out_fmt):
        if form not in _TO_CORNERS:
            raise ValueError(f"Unsupported Bounding Box format {form!r}: one of {', '.join(_TO_CORNERS)}")
    return of(_FROM_CORNERS[out_fmt](_TO_CORNERS[in_fmt](boxes)))


def clip_boxes_to_image(boxes: Any, size: Any) -> Tensor:
    """Boxes cut off at the edges of an image (height, width)."""
    height, width = size
    limits = wg.tensor(np.array([width, height, width, height], boxes.node.dtype))
    return of(wg.minimum(wg.clip(boxes, 0, None), limits))


def remove_small_boxes(boxes: Any, min_size: float) -> Tensor:
    """The indices of the boxes whose sides are both at least `min_size`."""
    found = boxes.detach().cpu().numpy()
    sides = found[:, 2:] - found[:, :2]
    return of(wg.tensor(np.flatnonzero((sides >= min_size).all(axis=1))))


def nms(boxes: Any, scores: Any, iou_threshold: float) -> Tensor:
    """The indices of the boxes that stay, best score first: each removes those that overlap it by more."""
    overlap = box_iou(boxes.detach(), boxes.detach()).cpu().numpy()
    order = np.argsort(-scores.detach().cpu().numpy(), kind="stable")
    kept: list[int] = []
    alive = np.ones(len(order), bool)
    for i in order.tolist():
        if alive[i]:
            kept.append(i)
            alive &= overlap[i] <= iou_threshold
    return of(wg.tensor(np.array(kept, np.int64)))


def batched_nms(boxes: Any, scores: Any, idxs: Any, iou_threshold: float) -> Tensor:
    """`nms` within each category: boxes of different ones are moved apart."""
    if not boxes.node.shape[0]:
        return of(wg.zeros((0,), dtype=wg.int64))
    apart = idxs.to(boxes.dtype) * (boxes.max() + 1)
    return nms(boxes + apart[:, None], scores, iou_threshold)
