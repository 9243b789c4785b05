"""What is known to be wrong: trials that do not have the verdict expected of them. There are none."""

KNOWN_STALE: frozenset[str] = frozenset()
