"""`model.summary(*inputs)`: the layers as a table, from one forward that records and computes nothing.

Every call of a module is a row: its path, the shapes it gives, the parameters it holds and the FLOPs it takes, both
with those of the modules within. A layer's FLOPs are its own rule, `count_flops`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import wengert as wg
from wengert.core.formatting import table_html

if TYPE_CHECKING:
    from wengert.nn.module import Module

_HEAD = ("layer", "output", "parameters", "FLOPs")
_SPACE = "\u2003"  # which HTML does not fold


@dataclass
class SummaryRow:
    """One call of a module."""

    name: str
    depth: int
    parameters: int
    flops: int = 0
    output: str = ""


class Calls:
    """The calls of a model's modules during one forward, as hooks see them begin and end."""

    def __init__(self, model: Module) -> None:
        self.rows: list[SummaryRow] = []
        self._open: list[SummaryRow] = []
        self._paths = {id(module): path for path, module in model.named_modules()}

    def begin(self, module: Module, args: tuple[Any, ...]) -> None:
        """Open a row."""
        path, kind = self._paths[id(module)], type(module).__name__
        count = sum(parameter.size for parameter in module.parameters())
        self._open.append(SummaryRow(f"{path} ({kind})" if path else kind, len(self._open), count))
        self.rows.append(self._open[-1])

    def end(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Close the row that was opened last, and add its FLOPs to the one around it."""
        row = self._open.pop()
        tensors = tuple(v for v in wg.tree.flatten((args, kwargs))[0] if isinstance(v, wg.Tensor))
        row.flops += module.count_flops(tensors, output)
        row.output = _shapes(output)
        if self._open:
            self._open[-1].flops += row.flops


class LayerTable(str):
    """The text of a summary, which a notebook shows as a table."""

    html: str

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.html


def summary(model: Module, inputs: tuple[Any, ...], options: dict[str, Any]) -> LayerTable:
    """The table of a model's layers, and a line with the totals. The model is left as it was."""
    calls = Calls(model)
    modes = [(module, module.training) for module in model.modules()]
    hooks = [module.register_forward_pre_hook(calls.begin) for module in model.modules()]
    hooks += [module.register_forward_hook(calls.end, with_kwargs=True) for module in model.modules()]
    try:
        model.eval()  # no statistics move and no random numbers are drawn
        with wg.no_grad():
            model(*inputs, **options)
    finally:
        for hook in hooks:
            hook.remove()
        for module, mode in modes:
            module.training = mode
    totals = _totals(model, calls.rows[0].flops)
    table = LayerTable(f"{_table(calls.rows)}\n{totals}")
    cells = [[_indented(row), row.output, f"{row.parameters:,}", f"{row.flops:,}"] for row in calls.rows]
    table.html = f"{table_html(_HEAD, cells, words=(0, 1))}<small>{totals}</small>"
    return table


def layers_html(model: Module) -> str:
    """The layers of a model with what they hold, for a notebook; without inputs, shapes are not known."""
    cells = []
    for path, module in model.named_modules():
        depth = path.count(".") + 1 if path else 0
        held = f"{sum(parameter.size for parameter in module.parameters()):,}"
        cells.append([_SPACE * depth + (path or "model"), type(module).__name__, module.extra_repr(), held])
    total = sum(parameter.size for parameter in model.parameters())
    hint = f"{total:,} parameters. model.summary(inputs) has the shapes and FLOPs too."
    return f"{table_html(['layer', 'class', 'options', 'parameters'], cells, words=(0, 1, 2))}<small>{hint}</small>"


def _indented(row: SummaryRow) -> str:
    return _SPACE * row.depth + row.name


def _table(rows: list[SummaryRow]) -> str:
    lines = [_HEAD]
    lines += [("  " * row.depth + row.name, row.output, f"{row.parameters:,}", f"{row.flops:,}") for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join(
        f"{name:{widths[0]}}    {output:>{widths[1]}}  {parameters:>{widths[2]}}  {flops:>{widths[3]}}"
        for name, output, parameters, flops in lines
    )


def _totals(model: Module, flops: int) -> str:
    parameters = list(model.parameters())
    total = sum(parameter.size for parameter in parameters)
    learned = sum(parameter.size for parameter in parameters if parameter.requires_grad)
    held = sum(slot.nbytes for slot in [*parameters, *model.buffers()])
    return f"{total:,} parameters ({learned:,} to learn), {held:,} bytes; {flops:,} FLOPs forward"


def _shapes(output: Any) -> str:
    return ", ".join(str(leaf.shape) for leaf in wg.tree.flatten(output)[0] if isinstance(leaf, wg.Tensor))
