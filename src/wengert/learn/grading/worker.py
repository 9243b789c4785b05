"""The submission's process: calls one probe at a time, on inputs that the grader sends, and sends back what it returns.

    python -I -S worker.py REQUESTS ANSWERS CONFIG

The two numbers are descriptors of pipes; CONFIG is a text in JSON. Nothing here knows an expected value, and nothing
that a submission can do in this process has more effect than to change an answer. What it prints goes nowhere.

The file needs Python and NumPy only: a copy of it runs beside the submission.
"""

import contextlib
import importlib.util
import json
import os
import sys
import traceback


def main() -> None:
    """Answer requests until the grader closes its end."""
    requests, answers, config = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
    sys.path[:0] = config["paths"]
    import wire  # beside this file: its folder is among the paths

    probes = None
    _close_output()
    wire.send(answers, {"ready": True})
    _restrict_imports(config["submission"], config["allowed"])
    while True:
        request = wire.receive(requests, 86400.0)
        number = request["number"]
        try:
            if probes is None:
                sys.path.insert(0, config["submission"])
                probes = _load(config["probes"])
            value = getattr(probes, request["probe"])(*request["inputs"])
            wire.send(answers, {"number": number, "value": value})
        except wire.Closed:
            return
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: they are answers, and wrong ones
            wire.send(answers, {"number": number, "error": _told(error, config["submission"])})


def _close_output() -> None:
    """Let what is printed go nowhere, and nothing be read."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _load(path):
    """The module of the probes."""
    spec = importlib.util.spec_from_file_location("_probes", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _restrict_imports(folder, allowed) -> None:
    """Let the files of the submission import what the exercise lists, and themselves. A rule, not a wall: the wall is
    that there is nothing else to be found on this process's disk.
    """
    import builtins

    genuine = builtins.__import__

    def restricted(name, globals=None, locals=None, fromlist=(), level=0):
        importer = str((globals or {}).get("__file__") or "")
        root = name.partition(".")[0]
        own = os.path.exists(os.path.join(folder, root)) or os.path.exists(os.path.join(folder, root + ".py"))
        if level == 0 and importer.startswith(folder + os.sep) and not own and not _is_allowed(name, allowed):
            raise ImportError(f"this exercise does not allow `import {name}`: it allows {', '.join(allowed)}")
        return genuine(name, globals, locals, fromlist, level)

    builtins.__import__ = restricted


def _is_allowed(name, allowed) -> bool:
    return name == "__future__" or any(name == each or name.startswith(each + ".") for each in allowed)


def _told(error, folder) -> dict:
    """An error as the student sees it: its type, its text, and the line of the submission where it came up."""
    line = ""
    try:
        for frame in traceback.extract_tb(error.__traceback__):
            if frame.filename.startswith(folder + os.sep):
                line = f"{os.path.relpath(frame.filename, folder)}, line {frame.lineno}"
        return {"type": type(error).__name__, "text": str(error)[:2000], "line": line}
    except BaseException:  # an exception whose __str__ raises
        return {"type": "Exception", "text": "", "line": line}


if __name__ == "__main__":
    with contextlib.suppress(EOFError):
        main()
