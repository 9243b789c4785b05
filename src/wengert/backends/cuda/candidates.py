"""Who carries out a group on a GPU: for every group the candidates, the one that is expected to be fastest first.

In: a program's groups. Out: for each a Step, the launches and the library's call that carry it out. Generated loops and
most ops have one way. Matrix products, convolutions and attention have several: our kernels, a tile each, and what the
libraries suggest. A candidate makes its step only when it is asked to: texts and plans take time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from wengert.backends.cuda import blas, dnn, dnn_attention
from wengert.backends.cuda.driver import opened
from wengert.backends.plan import lowered, naming
from wengert.compiler.fuse import Group, Plan, storage
from wengert.graph import Node
from wengert.kernels import device_ops
from wengert.kernels.convolution_form import is_convolution
from wengert.kernels.cuda import write
from wengert.kernels.epilogue import epilogue
from wengert.kernels.launch import Device, Work
from wengert.kernels.opaque import is_even, product


class Step(NamedTuple):
    """A part of a program: a library's call and launches, or a node for the host; and what it reads and writes."""

    work: Work | None
    node: Node | None
    buffers: Mapping[str, Node]  # by the names that the work uses
    reads: list[Node]
    writes: list[Node]
    vendor: Any = None  # a library's candidate, which goes before the work
    operands: tuple[str, ...] = ()  # the buffers that it takes, in order

    @property
    def workspace(self) -> Mapping[str, int]:
        """Its temporaries: names and bytes."""
        own = {} if self.work is None else dict(self.work.workspace)
        if self.vendor is not None and self.vendor.workspace:
            own["workspace"] = self.vendor.workspace
        return own

    @property
    def does_nothing(self) -> bool:
        """Whether its value is in its place already."""
        return self.work is not None and not self.work.launches and self.vendor is None

    @property
    def carrier(self) -> str:
        """Who carries it out, if it is not a kernel of ours."""
        if self.vendor is not None:
            return str(self.vendor.name)
        return "its reference on the host" if self.node is not None else ""


class Candidate(NamedTuple):
    """One way to carry out a group; `make` gives the step, or None where it turns out not to work."""

    name: str
    make: Callable[[], Step | None]


def is_hosted(node: Node, device: str, figures: Device) -> bool:
    """Whether an op is computed on the host: there are no kernels for it, and no library does it."""
    return not device_ops.has_work(node) and not _vendors(node, device, figures.tf32)


def _vendors(node: Node, device: str, tf32: bool) -> Sequence[Any]:
    """What the libraries suggest for an op, best first."""
    if node.op.name == "matmul" and node.size and is_even(node):
        return blas.candidates(blas.shape_of(product(node), node.dtype, tf32), opened(device).index)
    if is_convolution(node):
        shape = dnn.shape_of(node, tf32)
        return dnn.candidates(shape, device) if shape is not None else ()
    if node.op.name in dnn_attention.ATTENTIONS:
        attended = dnn_attention.shape_of(node)
        return dnn_attention.candidates(attended, device) if attended is not None else ()
    return ()


