"""`wengert cache`: what the cache holds and its limits; and `wengert cache clear`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from wengert.core import cache


def text() -> str:
    """The folder, the entries by kind, and the limits, a line each."""
    return "\n".join([*_folder(), *_limits()])


def cleared(days: float) -> str:
    """Remove the entries that were not used for this many days; return a message that says how many."""
    gone = cache.clear(days)
    return f"removed {_count(len(gone))}, {_size(gone)}, from {cache.folder()}"


def _folder() -> Iterator[str]:
    folder = cache.folder()
    yield f"folder       {folder}"
    if not folder.exists():
        yield "entries      none yet"
        return
    refused = cache.refusal(folder)
    if refused is not None:
        yield f"refused      {refused}. {cache.HINT}"
    if not folder.is_dir():
        return
    yield from _entries(cache.entries(folder))


def _entries(found: list[cache.Entry]) -> Iterator[str]:
    kinds: dict[str, list[cache.Entry]] = {}
    for entry in found:
        kinds.setdefault(entry.kind or "unfinished", []).append(entry)
    yield f"entries      {_count(len(found))}, {_size(found)}"
    for kind, some in kinds.items():
        yield f"  {kind:<18} {len(some):>7,}  {_size(some):>10}  last used {_ages(some)}"


def _limits() -> Iterator[str]:
    yield f"limits       {cache.most_bytes() // 1_000_000:,} MB (WENGERT_CACHE_MB)"
    yield f"             {cache.most_days()} days without use (WENGERT_CACHE_DAYS)"


def _count(number: int) -> str:
    return f"{number:,} {'entry' if number == 1 else 'entries'}"


def _size(entries: Iterable[cache.Entry]) -> str:
    return f"{sum(entry.size for entry in entries) / 1e6:,.1f} MB"


def _ages(entries: list[cache.Entry]) -> str:
    """How long ago entries were used, those of longest ago first."""
    now = time.time()
    oldest, newest = (_days(max(now - entry.used, 0) / cache.DAY) for entry in (entries[0], entries[-1]))
    return f"{oldest} ago" if oldest == newest else f"{oldest} to {newest} ago"


def _days(days: float) -> str:
    """A span in its fitting unit.

    >>> _days(0.01), _days(0.5), _days(1), _days(40)
    ('14 min', '12 h', '1 day', '40 days')
    """
    if days < 1:
        hours = days * 24
        return f"{hours:.0f} h" if hours >= 1 else f"{hours * 60:.0f} min"
    return f"{days:.0f} {'day' if round(days) == 1 else 'days'}"
