"""Attention on a CUDA device by our own kernels, forward and backward.

fma     any float, heads of any size that fits shared memory         attention.cuh
mma     tensor cores: float16, bfloat16, heads up to 128; sm_80 on   attention_mma.cuh
wgmma   the same on sm_90a, heads of more than 32                    attention_wgmma.cuh
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wengert.core.dtypes import bool_
from wengert.core.graph import Node
from wengert.kernels.attention.form import AttentionForm, attention, by_head
from wengert.kernels.copy.cuda import cleared
from wengert.kernels.launch import H200, Asked, DeviceProperties, Launch, LaunchList, Named
from wengert.kernels.matmul.gemm_source import wgmma
from wengert.kernels.matmul.product import HALVES, device_type, sum_type
from wengert.ops.attention import ATTENTION

_LOG2E = 1 / math.log(2)


# --- text -----------------------------------------------------------------------------------------------------------


def _place(name: str, offset: int, steps: Sequence[int], lead: Sequence[int]) -> str:
    """A function that returns the address of a head's matrix."""
    terms, below, padded = [str(offset)], 1, (*(0,) * (len(lead) - len(steps)), *steps)
    for size, step in reversed(list(zip(lead, padded))):
        if step and size > 1:
            terms.append(f"head / {below} % {size} * {step}LL")
        below *= size
    return f"    __device__ static long long {name}_at(int head) {{ return {' + '.join(terms)}; }}\n"