class Candidates:
    """The candidates for the groups of a program."""

    def __init__(
        self,
        plan: Plan,
        taken: Mapping[Node, Node],
        picks: Mapping[Node, Mapping[int, Node]],
        device: str,
        figures: Device,
    ) -> None:
        self.plan, self.taken, self.picks = plan, taken, picks
        self.device, self.figures = device, figures

    def step(self, group: Group) -> Step:
        """The step of a group by the first candidate that works."""
        steps = (candidate.make() for candidate in self.of(group))
        return next(step for step in steps if step is not None)

    def of(self, group: Group) -> Iterator[Candidate]:
        """The ways to carry out a group, the one that is expected to be fastest first."""
        own = set(group.roots)
        reads = list(dict.fromkeys(storage(read.leaf) for read in group.reads if read.leaf not in own))
        node = group.roots[0]
        if not group.opaque:
            return iter([Candidate("loops", partial(self._loops, group, reads))])
        if group.epilogue:
            return self._products(group, reads)
        if node.op.name == "pick" and not self._is_hosted(node.sources[0]):
            return iter([Candidate("pick", partial(self._pick, node))])
        if self._is_hosted(node):
            return iter([Candidate("host", partial(Step, None, node, {}, reads, [node]))])
        return self._opaque(node, reads)

    def _is_hosted(self, node: Node) -> bool:
        return is_hosted(node, self.device, self.figures)

    # --- one way --------------------------------------------------------------------------------------------------

    def _loops(self, group: Group, reads: list[Node]) -> Step:
        kernel, names = lowered(group, self.plan, self.taken)
        return Step(write(kernel, self.figures), None, names, reads, list(group.stored))

    def _pick(self, node: Node) -> Step:
        """One result of several: it is in its place already, or is copied from the first that picked it."""
        first = self.picks[node.sources[0]][node.attrs["index"]]
        if first is node:
            return Step(Work(()), None, {}, [], [])
        names = {"from": first, "to": node}
        return Step(device_ops.copy("from", "to", node, self.figures), None, names, [first], [node])

    # --- several ways ---------------------------------------------------------------------------------------------

    def _opaque(self, node: Node, reads: list[Node]) -> Iterator[Candidate]:
        """An op by the libraries, then by our kernels."""
        results = self._results(node)
        if results is not None:
            for vendor in _vendors(node, self.device, self.figures.tf32):
                yield Candidate(vendor.name, partial(self._called, vendor, node, reads, results))
        if device_ops.has_work(node):
            yield Candidate("ours", partial(self._ours, node, reads))

    def _results(self, node: Node) -> list[Node] | None:
        """The values that an op makes, in order; None where nobody wants one of several."""
        if not isinstance(node.dtype, tuple):
            return [node]
        picked = self.picks.get(node, {})
        return [picked[i] for i in sorted(picked)] if len(picked) == len(node.dtype) else None

    def _called(self, vendor: Any, node: Node, reads: list[Node], results: list[Node]) -> Step:
        values = [storage(x) for x in (*vendor_operands(node), *results)]
        names = {f"value{i}": value for i, value in enumerate(values)}
        return Step(None, None, names, reads, results, vendor, tuple(names))

    def _ours(self, node: Node, reads: list[Node]) -> Step:
        names: dict[str, Node] = {}
        results = self.picks.get(node, {})
        work = device_ops.work(node, naming(names, self.taken), self.figures, results)
        return Step(work, None, names, reads, list(results.values()) if isinstance(node.dtype, tuple) else [node])

    def _products(self, group: Group, reads: list[Node]) -> Iterator[Candidate]:
        """A matrix product with what takes its sums, in one kernel or in two."""
        yield Candidate("ours", partial(self._product, group, reads))

    def _product(self, group: Group, reads: list[Node]) -> Step:
        node, stored = group.roots[0], [root for root in group.stored if root in group.epilogue]
        rest = replace(group, roots=group.epilogue, opaque=False, epilogue=[], stored=stored)
        kernel, names = lowered(rest, self.plan, self.taken)
        p, figures = product(node), self.figures
        named = naming(names, self.taken)
        taken = epilogue(kernel, named(node), node.dtype, p.m, p.n, stored=node in group.stored)
        if taken is not None:
            works = [device_ops.matmul(node, named, figures, taken)]
        else:
            works = [device_ops.matmul(node, named, figures), write(kernel, figures)]
        launches = tuple(launch for work in works for launch in work.launches)
        workspace = {name: size for work in works for name, size in work.workspace.items()}
        if taken is None and node not in group.stored:
            workspace[named(node)] = node.size * node.dtype.itemsize
            del names[named(node)]
        return Step(Work(launches, workspace), None, names, reads, list(group.stored))


def vendor_operands(node: Node) -> Iterable[Node]:
    """What a library's candidate for an op reads, in order."""
    if node.op.name == "matmul":
        p = product(node)
        return p.x, p.y
    return dnn_attention.operands(node) if node.op.name in dnn_attention.ATTENTIONS else node.sources
