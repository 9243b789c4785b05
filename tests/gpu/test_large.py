"""Arrays of more than 2^31 elements, and grids of more than 65535 tiles, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wengert as wg

torch = pytest.importorskip("torch", reason="torch is not installed")
ROWS, COLUMNS = 32_768, 65_540

BYTES: dict[str, tuple[Callable[[wg.Tensor], wg.Tensor], Callable[[Any], Any]]] = {
    "elements": (lambda x: x + 1, lambda t: t + 1),
    "transposed": (lambda x: x.T + 1, lambda t: t.T + 1),
    "flipped": (lambda x: wg.flip(x, axis=1), lambda t: t.flip(1)),
    "sliced": (lambda x: x[1:, 3::2] + 1, lambda t: t[1:, 3::2] + 1),
    "rows": (lambda x: x.max(1), lambda t: t.amax(1)),
    "columns": (lambda x: x.max(0), lambda t: t.amax(0)),
    "joined": (lambda x: wg.concat([x, x[:3]], axis=0), lambda t: torch.cat([t, t[:3]])),
}


@pytest.mark.parametrize("compiled", [True, False])
def test_more_elements_than_32_bits_count(compiled: bool) -> None:
    t = torch.randint(0, 100, (ROWS, COLUMNS), dtype=torch.uint8, device="cuda")
    x = wg.from_dlpack(t)
    for name, (ours, theirs) in BYTES.items():
        found = torch.from_dlpack((wg.compile(ours) if compiled else ours)(x))
        assert torch.equal(found, theirs(t)), name
    del found, t, x
    torch.cuda.empty_cache()


TILES: dict[str, tuple[Callable[..., wg.Tensor], Callable[..., Any], tuple[int, ...], tuple[int, ...]]] = {
    "tall product": (lambda x, w: x @ w, lambda x, w: x @ w, (4_000_000, 4), (4, 8)),
    "many images": (
        lambda x, w: wg.conv1d(x, w, padding=1),
        lambda x, w: torch.nn.functional.conv1d(x, w, padding=1),
        (70_000, 4, 16),
        (8, 4, 3),
    ),
    "a long one": (
        lambda x, w: wg.conv1d(x, w, padding=1),
        lambda x, w: torch.nn.functional.conv1d(x, w, padding=1),
        (1, 4, 4_000_000),
        (64, 4, 3),
    ),
}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("case", TILES.values(), ids=TILES)
def test_more_tiles_than_an_axis_of_a_grid_holds(case: Any, compiled: bool) -> None:
    ours, theirs, *shapes = case
    torch.backends.cudnn.allow_tf32 = False
    given = [torch.randint(-3, 4, shape, device="cuda").float() for shape in shapes]  # whose sums are exact
    found = (wg.compile(ours) if compiled else ours)(*map(wg.from_dlpack, given))
    assert torch.equal(torch.from_dlpack(found), theirs(*given))
