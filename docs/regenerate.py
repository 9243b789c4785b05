"""Fills in what the pages show of programs by running their examples, so that it is true.

    python docs/regenerate.py [--check]
    python docs/regenerate.py --screenshots [NAME ...]

A page's Python blocks are run in order. A block that follows a comment such as `<!-- show: recorded(f) -->` gets what
that expression gives, over what the examples have defined and the functions below. `--check` says which pages differ.
The lessons in docs/lessons also have drawings and a notebook each, which are written from them (`docs/lessons.py`).
`--screenshots` takes the pictures of pages in docs/images, or those of some names, and does nothing else.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import linecache
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import lessons

os.environ["OMP_NUM_THREADS"] = "2"  # kernels are written for a number of threads: the same text everywhere

import wengert as wg
from wengert.compiler import passes as compiler_passes
from wengert.core.graph import Graph, as_python
from wengert.learn.derivatives.section import table_text
from wengert.runtime.debug import explain

DOCS = Path(__file__).parent
PYTHON = re.compile(r"^```python\n(?P<code>.*?)^```\n", re.S | re.M)
SHOWN = re.compile(r"^<!-- show: (?P<what>.+?) -->\n```(?P<language>\w+)\n(?P<text>.*?)^```\n", re.S | re.M)

# --- what may be shown ----------------------------------------------------------------------------------------------


def program_of(f: Any) -> Any:
    """The program of a compiled function's latest call."""
    return f._newest("docs").program


def compact(graph: Graph) -> str:
    """A graph as Python with the types, without the lines it came from, and without the bodies of loops."""
    text = re.sub(r"<wengert\.core\.graph\.Graph object at \w+>", "...", as_python(graph))
    return re.sub(r"( # .*?[\w)]\[[\d, ]*\]\)?)  .*", r"\1", text)


def recorded(f: Any) -> str:
    """The graph as it was recorded."""
    return compact(f.graph())


def after(f: Any, *names: str) -> str:
    """The recorded graph after some passes, alone and in this order."""
    known = {one.__name__: one for one in compiler_passes.PASSES}
    graph, _ = compiler_passes.optimize(f.graph(), passes=[known[name] for name in names])
    return compact(graph)


def optimized(f: Any) -> str:
    """The graph after all passes."""
    return compact(program_of(f).graph)


def kernels(f: Any) -> str:
    """The kernels that were fused, a line each."""
    lines = explain.fused(program_of(f)).split("# a value")[0].splitlines()
    return "\n".join(line.removeprefix("# ") for line in lines if line.startswith("# kernel"))


def table(f: Any) -> str:
    """The table of `explain()` without its times."""
    lines = explain.table(f.graph(), program_of(f)).splitlines()
    return "\n".join(re.sub(r"\s+(time|[\d.]+ ms)$", "", line) for line in lines)


def refusals(f: Any) -> str:
    """Why groups were not merged."""
    return explain.refusals(program_of(f))


def memory(f: Any) -> str:
    """The timeline of memory."""
    return explain.memory_text(program_of(f))


def c_of(f: Any, number: int = 0) -> str:
    """The C of a loop nest."""
    functions = [function.named(name) for function, name in program_of(f).codegen.functions.items()]
    return functions[number].rstrip()


def calls(f: Any) -> str:
    """The C function of the program: the kernels in order, over the table of pointers and the arena."""
    text = re.search(r"^void piece0.*?^}", program_of(f).source, re.S | re.M)
    assert text is not None
    numbers: dict[str, str] = {}
    return re.sub(r"offset_(\d+)", lambda m: "offset_" + numbers.setdefault(m[1], str(len(numbers))), text[0])


def count(f: Any, op: str) -> str:
    """How many nodes of an op the recorded and the optimised graph have."""
    graphs = (f.graph(), program_of(f).graph)
    before, left = (sum(node.op.name == op for node in graph.nodes) for graph in graphs)
    return f"{op}: {before} recorded, {left} in the program"


def tape(engine: Any) -> str:
    """The operations of an engine of `wengert.learn.mytorch`, a line each."""
    names = [str(operation).strip("<>").split(": ") for operation in engine.operation_list]
    return "\n".join(f"{rule:<18}{shapes}" for rule, shapes in names)


def table_of(comparison: Any, title: str) -> str:
    """The table in a section of what `wg.learn.compare` found."""
    (found,) = [each for each in comparison.sections() if each.title.startswith(title)]
    return textwrap.dedent(table_text(found.shown[0]))


