"""Coverage-guided fuzzing of `wg.load` with atheris, which is not among the dependencies: pip install atheris.

    python -m tests.atheris_load FOLDER [-max_total_time=600] [other options of libFuzzer]

FOLDER collects the inputs that reach new code; it begins with whole files. Whatever a file holds, `load` returns or
raises one of Wengert's errors. What it returns must come back when it is saved and loaded again.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

TORCH = [f"wengert.api.torch_format.{name}" for name in ("archive", "names", "reader", "storages", "unpickler")]
INSTRUMENTED = ["wengert.api.files", "wengert.api.safetensors_format", "json", *TORCH]


def fuzz(corpus: Path) -> None:
    """Fill the folder of inputs with whole files, and fuzz until the time is up."""
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED):  # so Wengert is imported here, and not before
        import wengert as wg
    from tests.fuzz_files import comparable, foreign_files, saved_trees
    from wengert.core.errors import WengertError

    corpus.mkdir(parents=True, exist_ok=True)
    for number, tree in enumerate(saved_trees()):
        wg.save(corpus / f"saved-{number}", tree)
        wg.save(corpus / f"saved-{number}.pt", tree)
    for number, content in enumerate(foreign_files()):
        (corpus / f"foreign-{number}").write_bytes(content)
    path = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)) / "input.safetensors"

    def load_one(data: bytes) -> None:
        path.write_bytes(data)
        try:
            loaded = wg.load(path)
        except WengertError:
            return
        wg.save(path, loaded)
        assert comparable(wg.load(path)) == comparable(loaded), "what was loaded does not come back"

    atheris.Setup([*sys.argv, "-max_len=4096"], load_one)
    atheris.Fuzz()


if __name__ == "__main__":
    fuzz(Path(sys.argv[1]))
