"""What differs between two snapshots.

    python -m tests.replay.compare BASE.json NOW.json [--cases REGEX]

Exit status 0: texts, launches and bytes are the same; 1: something changed, and the report says what. Compile times are
reported and never decide.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Any

DIFF_LINES = 20  # of each changed kernel
SHOWN_CASES = 40  # with all that changed in them; the others by name
SLOWER, AT_LEAST = 1.25, 0.020  # a ratio and seconds: what is worth a line about compile time
PLAIN = ("steps", "arena_bytes", "nodes", "library_calls", "host_ops", "error")

Case = Mapping[str, Any]


def compare(base: Mapping[str, Any], now: Mapping[str, Any], cases: str = "") -> tuple[str, bool]:
    """The report about two snapshots, and whether they are the same but for times and for cases that are new."""
    old, new = ({k: v for k, v in snapshot["cases"].items() if re.search(cases, k)} for snapshot in (base, now))
    both = [name for name in old if name in new]
    changed = {name: lines for name in both if (lines := list(_changes(old[name], new[name])))}
    gone, added = [name for name in old if name not in new], [name for name in new if name not in old]
    lines = [*_summary(base, now), f"{len(both) - len(changed)} of {len(both)} cases are equal, {len(changed)} changed"]
    for number, (name, about) in enumerate(changed.items()):
        lines += ["", name, *(f"  {line}" for line in about)] if number < SHOWN_CASES else [name]
    lines += _only("BASE", gone) + _only("NOW", added)
    lines += ["", *_times({name: (old[name], new[name]) for name in both})]
    return "\n".join(lines), not changed and not gone


def _summary(base: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    if base.get("environment") == now.get("environment"):
        return []
    return [f"the snapshots are of different environments: {base.get('environment')} and {now.get('environment')}"]


def _only(which: str, names: list[str]) -> list[str]:
    if not names:
        return []
    shown = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
    return ["", f"{len(names)} cases are only in {which}: {shown}"]


# --- one case -------------------------------------------------------------------------------------------------------


def _changes(old: Case, new: Case) -> Iterator[str]:
    """What changed in a case, as lines; none where it is equal."""
    for key in PLAIN:
        if old.get(key) != new.get(key):
            yield f"{key}: {_brief(old.get(key))} → {_brief(new.get(key))}"
    for key in ("launches", "arguments"):
        if old.get(key) != new.get(key):
            yield from _lists(key, old.get(key) or [], new.get(key) or [])
    yield from _kernels(old.get("kernels") or [], new.get("kernels") or [])


def _brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _lists(key: str, old: list[Any], new: list[Any]) -> Iterator[str]:
    yield f"{key}: {len(old)} → {len(new)}"
    first, second = list(map(json.dumps, old)), list(map(json.dumps, new))
    lines = [line for line in unified_diff(first, second, n=0, lineterm="") if not re.match(r"---|\+\+\+|@@", line)]
    yield from _limited(lines)


def _kernels(old: list[Any], new: list[Any]) -> Iterator[str]:
    """Kernels added, removed and changed, in order: those in one place count as one that changed."""
    matcher = SequenceMatcher(None, [k["sha"] for k in old], [k["sha"] for k in new], autojunk=False)
    for kind, i1, i2, j1, j2 in matcher.get_opcodes():
        if kind == "equal":
            continue
        common = min(i2 - i1, j2 - j1)
        for k in range(common):
            yield f"kernel {new[j1 + k]['name']} changed:"
            before, after = old[i1 + k]["text"].splitlines(), new[j1 + k]["text"].splitlines()
            yield from _limited(list(unified_diff(before, after, n=1, lineterm=""))[2:])
        yield from (f"kernel {kernel['name']} removed" for kernel in old[i1 + common : i2])
        yield from (f"kernel {kernel['name']} added" for kernel in new[j1 + common : j2])
    if matcher.ratio() == 1 and [k["name"] for k in old] != [k["name"] for k in new]:
        yield f"kernel names: {_brief([k['name'] for k in old])} → {_brief([k['name'] for k in new])}"


def _limited(lines: list[str]) -> Iterator[str]:
    yield from (f"  {line}" for line in lines[:DIFF_LINES])
    if len(lines) > DIFF_LINES:
        yield f"  ... {len(lines) - DIFF_LINES} more lines"


# --- compile times --------------------------------------------------------------------------------------------------


def _times(cases: Mapping[str, tuple[Case, Case]]) -> list[str]:
    """The median ratio of compile times, and the cases that became slower."""
    pairs = {name: (o["seconds"], n["seconds"]) for name, (o, n) in cases.items() if "seconds" in o and "seconds" in n}
    if not pairs:
        return []
    ratio = statistics.median(after / max(before, 1e-6) for before, after in pairs.values())
    totals = [sum(column) for column in zip(*pairs.values())]
    lines = [f"compile time: {totals[0]:.1f} s → {totals[1]:.1f} s in all, median ratio {ratio:.2f}"]
    slower = [(n / o, name, o, n) for name, (o, n) in pairs.items() if n > o * SLOWER and n - o > AT_LEAST]
    for ratio, name, before, after in sorted(slower, reverse=True):
        lines.append(f"  {ratio:.2f} times as long: {name}, {before * 1e3:.0f} ms → {after * 1e3:.0f} ms")
    return lines


def main() -> int:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay.compare", description=__doc__.splitlines()[0])
    parser.add_argument("base", type=Path)
    parser.add_argument("now", type=Path)
    parser.add_argument("--cases", default="", help="a regular expression that names must match")
    options = parser.parse_args()
    snapshots = (json.loads(path.read_text()) for path in (options.base, options.now))
    report, same = compare(*snapshots, options.cases)
    print(report)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
