"""Without torch there is nothing to compare with, and nothing here can be imported."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["*.py"]
