"""`page`: a computation, its gradient and what the compiler made of both, as one self-contained HTML file.

In: a Tensor, or a function with example inputs. Out: a file with the data (`model`, `passes`), the scripts that draw
it, and the two libraries that they use, d3 and dagre (unmodified, in vendor/, with their licences).
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wengert.inspect import model, passes, ranks
from wengert.inspect.recorded import record
from wengert.inspect.times import Times, calls_of_program
from wengert.runtime.debug.explain import is_compiled
from wengert.runtime.program import build

if TYPE_CHECKING:
    from wengert.inspect.profile import Profile

_GRAPHS = ("columns", "layout", "layouter", "tree", "kinds", "draw", "minimap", "pane")
_SCRIPTS = (*_GRAPHS, "panel", "search", "boxes", "sliders", "compiler", "ranks", "save", "main")
_LIBRARIES = ("d3", "dagre")


def page(subject: Any, path: str | Path, *args: Any, profile: Profile | None = None, **kwargs: Any) -> Path:
    """Write a page that shows a computation and its gradient, node by node; open it in a browser.

    `subject` is a Tensor, or a function with example inputs `args` and `kwargs`. For a compiled function the page also
    shows its passes, kernels and memory. With a `profile`, layers and kernels show their times. The gradients of a
    Tensor have no values before `backward()`. Nothing is modified: parameters keep their values.

    For a function compiled for a mesh, the page shows one rank's graph and its collectives: this rank's, or the first
    one's if the mesh does not match the running ranks. If tensors are sharded, all ranks must call this together.

    >>> import wengert as wg, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "page.html")
    >>> wg.inspect.page(lambda x, y: wg.log(x) + x * y - wg.sin(y), path, 2.0, 5.0).name
    'page.html'
    """
    target = Path(path)
    target.write_text(document(data_of(subject, args, kwargs, profile)), encoding="utf-8")
    return target


def data_of(
    subject: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, profile: Profile | None = None
) -> dict[str, Any]:
    """The data that a page is drawn from; see `model`."""
    recorded = record(subject, args, dict(kwargs or {}))
    times = Times(profile) if profile is not None else None
    made = recorded.specialization
    if made is None:
        return model.as_data(recorded, times)
    ranked = ranks.rank_program(subject, made, recorded.leaves)
    program: Any = build(made.graph, made.binding.pairs) if ranked is None else ranked.program
    is_shown = program is not None and is_compiled(program)
    seconds = profile.times_of(program) if profile is not None and is_shown else {}
    if times is not None and is_shown:
        times.take_program(program, calls_of_program(recorded.observed, made.graph, program), seconds)
    data = model.as_data(recorded, times)
    if ranked is not None:
        numbered = {k: recorded.names[n] for k, n in enumerate(made.graph.inputs) if n in recorded.names}
        data["ranks"] = ranks.as_data(ranked, recorded.observed, numbered, recorded.accumulated)
    if is_shown:
        own, inputs = model.node_names(recorded), set(recorded.inputs)
        names = {n: f"{name} = {recorded.names[n]}" if n in inputs else name for n, name in own.items()}
        data["compiler"] = passes.as_data(made.graph, program, recorded.observed, seconds, names)
    return data


def document(data: dict[str, Any]) -> str:
    """The HTML of a page."""
    title = html.escape(data["title"])
    scripts = {name: _library(name) for name in _LIBRARIES}
    scripts |= {"model": f"const model = {_as_script(data)};"} | {name: _read(f"{name}.js") for name in _SCRIPTS}
    text = "".join(f'<script id="script-{name}">{script}</script>\n' for name, script in scripts.items())
    parts = {"title": title, "style": _read("page.css"), "scripts": text}
    text = _read("page.html")
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _as_script(data: Any) -> str:
    """Data as JSON for a script element, escaped so that nothing in it closes the element."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/").replace("<!--", "<\\!--")


def _library(name: str) -> str:
    licence = _read(f"vendor/{name}.LICENSE").strip().replace("*/", "* /")
    return f"/* {name}\n{licence} */\n{_read(f'vendor/{name}.min.js')}"


def _read(name: str) -> str:
    return (files("wengert.inspect") / name).read_text(encoding="utf-8")
