"""Who carries out a group on a GPU: for every group the candidates, the one that is expected to be fastest first.

In: a program's groups. Out: for each a Step, the launches and the library's call that carry it out. Generated loops and
most ops have one way. Matrix products, convolutions and attention have several: our kernels, a tile each, and what the
libraries suggest. A candidate makes its step only when it is asked to: texts and plans take time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import Any, NamedTuple

from wengert.backends.cuda import blas, dnn, dnn_attention
from wengert.backends.cuda.choices import Choice, choices_of
from wengert.backends.cuda.driver import opened
from wengert.compiler.storage import storage
from wengert.core.graph import Node
from wengert.kernels import cuda_ops
from wengert.kernels.attention import form as attention_form
from wengert.kernels.convolution.form import is_convolution
from wengert.kernels.cuda import write
from wengert.kernels.ir.loops import Kernel
from wengert.kernels.launch import Device, Work, in_turn
from wengert.kernels.matmul.c import is_even, product
from wengert.kernels.matmul.epilogue import epilogue
from wengert.kernels.matmul.product import Tile
from wengert.ops.linalg import MATMUL
from wengert.ops.op import PICK
from wengert.plan.buffers import loops, lowered, naming
from wengert.plan.groups import Group, Plan
from wengert.plan.library_epilogue import ARGUMENT, BIAS, SLOPE, Finish, How
from wengert.plan.lowering_cache import LoweringCache


class Step(NamedTuple):
    """A part of a program: a library's call and launches, or a node for the host; and what it reads and writes."""

    work: Work | None
    node: Node | None
    buffers: Mapping[str, Node]  # by the names that the work uses
    reads: list[Node]
    writes: list[Node]
    vendor: Any = None  # a library's candidate, which goes before the work
    operands: tuple[str, ...] = ()  # the buffers that it takes, in order
    choice: Choice | None = None  # why it was taken, if candidates were timed
    kernel: Kernel | None = None  # of loops: what was written, if it is one kernel

    @property
    def workspace(self) -> Mapping[str, int]:
        """Its temporaries: names and bytes."""
        own = {} if self.work is None else dict(self.work.workspace)
        if self.vendor is not None and self.vendor.workspace:
            own["workspace"] = self.vendor.workspace
        return own

    @property
    def moved_bytes(self) -> int:
        """The bytes of all values that it reads or writes."""
        values = {node for node in (*self.reads, *self.writes) if not isinstance(node.dtype, tuple)}
        return sum(node.size * node.dtype.itemsize for node in values)

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


OWN = 4  # tiles of ours that are worth a try
BESIDE = 2  # of them where a library does it too: each takes a second to compile
SUGGESTED = 8  # ways of a library that are worth a try
FUSED = 4  # of cuDNN's with what follows a convolution: each takes it half a second to compile


class Candidate(NamedTuple):
    """One way to carry out a group; `make` gives the step, or None where it turns out not to work."""

    name: str
    make: Callable[[], Step | None]
    is_late: bool = False  # made when its turn comes to be timed: that takes long


def is_hosted(node: Node, device: str, figures: Device) -> bool:
    """Whether an op is computed on the host: there are no kernels for it, and no library does it."""
    if cuda_ops.has_work(node):
        return False
    return not any(vendor.works for vendor in _vendors(node, device, figures.tf32))


def is_finished(node: Node, how: How, device: str, figures: Device, is_timed: bool) -> bool:
    """Whether a library carries out a product or convolution and finishes it so; where it may not pay, if `is_timed`.

    What takes another matrix is no faster than loops after the product where sums are short, as GPT-2's are: with gelu
    and its argument 169 us instead of 158 on an H200; with the slope of gelu 168 and another kernel for the gradient of
    the bias, instead of 205 with it. A convolution's finish is compiled first.
    """
    pays = not is_convolution(node) and {ARGUMENT, SLOPE}.isdisjoint(how)
    if cuda_ops.absorbs(node, figures) or not (is_timed or pays):
        return False
    return bool(_vendors(node, device, figures.tf32, finish=how))


def was_timed(node: Node, device: str, figures: Device) -> bool:
    """Whether there is a choice for an op and something done with its result."""
    choices = choices_of(opened(device))
    then = f"{node.op.name} {_about(node, figures.tf32)} then " if choices else ""
    return any(key.startswith(then) for key in choices.winners())


