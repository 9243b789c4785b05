"""GPU kernels for windows: copied side by side, one element per thread, or summed back in a fixed order."""

from __future__ import annotations

from wengert.core.graph import Node
from wengert.kernels.copy.cuda import MOVED
from wengert.kernels.launch import DeviceProperties, LaunchList, Named
from wengert.kernels.sizes import Sizes
from wengert.kernels.space import LARGEST
from wengert.kernels.writer import narrowed, scalar_type, stored_type, widened


def _sizes(node: Node, plane: tuple[int, ...], count: tuple[int, ...]) -> Sizes:
    """The sizes in the texts: for each axis its length, taps, positions and strides."""
    a, values = node.attrs, {"total": node.size}
    for k, (size, taps, positions) in enumerate(zip(plane, a["kernel"], count)):
        values |= {f"size{k}": size, f"taps{k}": taps, f"count{k}": positions}
        values |= {f"stride{k}": a["stride"][k], f"gap{k}": a["dilation"][k]}
    return Sizes(max(node.size, node.sources[0].size) < LARGEST, **values)


def _place(axes: int, sizes: str, names: str) -> str:
    """The number of an element along some axes, the last of which is the fastest."""
    text = f"{names}0"
    for k in range(1, axes):
        text = f"({text}) * {sizes}{k} + {names}{k}"
    return text


def _split(names: str, sizes: str, axes: int) -> str:
    """Lines that take `rest` apart into the numbers of some axes, the last of which is the fastest."""
    return "".join(
        f"        const wg_count {names}{k} = rest % {sizes}{k};\n        rest /= {sizes}{k};\n"
        for k in reversed(range(axes))
    )


def unfold(node: Node, named: Named, device: DeviceProperties) -> LaunchList | None:
    """The windows of a value."""
    (x,), axes = node.sources, len(node.attrs["kernel"])
    if not node.size:
        return LaunchList(())
    plane, count = x.shape[x.ndim - axes :], node.shape[node.ndim - axes :]
    sizes = _sizes(node, plane, count)
    kind = MOVED[node.dtype.itemsize]
    where = "".join(f"        const wg_count i{k} = p{k} * stride{k} + t{k} * gap{k};\n" for k in range(axes))
    place = f"rest * ({' * '.join(f'size{k}' for k in range(axes))}) + {_place(axes, 'size', 'i')}"
    text = f"""extern "C" __global__ void wg_unfold(const {kind} *x, {kind} *y{sizes.parameters})
{{
    WG_EACH(at, total) {{
        wg_count rest = at;
{_split("p", "count", axes)}{_split("t", "taps", axes)}{where}        y[at] = x[{place}];
    }}
}}
"""
    return LaunchList((sizes.launch(text, "wg_unfold", node.size, device, [named(x), named(node)]),))


def fold(node: Node, named: Named, device: DeviceProperties) -> LaunchList | None:
    """Windows summed back into place."""
    (x,), axes = node.sources, len(node.attrs["kernel"])
    if not node.size:
        return LaunchList(())
    count = x.shape[x.ndim - axes :]
    sizes = _sizes(node, node.shape[node.ndim - axes :], count)
    kind, scalar = stored_type(node.dtype), scalar_type(node.dtype)
    loops, end = "", ""
    for k in range(axes):
        loops += f"""        for (wg_count t{k} = 0; t{k} < taps{k}; t{k}++) {{
        const wg_count from{k} = i{k} - t{k} * gap{k}, p{k} = from{k} / stride{k};
        if (from{k} < 0 || from{k} % stride{k} || p{k} >= count{k}) continue;
"""
        end += "        }\n"
    taps, area = (" * ".join(f"{name}{k}" for k in range(axes)) for name in ("taps", "count"))
    place = f"((rest * ({taps}) + {_place(axes, 'taps', 't')}) * ({area}) + {_place(axes, 'count', 'p')})"
    text = f"""extern "C" __global__ void wg_fold(const {kind} *x, {kind} *y{sizes.parameters})
{{
    WG_EACH(at, total) {{
        wg_count rest = at;
{_split("i", "size", axes)}        {scalar} sum = 0;
{loops}        sum += {widened(node.dtype, f"x[{place}]")};
{end}        y[at] = {narrowed(node.dtype, "sum")};
    }}
}}
"""
    return LaunchList((sizes.launch(text, "wg_fold", node.size, device, [named(x), named(node)]),))