def _shape(a: AttentionForm) -> str:
    """The sizes and steps as constants for attention.cuh."""
    early = a.scale <= 0 or (a.mask is not None and a.mask.dtype != bool_)
    numbers = {name: getattr(a, name) for name in ("queries", "keys", "features", "values", "pitch")}
    numbers |= {"causal": int(a.causal), "scaled_early": int(early), "totals": a.totals}
    numbers["free"] = int(not all(v.aligned(16 // a.dtype.itemsize) for v in a.views.values()))
    text = ""
    places = [(name, v.offset, v.steps, v.row) for name, v in a.views.items()]
    places += [(name, *layout) for name, layout in a.results.items()]
    for name, offset, steps, row in places:
        numbers[f"{name}_row"] = row
        text += _place(name, offset, steps, a.lead)
    text += _place("mask", 0, () if a.mask is None else _contiguous(a.mask), a.lead)
    numbers["mask_kind"] = 0 if a.mask is None else 1 if a.mask.dtype == bool_ else 2
    if a.mask is not None:
        numbers["mask_row"] = 0 if a.mask.shape[-2] == 1 else a.mask.shape[-1]
        numbers["mask_column"] = 0 if a.mask.shape[-1] == 1 else 1
    lines = "".join(f"    static const int {name} = {value};\n" for name, value in numbers.items())
    unit = 1.0 if early else a.scale * _LOG2E
    lines += f"    static constexpr double scale = {a.scale!r}, unit = {unit!r};\n"
    return f"struct wg_shape {{\n{lines}{text}}};\n"


def _contiguous(mask: Node) -> list[int]:
    """The strides between a mask's matrices along each leading axis; 0 where it is broadcast."""
    sizes = mask.shape
    return [0 if sizes[i] == 1 else math.prod(sizes[i + 1 :]) for i in range(len(sizes) - 2)]


@dataclass(frozen=True)
class AttentionTile:
    """A block's tile: rows it owns, rows of the other side per iteration, warps."""

    rung: str
    own: int
    other: int
    warps: int = 8

    @property
    def cores(self) -> str:
        """The C++ type that multiplies tiles on the tensor cores."""
        return f"wg_by_mma<wg_element, {self.own // self.warps}>" if self.rung == "mma" else "wg_by_wgmma<wg_element>"

    @property
    def aligning(self) -> int:
        """Bytes of shared memory needed to align tiles."""
        return 1024 if self.rung == "wgmma" else 0


def _kernel(name: str, a: AttentionForm, tile: AttentionTile, call: str, parameters: Sequence[str]) -> str:
    header = "attention.cuh" if tile.rung == "fma" else f"attention_{tile.rung}.cuh"
    absent = "const unsigned char *mask = 0;\n    " if a.mask is None else ""
    return f"""{_multiplications(a, tile)}#include "{header}"

typedef {device_type(a.dtype)} wg_element;
typedef {sum_type(a.dtype)} wg_sum;
{_shape(a)}
extern "C" __global__ void __launch_bounds__({tile.warps * 32}) {name}({", ".join(parameters)})
{{
    extern __shared__ __align__(128) char shared[];
    {absent}{call}
}}
"""


def _multiplications(a: AttentionForm, tile: AttentionTile) -> str:
    """The text of each wgmma: scores from two tiles; features and values from weights in registers and a tile."""
    if tile.rung != "wgmma":
        return ""
    texts = [wgmma(tile.other, a.dtype, (False, False))]
    texts += [wgmma(wide, a.dtype, (False, True), True, "wg_weigh") for wide in sorted({*a.padded})]
    return "".join(texts)


def _launch(
    name: str, a: AttentionForm, tile: AttentionTile, call: str, buffers: Mapping[str, str], rows: int, shared: int
) -> Launch:
    """A launch whose kernel takes these buffers, in the order of its text."""
    mask = "unsigned char" if a.mask is None or a.mask.dtype == bool_ else "wg_element"
    kinds = {"mask": mask, "logarithms": "wg_sum", "shares": "wg_sum", "parts": "float"}
    parameters = [f"{kinds.get(x, 'wg_element')} *{x}" for x in buffers]
    why = f"{tile.rung} {tile.own} x {tile.other} scores at a time, {tile.warps} warps"
    grid, block = (a.heads, -(-rows // tile.own), 1), (tile.warps * 32, 1, 1)
    return Launch(_kernel(name, a, tile, call, parameters), name, grid, block, tuple(buffers.values()), shared, why)


def _by_tensor_cores(a: AttentionForm, device: DeviceProperties) -> bool:
    return a.dtype in HALVES and max(a.features, a.values) <= 128 and int(device.arch.rstrip("a")) >= 80


def has_work(node: Node, device: DeviceProperties = H200) -> bool:
    """Whether our kernels support an attention: one of their tiles fits in shared memory."""
    a = attention(node)
    if a is None:
        return _has_nothing(node) if isinstance(node.dtype, tuple) else not node.size
    return _forward_tile(a, device) is not None and (node.op is ATTENTION or _back_tile(a, device) is not None)


def _has_nothing(node: Node) -> bool:
    """Whether there are no queries or no keys, so that all cotangents are zero."""
    return any(0 in source.shape for source in node.sources)


def outdoes_libraries(node: Node, device: DeviceProperties) -> bool:
    """Whether our kernels are faster than cuDNN's: on Hopper with 64 features per head; for 128 cuDNN is faster."""
    a = attention(node)
    return a is not None and _by_tensor_cores(a, device) and _by_wgmma(a, device) and max(a.padded) <= 64


# --- forward --------------------------------------------------------------------------------------------------------


def _by_wgmma(a: AttentionForm, device: DeviceProperties) -> bool:
    return device.arch == "90a" and min(a.padded) >= 64


def _forward_tile(a: AttentionForm, device: DeviceProperties) -> AttentionTile | None:
    if _by_tensor_cores(a, device):
        if _by_wgmma(a, device):
            return AttentionTile("wgmma", 64, 64, 4)
        return AttentionTile("mma", 128, 64 if max(a.features, a.values) <= 64 else 32, 4)
    return _plain_tile(device, lambda n: _plain_bytes(a, n, (2, 1, 1)))


def _plain_bytes(a: AttentionForm, tile: int, counts: tuple[int, int, int]) -> int:
    """Shared memory of this many tiles of features, of values and of scores."""
    size = 8 if a.dtype.itemsize == 8 else 4
    wide, deep, square = counts
    return size * tile * (wide * (a.features | 1) + deep * (a.values | 1) + square * (tile + 1))


def _plain_tile(device: DeviceProperties, need: Any) -> AttentionTile | None:
    """The largest tile that fits, with several blocks per SM if possible."""
    for limit in (device.shared_per_sm // 2 - 1024, device.shared_per_block):
        for n in (64, 32, 16):
            if need(n) <= limit:
                return AttentionTile("fma", n, n)
    return None


def _walk(a: AttentionForm, tile: AttentionTile, given: Mapping[str, str], y: str, logarithms: str | None) -> Launch:
    """The launch of the forward pass, which may store the log-sum-exp for the backward."""
    keeps = "false" if logarithms is None else "true"
    results = "y, (wg_sum *)0" if logarithms is None else "y, logarithms"
    if tile.rung != "fma":
        e, v = a.padded
        sizes = f"wg_shape, {tile.cores}, {e}, {v}, {tile.warps}, {tile.other}, {keeps}"
        call = f"wg_attention_cores<{sizes}>(query, key, value, mask, {results}, shared);"
        walk = 2 * (tile.own * e + 2 * tile.other * (e + v)) + tile.aligning
        shared = max(walk, tile.warps * 16 * (v + 8) * 4)
    else:
        call = f"wg_attention<wg_shape, {tile.own}, {keeps}>(query, key, value, mask, {results}, (wg_sum *)shared);"
        shared = _plain_bytes(a, tile.own, (2, 1, 1))
    buffers = {**{name: x for name, x in given.items() if name != "g"}, "y": y}
    buffers |= {} if logarithms is None else {"logarithms": logarithms}
    return _launch("attention", a, tile, call, buffers, a.queries, shared)


def _names(a: AttentionForm, named: Named) -> dict[str, str]:
    names = {name: named(v.base) for name, v in a.views.items()}
    return names if a.mask is None else {**names, "mask": named(a.mask)}


def forward(node: Node, named: Named, device: DeviceProperties, kept: Sequence[Node] = ()) -> LaunchList | None:
    """The launches of an attention; with memory for the backward's operands, it stores the log-sum-exp too."""
    a = attention(node)
    tile = _forward_tile(a, device) if a is not None else None
    if a is None or tile is None:
        return LaunchList(()) if not node.size else None
    logarithms = named(kept[0]) if kept else None
    return LaunchList((_walk(a, tile, _names(a, named), named(node), logarithms),))


# --- backward -------------------------------------------------------------------------------------------------------


def _back_tile(a: AttentionForm, device: DeviceProperties) -> AttentionTile | None:
    if _by_tensor_cores(a, device):
        return AttentionTile("wgmma" if _by_wgmma(a, device) else "mma", 64, 64, 4)
    return _plain_tile(device, lambda n: _plain_bytes(a, n, (2, 2, 2)))


def _back(a: AttentionForm, tile: AttentionTile, given: Mapping[str, str], to: str, to_value: str | None) -> Launch:
    """The launch for the cotangents of keys and values, or of queries; tensor cores need precomputed shares."""
    by_key = to_value is not None
    flag, results = ("true", "to, to_value") if by_key else ("false", "to, (wg_element *)0")
    operands = "query, key, value, mask, g, logarithms, shares"
    if tile.rung != "fma":
        operands += ", y, parts" if a.totals else ", y, (float *)0"
        e, v = a.padded
        sizes = f"wg_shape, {tile.cores}, {e}, {v}, {tile.warps}, {tile.other}, {flag}"
        call = f"wg_attention_back_cores<{sizes}>({operands}, {results}, shared);"
        walk = 2 * (tile.own + 2 * tile.other) * (e + v) + (16 * tile.other if by_key else 0) + tile.aligning
        shared = max(walk, tile.warps * 16 * (max(e, v) + 8) * 4)
    else:
        call = f"wg_attention_back<wg_shape, {tile.own}, {flag}>({operands}, {results}, (wg_sum *)shared);"
        shared = _plain_bytes(a, tile.own, (2, 2, 2))
    queries = a.queries if tile.rung == "fma" else a.pitch
    name, rows = ("attention_by_key", a.keys) if by_key else ("attention_by_query", queries)
    buffers = {**given, "to": to} | ({} if to_value is None else {"to_value": to_value})
    return _launch(name, a, tile, call, buffers, rows, shared)


def parts_of_totals(node: Node, device: DeviceProperties) -> tuple[int, int] | None:
    """How many partial totals of how many columns a tensor-core backward can write.

    Its cotangents must lie side by side in rows, one row per query, and blocks must have whole tiles of them.
    """
    a = attention(node)
    tile = None if a is None or len(node.shape) != 1 else _back_tile(a, device)
    if a is None or tile is None or tile.rung == "fma" or a.queries != a.keys or a.queries % a.pitch:
        return None
    size, columns = math.prod(node.shape[0]), a.results["to_query"][2]
    batches = size // (columns * a.queries)
    fills = size == a.heads * a.queries * (2 * a.features + a.values) == batches * columns * a.queries
    same = all(row == columns for _, _, row in a.results.values())
    return (batches * (a.queries // tile.own), columns) if fills and same else None


def backward(
    node: Node,
    named: Named,
    device: DeviceProperties,
    results: Mapping[int, Node],
    kept: Sequence[Node] = (),
    parts: str | None = None,
) -> LaunchList | None:
    """The launches of an attention's backward: shares and the cotangents of queries, then those of keys and values.

    `kept` is the forward's result and log-sum-exp; without them the forward runs again. Unread results go to a
    temporary. `parts` is a temporary for the blocks' column totals: see `parts_of_totals`.
    """
    a = attention(node)
    if _has_nothing(node):
        return cleared(list(results.values()), named, device)
    walk, back = (None, None) if a is None else (_forward_tile(a, device), _back_tile(a, device))
    if a is None or walk is None or back is None:
        return None
    statistics = a.heads * a.pitch * (8 if a.dtype.itemsize == 8 else 4)
    workspace = {"shares": statistics}
    count = len(node.shape)  # one if the three cotangents are joined
    made = [named(results[i]) if i in results else f"result{i}" for i in range(count)]
    workspace |= {made[i]: math.prod(node.shape[i]) * a.dtype.itemsize for i in range(count) if i not in results}
    to, wanted = (made, set(results)) if count == 3 else (made * 3, {0, 1, 2})
    forward_of = attention(kept[0]) if kept else None
    y_lies = forward_of.results["y"] if forward_of is not None else by_head(a.lead, a.queries, a.values)
    a = replace(a, results={**a.results, "y": y_lies})
    given, launches = _names(a, named), []
    if kept:
        y, logarithms = (named(x) for x in kept)
    else:
        y, logarithms = "y", "logarithms"
        workspace |= {y: a.heads * a.queries * a.values * a.dtype.itemsize, logarithms: statistics}
        launches.append(_walk(a, walk, given, y, logarithms))
    given |= {"logarithms": logarithms, "shares": "shares"}
    left = parts_of_totals(node, device) if parts is not None else None
    if parts is not None and left is not None:
        a = replace(a, totals=left[1])
        given["parts"] = parts
        workspace[parts] = left[0] * left[1] * 4
    if back.rung == "fma":
        shares = {"y": y, "g": given["g"], "shares": "shares"}
        call = "wg_attention_shares<wg_shape>(y, g, shares);"
        launches.append(_launch("attention_shares", a, AttentionTile("fma", 16, 0), call, shares, a.pitch, 0))
    else:
        given["y"] = y
    by_key = replace(back, other=128) if back.rung == "wgmma" and max(a.padded) <= 64 else back
    by_query = _back(a, back, given, to[0], None)
    launches += [by_query] if 0 in wanted or back.rung != "fma" else []
    launches += [_back(a, by_key, given, to[1], to[2])] if wanted & {1, 2} else []
    return LaunchList(tuple(launches), workspace)


# --- as the registry asks for them ----------------------------------------------------------------------------------

NodeLaunches = Callable[[Node, Named, DeviceProperties, Asked], LaunchList | None]


def forward_work(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    """The launches of an attention node."""
    return forward(node, named, device, asked.kept)


def backward_work(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    """The launches of an attention's backward node."""
    return backward(node, named, device, asked.results, asked.kept)