def _vendors(node: Node, device: str, tf32: bool, keeper: Node | None = None, finish: How = ()) -> Sequence[Any]:
    """What the libraries suggest for an op, best first; `keeper`: the attention that keeps what backward wants.

    `finish`: for a matrix product or a convolution that is finished so.
    """
    shape = _shape(node, tf32, keeper, finish)
    if shape is None:
        return ()
    if node.op is MATMUL:
        found: Sequence[Any] = blas.candidates(shape, opened(device).index)
    else:
        library: Any = dnn if is_convolution(node) else dnn_attention
        found = library.candidates(shape, device)
    return found[: FUSED if finish and is_convolution(node) else SUGGESTED]


def _shape(node: Node, tf32: bool, keeper: Node | None = None, finish: How = ()) -> Any:
    """An op in a library's terms; None where there is none that does it."""
    if node.op is MATMUL:
        return blas.shape_of(product(node), node.dtype, tf32, finish) if node.size and is_even(node) else None
    if is_convolution(node):
        return dnn.shape_of(node, tf32, finish)
    return dnn_attention.shape_of(node, keeper) if node.op in dnn_attention.ATTENTIONS else None


class Candidates:
    """The candidates for the groups of a program."""

    def __init__(
        self,
        plan: Plan,
        taken: Mapping[Node, Node],
        picks: Mapping[Node, Mapping[int, Node]],
        finishes: Mapping[Node, Finish],
        device: str,
        figures: Device,
    ) -> None:
        self.plan, self.taken, self.picks, self.finishes = plan, taken, picks, finishes
        self.device, self.figures, self.driver = device, figures, opened(device)
        self.choices = choices_of(self.driver)
        self.alike = LoweringCache()
        self._is_hosted = cache(partial(is_hosted, device=device, figures=figures))
        self.kept: dict[Node, tuple[Node, ...]] = {}  # by attention: what forward leaves, or backward finds
        self._pair_attentions()

    def _pair_attentions(self) -> None:
        """Have forwards keep what their backwards want, where libraries carry out both or our kernels do."""
        for forward, backward in attention_form.pairs(group.roots[0] for group in self.plan.groups if group.opaque):
            ways = {self._by_library(node, forward) for node in (forward, backward)}
            if len(ways) == 1 and cuda_ops.has_work(forward) and cuda_ops.has_work(backward):
                (place,) = self.kept.setdefault(forward, (attention_form.place_for_logarithms(forward),))
                self.kept[backward] = (forward, place)

    def _by_library(self, node: Node, keeper: Node | None) -> bool:
        if cuda_ops.outdoes_libraries(node, self.figures):
            return False
        vendors = _vendors(node, self.device, self.figures.tf32, keeper)
        return bool(self._results(node)) and any(vendor.works for vendor in vendors)

    def step(self, group: Group) -> Step:
        """The step of a group: by the candidate that won when they were timed, or else the first that works."""
        key = self.key(group) if self.choices else None
        choice = self.choices.get(key) if key is not None else None
        if key is not None and choice is not None:
            step = next((candidate.make() for candidate in self.of(group) if candidate.name == choice.winner), None)
            if step is not None:
                return step._replace(choice=choice)
            self.choices.drop(key, choice)
        steps = (candidate.make() for candidate in self.of(group))
        return next(step for step in steps if step is not None)

    def key(self, group: Group) -> str | None:
        """What a group is, for the choice among its candidates; None where there is nothing to choose."""
        node = group.roots[0]
        is_chosen = node.op in (MATMUL, *dnn_attention.ATTENTIONS) or is_convolution(node)
        if not group.opaque or not is_chosen or not node.sources[0].size:
            return None
        finish = self._finish(group) if is_convolution(node) else None
        then = str(finish.how) if finish else ", ".join(dict.fromkeys(each.op.name for each in group.epilogue))
        return f"{node.op.name} {_about(node, self.figures.tf32)}" + (f" then {then}" if then else "")

    def of(self, group: Group) -> Iterator[Candidate]:
        """The ways to carry out a group, the one that is expected to be fastest first."""
        own = set(group.roots)
        reads = list(dict.fromkeys(storage(read.leaf) for read in group.reads if read.leaf not in own))
        node = group.roots[0]
        if not group.opaque:
            return iter([Candidate("loops", partial(self._loops, group, reads))])
        if group.epilogue:
            return self._products(group, reads)
        if node.op is PICK and not self._is_hosted(node.sources[0]):
            return iter([Candidate("pick", partial(self._pick, node))])
        if self._is_hosted(node):
            return iter([Candidate("host", partial(Step, None, node, {}, reads, [node]))])
        return self._opaque(node, reads)

    # --- one way --------------------------------------------------------------------------------------------------

    def _loops(self, group: Group, reads: list[Node]) -> Step:
        kernels, names = loops(group, self.plan, self.taken, self.alike)
        work = in_turn([write(kernel, self.figures) for kernel in kernels])
        kernel = kernels[0] if len(kernels) == 1 else None
        return Step(work, None, names, reads, list(group.stored), kernel=kernel)

    def _pick(self, node: Node) -> Step:
        """One result of several: it is in its place already, or is copied from the first that picked it."""
        first = self.picks[node.sources[0]][node.attrs["index"]]
        if first is node:
            return Step(Work(()), None, {}, [], [])
        names = {"from": first, "to": node}
        return Step(cuda_ops.copy("from", "to", node, self.figures), None, names, [first], [node])

    # --- several ways ---------------------------------------------------------------------------------------------

    def _opaque(self, node: Node, reads: list[Node]) -> Iterator[Candidate]:
        """An op by the libraries, then by our kernels; a small product, or what ours outdo theirs in, by ours first.

        Of an attention that keeps something both ends go the same way.
        """
        results, kept = self._results(node), self.kept.get(node, ())
        keeper = None if not kept else node if len(kept) == 1 else kept[0]
        by_library = bool(kept) and self._by_library(node, keeper)
        vendors = _vendors(node, self.device, self.figures.tf32, keeper) if results and (by_library or not kept) else ()
        theirs = [Candidate(vendor.name, partial(self._called, vendor, node, reads, results)) for vendor in vendors]
        ours = self._by_tiles(node, reads, BESIDE if vendors else OWN) if not by_library else ()
        ours_first = cuda_ops.outdoes_libraries(node, self.figures)
        return chain(ours, theirs) if ours_first else chain(theirs, ours)

    def _by_tiles(self, node: Node, reads: list[Node], most: int) -> Iterator[Candidate]:
        """An op by our kernels, if they can do it."""
        for tile in cuda_ops.tiles(node, self.figures)[:most] if cuda_ops.has_work(node) else ():
            yield Candidate(_named(tile), partial(self._ours, node, reads, tile))

    def _results(self, node: Node) -> list[Node]:
        """The values that an op makes, in order; none where nobody wants one of several."""
        if not isinstance(node.dtype, tuple):
            return [node]
        picked = self.picks.get(node, {})
        return [picked[i] for i in sorted(picked)] if len(picked) == len(node.dtype) else []

    def _called(self, vendor: Any, node: Node, reads: list[Node], results: list[Node]) -> Step | None:
        if not vendor.works:
            return None
        kept = self.kept.get(node, ())
        values = [storage(x) for x in (*vendor_operands(node), *results, *kept)]
        names = {f"value{i}": value for i, value in enumerate(values)}
        return Step(None, None, names, *self._with_kept(node, reads, results), vendor, tuple(names))

    def _with_kept(self, node: Node, reads: list[Node], writes: list[Node]) -> tuple[list[Node], list[Node]]:
        """What a step reads and writes: backward finds, too, what forward leaves."""
        kept = self.kept.get(node, ())
        return ([*reads, *kept], writes) if isinstance(node.dtype, tuple) else (reads, [*writes, *kept])

    def _ours(self, node: Node, reads: list[Node], tile: Tile | None) -> Step:
        names: dict[str, Node] = {}
        results = self.picks.get(node, {})
        kept = self.kept.get(node, ())
        work = cuda_ops.work(node, naming(names, self.taken), self.figures, results, tile, kept)
        writes = list(results.values()) if isinstance(node.dtype, tuple) else [node]
        return Step(work, None, names, *self._with_kept(node, reads, writes))

    def _products(self, group: Group, reads: list[Node]) -> Iterator[Candidate]:
        """A product or convolution with what takes its sums: in a library's call or our kernel, or after a call."""
        node, figures = group.roots[0], self.figures
        if not is_convolution(node):
            yield from self._at_once(group, reads)
        takes_sums = self._takes_sums(node)
        then = "" if takes_sums else ", then loops"
        ours = (
            Candidate(_named(tile) + then, partial(self._product, group, reads, tile, None))
            for tile in cuda_ops.tiles(node, figures)[: OWN if takes_sums else BESIDE]
        )
        theirs = (
            Candidate(f"{vendor.name}, then loops", partial(self._product, group, reads, None, vendor))
            for vendor in _vendors(node, self.device, figures.tf32)
        )
        ours_first = cuda_ops.absorbs(node, figures) or cuda_ops.outdoes_libraries(node, figures)
        yield from chain(ours, theirs) if ours_first else chain(theirs, ours)
        if is_convolution(node):
            yield from self._at_once(group, reads)

    def _at_once(self, group: Group, reads: list[Node]) -> Iterator[Candidate]:
        """A product or convolution that a library finishes, or adds the bias to."""
        node, tf32, finish = group.roots[0], self.figures.tf32, self._finish(group)
        if finish is None:
            return
        for vendor in _vendors(node, self.device, tf32, finish=finish.how):
            yield Candidate(vendor.name, partial(self._finished, group, reads, finish, vendor), is_convolution(node))
        for vendor in _vendors(node, self.device, tf32, finish=(BIAS,)) if finish.kept and finish.operands else ():
            yield Candidate(f"{vendor.name}, then loops", partial(self._biased, group, reads, finish, vendor))

    def _finish(self, group: Group) -> Finish | None:
        """How a library may finish what a group makes."""
        finish = self.finishes.get(group.roots[0])
        return finish if finish is not None and {*group.stored} == {finish.result, *finish.kept} else None

    def _takes_sums(self, node: Node) -> bool:
        """Whether our kernel for a product or convolution does what follows with its sums."""
        return not is_convolution(node) or cuda_ops.absorbs(node, self.figures)

    def _finished(self, group: Group, reads: list[Node], finish: Finish, vendor: Any) -> Step | None:
        values = (*vendor_operands(group.roots[0]), *finish.operands, *finish.kept, finish.result)
        names = {f"value{i}": storage(value) for i, value in enumerate(values)}
        return Step(None, None, names, reads, list(group.stored), vendor, tuple(names)) if vendor.works else None

    def _biased(self, group: Group, reads: list[Node], finish: Finish, vendor: Any) -> Step | None:
        """A bias by a library, which leaves the argument of an activation, and that by loops."""
        if not vendor.works:
            return None
        rest = replace(group, roots=[finish.result], opaque=False, epilogue=[], stored=[finish.result])
        kernel, names = lowered(rest, self.plan, self.taken, self.alike)
        p, named = product(group.roots[0]), naming(names, self.taken)
        operands = tuple(named(storage(value)) for value in (p.x, p.y, *finish.operands, *finish.kept))
        work = write(kernel, self.figures)
        return Step(work, None, names, reads, list(group.stored), vendor, operands)

    def _product(self, group: Group, reads: list[Node], tile: Tile | None, vendor: Any) -> Step | None:
        if vendor is not None and not vendor.works:
            return None
        node, stored = group.roots[0], [root for root in group.stored if root in group.epilogue]
        rest = replace(group, roots=group.epilogue, opaque=False, epilogue=[], stored=stored)
        kernel, names = lowered(rest, self.plan, self.taken, self.alike)
        figures, named = self.figures, naming(names, self.taken)
        made = named(node)
        operands: tuple[str, ...] = ()
        if vendor is None:
            taken = None
            if self._takes_sums(node):
                taken = epilogue(kernel, made, node.dtype, *cuda_ops.sides(node), stored=node in group.stored)
            works = [cuda_ops.sums(node, named, figures, taken, tile)]
        else:
            taken, works = None, []
            operands = (*map(named, vendor_operands(node)), made)
        works += [write(kernel, figures)] if taken is None else []
        if taken is None and node not in group.stored:
            works.append(Work((), {made: node.size * node.dtype.itemsize}))
            del names[made]
        return Step(in_turn(works), None, names, reads, list(group.stored), vendor, operands)


def _named(tile: Tile | None) -> str:
    return f"ours, {tile}" if tile is not None else "ours"


def _about(node: Node, tf32: bool) -> str:
    """The sizes, places and dtypes of an op that a choice depends on."""
    shape = _shape(node, tf32)
    if shape is None:
        values = " ".join(f"{source.dtype}{list(source.shape)}" for source in (*node.sources, node))
        return f"{values} {dict(sorted(node.attrs.items()))}"
    return " ".join(
        f"{name}={value}".replace(" ", "") for name, value in vars(shape).items() if name not in ("op", "then")
    )


def vendor_operands(node: Node) -> Iterable[Node]:
    """What a library's candidate for an op reads, in order."""
    if node.op is MATMUL:
        p = product(node)
        return p.x, p.y
    return dnn_attention.operands(node) if node.op in dnn_attention.ATTENTIONS else node.sources
