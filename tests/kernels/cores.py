"""Works for tensor cores as the emulator can run them: with its own version of their instructions."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.kernels.emulator import HERE
from tests.kernels.headers import pasted
from wengert.kernels.launch import Launch, LaunchList

_INSTEAD = {
    "cluster.cuh": "#pragma once\n",
    "mma.cuh": (HERE / "tensor_cores.h").read_text(),
    "wgmma.cuh": '#pragma once\n#include "mma.cuh"\n',
}
_WGMMA = re.compile(r"(void wg_\w+\(\n    float [^{]*)\{.*?p, 1, 1((?:, \d)*);.*?\n\}\n", re.S)


def emulated(work: LaunchList) -> LaunchList:
    """The work of a kernel in bfloat16 or tf32 with everything that only a GPU has replaced."""
    return pasted(replace(work, launches=tuple(map(_emulated, work.launches))), _INSTEAD)


def _emulated(launch: Launch) -> Launch:
    def made(match: re.Match[str]) -> str:
        if ".tf32" in match[0]:
            return f"{match[1]}{{\n    wg_wgmma_tf32(d, a, b, more);\n}}\n"
        across = "true" if match[2].endswith("1") else "false"
        return f"{match[1]}{{\n    wg_wgmma<wg_bf16>(d, a, b, more, {across});\n}}\n"

    text = _WGMMA.sub(made, launch.source)
    return replace(launch, source=text if text == launch.source else f'#include "wgmma.cuh"\n{text}')
