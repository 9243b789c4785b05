"""Works with their headers pasted in: what a header of ours defines may depend on the text before it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from wengert.kernels.headers import headers
from wengert.kernels.launch import LaunchList


def pasted(work: LaunchList, instead: Mapping[str, str] = MappingProxyType({})) -> LaunchList:
    """A work whose texts include none of the headers that are to be read once for each text.

    `instead`: texts that take the place of some headers.
    """
    sources = (_pasted(launch.source, instead) for launch in work.launches)
    return replace(work, launches=tuple(replace(x, source=source) for x, source in zip(work.launches, sources)))


def _pasted(source: str, instead: Mapping[str, str]) -> str:
    seen: set[str] = set()

    def text(match: re.Match[str]) -> str:
        name = match[1]
        header = instead[name] if name in instead else headers("cuh")[name].read_text()
        if "#pragma once" not in header:
            return match[0]
        if name in seen:
            return ""
        seen.add(name)
        return re.sub(r'#include "([\w.]+)"', text, header.replace("#pragma once", ""))

    return re.sub(r'#include "([\w.]+)"', text, source)
