"""The files of published data sets: found in a folder or downloaded to it, and checked byte by byte.

A folder is named by the caller, else it is the data set's own below `WENGERT_DATA`, else below the user's cache.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import urllib.request
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from wengert.core import cache
from wengert.core.errors import CacheError, FileError

CHUNK = 1 << 18


def folder_of(name: str, folder: str | os.PathLike[str] | None) -> Path:
    """The folder for the files of a data set."""
    if folder is not None:
        return Path(folder)
    chosen = os.environ.get("WENGERT_DATA")
    base = Path(chosen) if chosen else cache.user_folder() / "data"
    return base / name


def verified(path: Path, sha256: str) -> bytes:
    """The bytes of a file, decompressed if its name ends in .gz; raises an error unless they have this checksum."""
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise FileError(f"{str(path)!r} is corrupt: {error}. Remove it to download it again") from None
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise FileError(
            f"{str(path)!r} is not the published file: its checksum is {found[:16]}..., not {sha256[:16]}... Remove "
            "it to download it again"
        )
    return content


def find(folder: Path, *names: str) -> Path | None:
    """The first of these files that exists in the folder."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def download(title: str, urls: Sequence[str], path: Path) -> None:
    """Download a file from the first of these addresses that responds. An interrupted download leaves nothing
    behind."""
    with suppress(CacheError):  # without a home
        if path.is_relative_to(cache.user_folder()):
            cache.make_private(cache.user_folder())  # which programs are loaded from too
    path.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    for url in urls:
        partial = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with urllib.request.urlopen(url, timeout=20) as answer, partial.open("wb") as file:
                _copy(title, int(answer.headers.get("Content-Length") or 0), answer.read, file.write)
            os.replace(partial, path)
            return
        except (OSError, ValueError) as error:
            reasons.append(f"{url}: {getattr(error, 'reason', None) or error}")
        finally:
            partial.unlink(missing_ok=True)
    raise FileError(
        f"{title}: there is no {path.name} in {str(path.parent)!r}, and it could not be downloaded "
        f"({'; '.join(reasons)}). Put the data set's files there, or name the folder that has them (--data-folder, or "
        "WENGERT_DATA for its parent)"
    )


def _copy(title: str, size: int, read: Callable[[int], bytes], write: Callable[[bytes], int]) -> None:
    """Copy to the end, with a bar where there is a terminal to see it."""
    done = 0
    while chunk := read(CHUNK):
        write(chunk)
        done += len(chunk)
        if sys.stderr.isatty():
            filled = 30 * done // max(size, done)
            print(f"\r{title}: [{'#' * filled:<30}] {done / 1e6:.1f} MB", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print(file=sys.stderr)
    if done < size:
        raise OSError(f"the connection broke off after {done} of {size} bytes")