def speeds(*rows: str) -> str:
    """The latest results of benchmarks/cpu.py."""
    report = _latest("cpu-2*.json")
    columns = ("dynamic", "compiled", "eager", "torch.compile")
    lines = [f"{'':<12}" + "".join(f"{name:>15}" for name in columns) + f"{'first, cold':>15}{'first, warm':>15}"]
    for row in rows:
        results = report["results"][row]
        best = [f"{results[name]['best'] * 1e3:.2f} ms" if "best" in results[name] else "failed" for name in columns]
        first = [f"{results['compiled'][kind]:.2f} s" for kind in ("cold", "warm")]
        lines.append(f"{row:<12}" + "".join(f"{cell:>15}" for cell in best + first))
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    lines.append(f"rounds: {report['rounds']}; cores: {report['cores']}; {versions}")
    return "\n".join([*lines, f"noise: torch eager against itself differs by up to {_noise(report, rows):.0%}"])


def _noise(report: Any, rows: Sequence[str]) -> float:
    pairs = [[report["results"][row][name]["best"] for name in ("eager", "eager again")] for row in rows]
    return max(max(pair) / min(pair) - 1 for pair in pairs)


def trade() -> str:
    """The latest results of benchmarks/remat.py."""
    lines = [f"{'':<12}{'kept':>12}{'process':>12}{'step':>12}"]
    for way, result in _latest("remat-*.json")["results"].items():
        sizes = "".join(f"{result[key] / 1e6:>9.0f} MB" for key in ("kept", "grown"))
        lines.append(f"{way:<12}{sizes}{result['best'] * 1e3:>9.0f} ms")
    return "\n".join(lines)


def memories() -> str:
    """The latest results of benchmarks/cpu.py --memory."""
    report = _latest("cpu-memory-*.json")
    columns = ("dynamic", "compiled", "eager", "torch.compile")
    lines = [f"{'':<12}" + "".join(f"{name:>15}" for name in columns)]
    for row, results in report["results"].items():
        cells = [
            f"{results[name]['memory'] / 1e6:.0f} MB" if "memory" in results[name] else "failed" for name in columns
        ]
        lines.append(f"{row:<12}" + "".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines)


def _latest(pattern: str) -> Any:
    """What the last run of a benchmark wrote."""
    return json.loads(max((DOCS.parent / "benchmarks" / "results").glob(pattern)).read_text())


TOOLS = (
    *(recorded, after, optimized, kernels, table, refusals, memory, c_of, calls, count, tape, table_of),
    *(speeds, trade, memories),
)

# --- pages ----------------------------------------------------------------------------------------------------------


def pages() -> Iterator[Path]:
    """The pages that show something."""
    shown = (page for page in sorted(DOCS.glob("*.md")) if SHOWN.search(page.read_text()))
    return itertools.chain(shown, lessons.pages())


def regenerated(page: Path) -> dict[Path, str]:
    """The text of a page with all that it shows made anew, and the files of what it draws."""
    wg.manual_seed(0)
    scope: dict[str, Any] = {tool.__name__: tool for tool in TOOLS}
    text = page.read_text()
    parts, end, drawings = [], 0, {}
    found = [*PYTHON.finditer(text), *SHOWN.finditer(text), *lessons.DRAWN.finditer(text)]
    matches = sorted(found, key=lambda match: match.start())
    for number, match in enumerate(matches):
        parts.append(text[end : match.start()])
        end = match.end()
        if match.re is PYTHON:
            _run(match["code"], f"example{number}.py", scope)
            parts.append(match[0])
        elif match.re is lessons.DRAWN:
            path = page.parent / "images" / f"{page.stem}-{len(drawings) + 1}.html"
            drawings[path] = f'<figure style="overflow-x:auto">{eval(match["what"], scope).svg()}</figure>\n'
            parts.append(f'<!-- draw: {match["what"]} -->\n--8<-- "{path.relative_to(DOCS.parent)}"\n')
        else:
            shown = eval(match["what"], scope)
            parts.append(f"<!-- show: {match['what']} -->\n```{match['language']}\n{shown}\n```\n")
    return {page: "".join([*parts, text[end:]]), **drawings}


def _run(code: str, name: str, scope: dict[str, Any]) -> None:
    """Run an example under a file name of its own, whose lines can be looked up."""
    path = str(DOCS / name)
    linecache.cache[path] = (len(code), None, code.splitlines(keepends=True), path)
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(code, path, "exec"), scope)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--screenshots", nargs="*", metavar="NAME", help="take the pictures of pages, all or some")
    options = parser.parse_args()
    if options.screenshots is not None:
        import screenshots

        screenshots.take(options.screenshots)
        return
    check = options.check
    texts = {path: text for page in pages() for path, text in regenerated(page).items()}
    texts |= {lessons.notebook_path(page): lessons.notebook(page) for page in lessons.pages()}
    stale = [path for path, text in texts.items() if not path.exists() or text != path.read_text()]
    names = ", ".join(path.name for path in stale)
    if check:
        sys.exit(f"what {names} shows is not what its examples give: run python docs/regenerate.py" if stale else 0)
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(texts[path])
    print(f"written: {names or 'nothing, all is as it was'}")


if __name__ == "__main__":
    main()
