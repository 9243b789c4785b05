"""Works with their headers pasted in: what a header of ours defines may depend on the text before it."""

from __future__ import annotations

import re
from dataclasses import replace

from tests.kernels.emulator import KERNELS
from wengert.kernels.launch import Work


def pasted(work: Work) -> Work:
    """A work whose texts include none of the headers that are to be read once for each text."""
    return replace(work, launches=tuple(replace(launch, source=_pasted(launch.source)) for launch in work.launches))


def _pasted(source: str) -> str:
    seen: set[str] = set()

    def text(match: re.Match[str]) -> str:
        name = match[1]
        header = (KERNELS / name).read_text()
        if "#pragma once" not in header:
            return match[0]
        if name in seen:
            return ""
        seen.add(name)
        return re.sub(r'#include "([\w.]+)"', text, header.replace("#pragma once", ""))

    return re.sub(r'#include "([\w.]+)"', text, source)
