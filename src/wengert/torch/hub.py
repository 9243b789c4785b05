"""`torch.hub`: files of published weights, where PyTorch keeps what it downloaded; they are read, not fetched."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from wengert.data.files import download as _download

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""The beginning of a checksum in the name of a file."""


def get_dir() -> str:
    """The folder of downloaded models, as in PyTorch."""
    home = os.environ.get("TORCH_HOME") or str(Path(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "torch"))
    return str(Path(home).expanduser() / "hub")


def set_dir(folder: str) -> None:
    """Set the folder for downloaded models."""
    os.environ["TORCH_HOME"] = str(Path(folder).parent)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, file_name: str | None = None, **options: Any
) -> Any:
    """Load the state dict in the file of a URL, which must already be in the download folder."""
    from wengert.torch.serialization import load

    folder = Path(model_dir or Path(get_dir()) / "checkpoints")
    path = folder / (file_name or Path(urlparse(url).path).name)
    if not path.exists():
        raise RuntimeError(f"torch.hub: downloads are not supported; put the file of {url} at {str(path)!r}")
    return load(path, map_location=map_location)


def download_url_to_file(url: str, dst: Any, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Download a file; if `hash_prefix` is given, its SHA-256 must begin with it."""
    path = Path(dst).expanduser()
    _download(path.name, [url], path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if hash_prefix and not found.startswith(hash_prefix):
        path.unlink()
        raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found[: len(hash_prefix)]}")')


def load(repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """The model that the file `hubconf.py` of a local folder makes; nothing is fetched."""
    if source != "local":
        raise RuntimeError(f"torch.hub: nothing is downloaded; clone {repo_or_dir} and load it with source='local'")
    return getattr(_hubconf(repo_or_dir), model)(*args, **kwargs)


def _hubconf(folder: str) -> Any:
    path = Path(folder, "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"torch.hub: {folder!r} has no hubconf.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module
