"""`page`: a computation, its gradient and what the compiler made of them as one HTML file that needs no other.

In: a Tensor, or a function with example inputs. Out: a file with the data (`model`, `passes`) and the script that draws
it, beside the two libraries it draws with, d3 and dagre, in their own words (vendor/, with their licences).
"""

from __future__ import annotations

import html
import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wengert.inspect import model, passes, ranks
from wengert.inspect.recorded import RecordedCall, record
from wengert.runtime.debug.explain import is_compiled
from wengert.runtime.program import build
from wengert.runtime.static.compile import Compiled
from wengert.runtime.static.specialization import Specialization

if TYPE_CHECKING:
    from wengert.inspect.profile import Profile

_SCRIPTS = ("pane.js", "details.js", "ranks.js", "compiler.js", "save.js", "main.js")
_LIBRARIES = ("d3", "dagre")


def page(subject: Any, path: str | Path, *args: Any, profile: Profile | None = None, **kwargs: Any) -> Path:
    """Write a page that shows a computation and its gradient, node by node; open it in a browser.

    `subject` is a Tensor, or a function, and then `args` and `kwargs` are example inputs for it. Of a compiled function
    the page shows its passes, kernels and memory too, with the kernels' times if they are in a `profile`. A Tensor's
    gradients have no values before `backward()`. Nothing is changed by looking: parameters keep their values.

    Of a function that is compiled for a mesh the page shows the graph of a rank and its collectives: of this one, or of
    the first where the mesh has other ranks than there are. Where tensors are sharded, all ranks call it together.

    >>> import wengert as wg, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "page.html")
    >>> wg.inspect.page(lambda x, y: wg.log(x) + x * y - wg.sin(y), path, 2.0, 5.0).name
    'page.html'
    """
    recorded = record(subject, args, kwargs)
    data = model.as_data(recorded)
    if recorded.specialization is not None:
        data |= _compiled_data(subject, recorded, recorded.specialization, profile)
    target = Path(path)
    target.write_text(document(data), encoding="utf-8")
    return target


def _compiled_data(
    compiled: Compiled, recorded: RecordedCall, made: Specialization, profile: Profile | None
) -> dict[str, Any]:
    """What the page has of a compiled function: its passes and kernels, and with a mesh the graph of a rank."""
    found: dict[str, Any] = {}
    ranked = ranks.rank_program(compiled, made, recorded.leaves)
    if ranked is not None:
        numbered = {k: recorded.names[n] for k, n in enumerate(made.graph.inputs) if n in recorded.names}
        found["ranks"] = ranks.as_data(ranked, recorded.observed, numbered, recorded.accumulated)
    program = build(made.graph, made.binding.pairs) if ranked is None else ranked.program
    if is_compiled(program):
        times = profile.times_of(program) if profile is not None else {}
        found["compiler"] = passes.as_data(made.graph, program, recorded.observed, times)
    return found


def document(data: dict[str, Any]) -> str:
    """The page for some data."""
    title = html.escape(data["title"])
    scripts = [_library(name) for name in _LIBRARIES]
    scripts += [f"const model = {_as_script(data)};", *map(_read, _SCRIPTS)]
    parts = {"title": title, "style": _read("page.css"), "scripts": "".join(f"<script>{s}</script>\n" for s in scripts)}
    text = _read("page.html")
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _as_script(data: Any) -> str:
    """Data as JSON inside a script: nothing in it ends the script."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/").replace("<!--", "<\\!--")


def _library(name: str) -> str:
    licence = _read(f"vendor/{name}.LICENSE").strip().replace("*/", "* /")
    return f"/* {name}\n{licence} */\n{_read(f'vendor/{name}.min.js')}"


def _read(name: str) -> str:
    return (files("wengert.inspect") / name).read_text(encoding="utf-8")
