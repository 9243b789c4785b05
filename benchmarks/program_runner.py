"""One run of somebody's PyTorch program: `program_runner.py torch|wengert RECORD SCRIPT [ARGUMENT ...]`.

The program is run as it is. What its own lines take out of tensors with `.item()` is written to RECORD, a line each:
the losses in all digits. `wengert` is `wengert torch --torch-random`.
"""

from __future__ import annotations

import atexit
import importlib.util
import random
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np


def recorded(item: Callable[[Any], Any], values: list[Any], folder: str) -> Callable[[Any], Any]:
    """`item` that keeps the numbers which lines of the program in `folder` ask for."""

    def method(self: Any) -> Any:
        value = item(self)
        if type(value) in (float, int) and sys._getframe(1).f_code.co_filename.startswith(folder):
            values.append(value)
        return value

    return method


def _stand_in() -> None:
    """Have summaries go nowhere where tensorboard is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        sys.modules["torch.utils.tensorboard"] = importlib.import_module("summary_writer")


def main() -> None:
    """Run the program with one of the two."""
    side, record, script, *arguments = sys.argv[1:]
    values: list[float] = []
    atexit.register(lambda: Path(record).write_text("".join(f"{value!r}\n" for value in values)))
    np.random.seed(0)
    random.seed(0)  # for programs that take no seed: PyTorch's default generator starts anywhere
    folder = str(Path.cwd())
    script = str(Path(script).resolve())
    if side == "wengert":
        import wengert.torch as ours
        from wengert.torch import running, torch_random

        running.install()
        torch_random.install()
        _stand_in()
        ours.manual_seed(0)
        ours.Tensor.item = recorded(ours.Tensor.item, values, folder)
        running.run(script, arguments)
        return
    import torch

    for name in ("nms", "qnms"):  # torchvision's compiled part, of which its Python asks that the names are there
        torch.library.define(f"torchvision::{name}", "(Tensor boxes, Tensor scores, float threshold) -> Tensor")
    _stand_in()
    torch.manual_seed(0)
    torch.Tensor.item = recorded(torch.Tensor.item, values, folder)
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
