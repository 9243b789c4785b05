"""How a rank of `wengert launch` begins: `python -m wengert.distributed.begin script.py arguments`.

It joins the control plane before the script's first line, so that a rank that dies during imports is noticed too.
"""

from __future__ import annotations

import io
import os
import runpy
import sys
from types import TracebackType

from wengert.distributed import control
from wengert.distributed.environment import launched


def main(arguments: list[str]) -> None:
    """Run a script, or a module after -m, as the interpreter would."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)  # whole lines, and at once
    sys.excepthook = _show
    place = launched()
    if place.control is not None and place.size > 1:
        control.join(place.rank, place.size, place.control, place.nonce)
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


def _show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Show an exception as if the interpreter ran the script itself: without the frames that lead there."""
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, "<frozen runpy>", runpy.__file__):
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


if __name__ == "__main__":
    main(sys.argv[1:])
