"""Cases of movement: the same elements elsewhere, of 0-d, empty, size-1, transposed and strided values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

A, B, C, THIN, EMPTY = arrays(21, (2, 6), (2, 3, 4), (5,), (1, 3, 1), (0, 3))
TURNED = arrays(22, (6, 2))[0].T
EVERY_OTHER = arrays(23, (7, 2))[0][::2]
NUMBER = np.array(1.5)


def torch_squeeze(x: Any, axis: Any = None) -> Any:
    return x.squeeze() if axis is None else x.squeeze(axis)


def numpy_flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    first, last = start_dim % max(x.ndim, 1), end_dim % max(x.ndim, 1)
    return x.reshape(*x.shape[:first], int(np.prod(x.shape[first : last + 1])), *x.shape[last + 1 :])


def torch_flip(x: Any, axis: Any = None) -> Any:
    return x.flip(tuple(range(x.ndim)) if axis is None else axis)


def numpy_concat(xs: Any, axis: int | None = 0) -> Any:
    return np.concatenate(xs, axis)


def torch_concat(xs: Any, axis: int | None = 0) -> Any:
    import torch

    return torch.cat([x.flatten() for x in xs]) if axis is None else torch.cat(xs, axis)


def torch_stack(xs: Any, axis: int = 0) -> Any:
    import torch

    return torch.stack(xs, axis)


def calls(name: str, numpy: Any, torch: Any, *listed: tuple[Any, ...]) -> list[Case]:
    """A case for each tuple of arguments; a dict at its end is keyword arguments."""
    found = []
    for args in listed:
        kwargs = args[-1] if isinstance(args[-1], dict) else {}
        found.append(Case(name, args[:-1] if kwargs else args, kwargs, numpy=numpy, torch=torch))
    return found


CASES = [
    *calls(
        "reshape",
        np.reshape,
        lambda x, shape: x.reshape(shape),
        (A, (3, 4)),
        (TURNED, (-1,)),
        (NUMBER, (1, 1)),
        (EMPTY, (3, 0, 2)),
        (THIN, (3,)),
        (EVERY_OTHER, (2, -1)),
        (B, (2, 12)),
    ),
    *calls(
        "expand_dims",
        lambda x, axis=0: np.expand_dims(x, axis),
        lambda x, axis=0: x.unsqueeze(axis),
        (A,),
        (A, {"axis": 1}),
        (TURNED, {"axis": -1}),
        (NUMBER, {"axis": 0}),
        (EMPTY, {"axis": 2}),
    ),
    *calls(
        "squeeze",
        lambda x, axis=None: np.squeeze(x, axis),
        torch_squeeze,
        (THIN, 0),
        (THIN, {"axis": (0, 2)}),
        (THIN, -1),
        (EMPTY[None], {"axis": 0}),
        (TURNED[:, None, :], 1),
        (THIN,),
    ),
    *calls(
        "flatten",
        numpy_flatten,
        lambda x, start_dim=0, end_dim=-1: x.flatten(start_dim, end_dim),
        (A,),
        (B, {"start_dim": 1}),
        (B, {"start_dim": 0, "end_dim": 1}),
        (TURNED,),
        (EMPTY,),
        (THIN,),
    ),
    Case("flatten", (NUMBER,), numpy=np.ravel, torch=lambda x: x.flatten()),
    *calls(
        "permute_dims",
        np.transpose,
        lambda x, axes: x.permute(axes),
        (A, (1, 0)),
        (B, (2, 0, 1)),
        (B, {"axes": (1, 0, 2)}),
        (TURNED, (1, 0)),
        (EMPTY, (-1, 0)),
        (THIN, (2, 1, 0)),
        (NUMBER, ()),
    ),
    *[
        case
        for name in ("matrix_transpose", "linalg.matrix_transpose")
        for case in calls(
            name, lambda x: np.swapaxes(x, -1, -2), lambda x: x.mT, (A,), (B,), (TURNED,), (EMPTY,), (THIN,)
        )
    ],
    *calls(
        "swapaxes",
        np.swapaxes,
        lambda x, a, b: x.swapaxes(a, b),
        (A, 0, 1),
        (B, 0, -1),
        (TURNED, 1, 0),
        (EMPTY, 0, 1),
        (THIN, 1, 2),
        (C, 0, 0),
    ),
    *calls(
        "moveaxis",
        np.moveaxis,
        lambda x, source, destination: x.movedim(source, destination),
        (A, 0, 1),
        (B, (0, 1), (2, 0)),
        (B, -1, 0),
        (TURNED, 1, 0),
        (EMPTY, 0, -1),
        (THIN, 1, 0),
    ),
    *calls(
        "broadcast_to",
        np.broadcast_to,
        lambda x, shape: x.broadcast_to(shape),
        (C, (3, 5)),
        (NUMBER, (2, 3)),
        (THIN, (2, 3, 2)),
        (EMPTY, (2, 0, 3)),
        (TURNED, (3, 2, 6)),
        (A, (2, 6)),
    ),
    *calls(
        "flip", np.flip, torch_flip, (A,), (A, {"axis": 1}), (B, {"axis": (0, -1)}), (TURNED,), (EMPTY, {"axis": 0})
    ),
    *calls("flip", np.flip, torch_flip, (NUMBER,), (EVERY_OTHER, {"axis": 0})),
    *calls(
        "concat",
        numpy_concat,
        torch_concat,
        ([A, TURNED],),
        ([A, TURNED, A[:, :1]], {"axis": 1}),
        ([A, C], {"axis": None}),
        ([EMPTY, arrays(24, (2, 3))[0]],),
        ([THIN, B[:1, :, :2]], {"axis": -1}),
        ([C],),
    ),
    *calls(
        "stack",
        lambda xs, axis=0: np.stack(xs, axis),
        torch_stack,
        ([A, TURNED],),
        ([A, TURNED, A], {"axis": 1}),
        ([C, C[::-1]], {"axis": -1}),
        ([NUMBER, np.array(2.5)],),
        ([EMPTY, EMPTY], {"axis": 1}),
    ),
    *calls(
        "unstack",
        lambda x, axis=0: list(np.moveaxis(x, axis, 0)),
        lambda x, axis=0: x.unbind(axis),
        (A,),
        (A, {"axis": 1}),
        (B, {"axis": -1}),
        (TURNED,),
        (C,),
        (THIN, {"axis": 0}),
    ),
]
