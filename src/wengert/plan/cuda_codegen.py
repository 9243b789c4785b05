"""CUDA C++ for a GPU: which ops have kernels, what they absorb, and the candidates for each group.

In: a target with its device's properties and libraries, and the choices stored by earlier timing. Out: the answers that
stages need from a code generator, and a step for each group. Generated loops and most ops have one implementation.
Matrix products, convolutions and attention have several: our kernels, one per tile, and the libraries' suggestions, by
expected time. A candidate builds its step on demand, because generating text takes time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import Any

from wengert.compiler.memory import storage
from wengert.compiler.rewrite import spend
from wengert.core.devices import Target
from wengert.core.graph import Graph, Node
from wengert.kernels.attention import form as attention_form
from wengert.kernels.convolution.form import CONVOLUTIONS
from wengert.kernels.copy.cuda import copy
from wengert.kernels.cuda import write
from wengert.kernels.launch import (
    DeviceProperties,
    LaunchList,
    absorbs,
    has_work,
    in_turn,
    operands_of,
    outdoes_libraries,
    sides_of,
    sums_of,
    tiles_of,
    work_of,
)
from wengert.kernels.matmul.cuda import epilogue
from wengert.kernels.matmul.product import Tile, product
from wengert.ops.attention import ATTENTION, ATTENTION_BACKWARD
from wengert.ops.linalg import MATMUL, SOLVE
from wengert.ops.op import PICK
from wengert.plan.collectives import collective_step
from wengert.plan.device_loops import body_planner, device_loop
from wengert.plan.epilogues import ARGUMENT, BIAS, SLOPE, convolution_epilogues, matmul_epilogues
from wengert.plan.groups import FusionGroup, Grouping
from wengert.plan.libraries import (
    ChoiceStore,
    Collectives,
    Libraries,
    LibraryRecipe,
    NoChoices,
    NoCollectives,
    NoLibraries,
    Timer,
    recipe_step,
)
from wengert.plan.lowering import LoweringCache, inlines, is_loop, loops, lowered, naming, needs_host, picks
from wengert.plan.plan import NOTHING, HostOp, How, LibraryEpilogue, Plan, Step, called, launched
from wengert.plan.shared_factors import shared_factors
from wengert.plan.tuning import Candidate, Tuned, tune

OWN = 4  # candidate tiles of our kernels
BESIDE = 2  # the same if a library is a candidate too: each takes a second to compile


class Candidates:
    """The candidates for the groups of a program."""

    def __init__(self, codegen: CudaCodegen, plan: Plan) -> None:
        self.codegen, self.plan, self.grouping, self.donated = codegen, plan, plan.grouping, plan.donated
        self.libraries, self.choices, self.properties = codegen.libraries, codegen.choices, codegen.properties
        self.picks, self.epilogues = picks(plan.graph), plan.epilogues
        self.cache = LoweringCache()
        self.kept: dict[Node, tuple[Node, ...]] = {}  # by attention: what the forward keeps for the backward
        opaque = [group.roots[0] for group in self.grouping.groups if group.opaque]
        self._pair_attentions([node for node in opaque if node.op in (ATTENTION, ATTENTION_BACKWARD)])
        systems = [node for node in opaque if node.op is SOLVE]
        self.factors = shared_factors(systems, self._is_factorised) if len(systems) > 1 else {}

    def _is_factorised(self, node: Node) -> bool:
        """Whether a library factorises a system's matrix because no kernel of ours does."""
        return not has_work(node, self.properties) and bool(self.libraries.recipes(node))

    def _pair_attentions(self, nodes: Sequence[Node]) -> None:
        """Let attention forwards keep what their backwards need, where libraries or our kernels run both."""
        attentions = [node for node in nodes if attention_form.attention(node) is not None]
        for forward, backward in attention_form.pairs(attentions) if attentions else ():
            ways = {self._by_library(node, forward) for node in (forward, backward)}
            if len(ways) == 1 and has_work(forward) and has_work(backward):
                (place,) = self.kept.setdefault(forward, (attention_form.place_for_logarithms(forward),))
                self.kept[backward] = (forward, place)

    def _by_library(self, node: Node, keeper: Node | None) -> bool:
        if outdoes_libraries(node, self.properties):
            return False
        vendors = self.libraries.candidates(node, keeper)
        return bool(self._results(node)) and any(vendor.works for vendor in vendors)

    def step(self, group: FusionGroup) -> Step:
        """The step of a group: the candidate that won when timed, or else the first that works."""
        key = (self.key(group) if self.choices else None) or ""
        choice = self.choices.get(key) if key else None
        if choice is not None and spend(group.roots[0], lambda: f"{choice.winner} carries out {key}"):
            step = next((candidate.make() for candidate in self.of(group) if candidate.name == choice.winner), None)
            if step is not None:
                return replace(step, choice=choice)
            self.choices.drop(key, choice)
        steps = (candidate.make() for candidate in self.of(group))
        return next(step for step in steps if step is not None)

    def key(self, group: FusionGroup) -> str | None:
        """The identity of a group in the store of choices; None if there is nothing to choose."""
        node = group.roots[0]
        is_chosen = node.op in (MATMUL, ATTENTION, ATTENTION_BACKWARD) or node.op in CONVOLUTIONS
        if not group.opaque or not is_chosen or not node.sources[0].size:
            return None
        epilogue = self._epilogue(group) if node.op in CONVOLUTIONS else None
        then = str(epilogue.how) if epilogue else ", ".join(dict.fromkeys(each.op.name for each in group.epilogue))
        return f"{node.op.name} {self.libraries.about(node)}" + (f" then {then}" if then else "")

    def of(self, group: FusionGroup) -> Iterator[Candidate]:
        """The implementations of a group, in order of expected time."""
        own = set(group.roots)
        reads = list(dict.fromkeys(storage(read.leaf) for read in group.reads if read.leaf not in own))
        node = group.roots[0]
        if not group.opaque:
            return iter([Candidate("loops", partial(self._loops, group, reads))])
        if group.epilogue:
            return self._products(group, reads)
        if node.op is PICK and not self.codegen.is_hosted(node.sources[0]):
            return iter([Candidate("pick", partial(self._pick, node))])
        if self.codegen.is_hosted(node):
            self.libraries.say_missing(node)
            return iter([Candidate("host", partial(Step, (HostOp(node),), reads, [node]))])
        if node.op.kind == "function" and is_loop(node):
            return iter([Candidate("a graph of its bodies", partial(self._loop, node, reads))])
        if node.op.collective:
            call = self.codegen.collectives.call(node)
            assert call is not None
            return iter([Candidate(call.name, partial(collective_step, call, node, reads, self.picks.get(node, {})))])
        return self._opaque(node, reads)

    # --- one way --------------------------------------------------------------------------------------------------

    def _loops(self, group: FusionGroup, reads: list[Node]) -> Step:
        kernels, names = loops(group, self.grouping, self.donated, self.cache)
        work = in_turn([write(kernel, self.properties) for kernel in kernels])
        kernel = kernels[0] if len(kernels) == 1 else None
        return launched(work, names, reads, list(group.stored), kernel=kernel)

    def _pick(self, node: Node) -> Step:
        """One of several results: in place already, or copied from the first node that picked it."""
        first = self.picks[node.sources[0]][node.attrs["index"]]
        if first is node:
            return NOTHING
        names = {"from": first, "to": node}
        return launched(copy("from", "to", node, self.properties), names, [first], [node])

    def _loop(self, node: Node, reads: list[Node]) -> Step:
        """A loop or branch whose bodies are plans."""
        results, named = self.picks.get(node, {}), naming({}, self.donated)
        return device_loop(node, reads, results, named, body_planner(self.plan, self.codegen.inside))

    # --- several ways ---------------------------------------------------------------------------------------------

    def _opaque(self, node: Node, reads: list[Node]) -> Iterator[Candidate]:
        """An opaque op by the libraries, then by our kernels; ours first for small products and where ours are faster.

        Both ends of an attention that keeps values for its backward use the same implementation.
        """
        results, kept = self._results(node), self.kept.get(node, ())
        keeper = None if not kept else node if len(kept) == 1 else kept[0]
        by_library = bool(kept) and self._by_library(node, keeper)
        vendors = self.libraries.candidates(node, keeper) if results and (by_library or not kept) else ()
        theirs = [Candidate(vendor.name, partial(self._called, vendor, node, reads, results)) for vendor in vendors]
        for recipe in self.libraries.recipes(node):
            theirs.append(Candidate(recipe.name, partial(self._by_recipe, recipe, node, reads)))
        ours = self._by_tiles(node, reads, BESIDE if vendors else OWN) if not by_library else ()
        ours_first = outdoes_libraries(node, self.properties)
        return chain(ours, theirs) if ours_first else chain(theirs, ours)

    def _by_tiles(self, node: Node, reads: list[Node], most: int) -> Iterator[Candidate]:
        """An op by our kernels, if they support it."""
        for tile in tiles_of(node, self.properties)[:most] if has_work(node, self.properties) else ():
            yield Candidate(_named(tile), partial(self._ours, node, reads, tile))

    def _results(self, node: Node) -> list[Node]:
        """The values that an op makes, in order; None for results that nothing reads."""
        if not isinstance(node.dtype, tuple):
            return [node]
        picked = self.picks.get(node, {})
        return [picked[i] for i in sorted(picked)] if len(picked) == len(node.dtype) else []

    def _called(self, vendor: Any, node: Node, reads: list[Node], results: list[Node]) -> Step | None:
        if not vendor.works:
            return None
        values = [storage(x) for x in (*self.libraries.operands(node), *results, *self.kept.get(node, ()))]
        names = {f"value{i}": value for i, value in enumerate(values)}
        return called(vendor, tuple(names), names, *self._with_kept(node, reads, results))

    def _by_recipe(self, recipe: LibraryRecipe, node: Node, reads: list[Node]) -> Step:
        """An op by several library calls."""
        names = dict[str, Node]()
        picked, factors = self.picks.get(node, {}), self.factors.get(node)
        return recipe_step(recipe, node, reads, naming(names, self.donated), names, picked, factors)

    def _with_kept(self, node: Node, reads: list[Node], writes: list[Node]) -> tuple[list[Node], list[Node]]:
        """What a step reads and writes, including what attention's forward keeps for its backward."""
        kept = self.kept.get(node, ())
        return ([*reads, *kept], writes) if isinstance(node.dtype, tuple) else (reads, [*writes, *kept])

    def _ours(self, node: Node, reads: list[Node], tile: Tile | None) -> Step:
        names: dict[str, Node] = {}
        results = self.picks.get(node, {})
        kept = self.kept.get(node, ())
        work = work_of(node, naming(names, self.donated), self.properties, results, tile, kept)
        assert work is not None
        writes = list(results.values()) if isinstance(node.dtype, tuple) else [node]
        return launched(work, names, *self._with_kept(node, reads, writes), kept=kept)

    def _products(self, group: FusionGroup, reads: list[Node]) -> Iterator[Candidate]:
        """A product or convolution with its epilogue: in a library's call, in our kernel, or after a call."""
        node, properties = group.roots[0], self.properties
        if node.op not in CONVOLUTIONS:
            yield from self._at_once(group, reads)
        takes_sums = self._takes_sums(node)
        then = "" if takes_sums else ", then loops"
        ours = (
            Candidate(_named(tile) + then, partial(self._product, group, reads, tile, None))
            for tile in tiles_of(node, properties)[: OWN if takes_sums else BESIDE]
        )
        theirs = (
            Candidate(f"{vendor.name}, then loops", partial(self._product, group, reads, None, vendor))
            for vendor in self.libraries.candidates(node)
        )
        ours_first = absorbs(node, properties) or outdoes_libraries(node, properties)
        yield from chain(ours, theirs) if ours_first else chain(theirs, ours)
        if node.op in CONVOLUTIONS:
            yield from self._at_once(group, reads)

    def _at_once(self, group: FusionGroup, reads: list[Node]) -> Iterator[Candidate]:
        """A product or convolution for which a library runs the epilogue, or adds the bias."""
        node, epilogue = group.roots[0], self._epilogue(group)
        if epilogue is None:
            return
        for vendor in self.libraries.candidates(node, epilogue=epilogue.how):
            make = partial(self._finished, group, reads, epilogue, vendor)
            yield Candidate(vendor.name, make, node.op in CONVOLUTIONS)
        for vendor in self.libraries.candidates(node, epilogue=(BIAS,)) if epilogue.kept and epilogue.operands else ():
            yield Candidate(f"{vendor.name}, then loops", partial(self._biased, group, reads, epilogue, vendor))

    def _epilogue(self, group: FusionGroup) -> LibraryEpilogue | None:
        """The library epilogue for a group, if there is one."""
        epilogue = self.epilogues.get(group.roots[0])
        return epilogue if epilogue is not None and {*group.stored} == {epilogue.result, *epilogue.kept} else None

    def _takes_sums(self, node: Node) -> bool:
        """Whether our kernel for a product or convolution runs the group's epilogue."""
        return node.op not in CONVOLUTIONS or absorbs(node, self.properties)

    def _finished(self, group: FusionGroup, reads: list[Node], epilogue: LibraryEpilogue, vendor: Any) -> Step | None:
        operands = self.libraries.operands(group.roots[0])
        values = (*operands, *epilogue.operands, *epilogue.kept, epilogue.result)
        names = {f"value{i}": storage(value) for i, value in enumerate(values)}
        return called(vendor, tuple(names), names, reads, list(group.stored)) if vendor.works else None

    def _biased(self, group: FusionGroup, reads: list[Node], epilogue: LibraryEpilogue, vendor: Any) -> Step | None:
        """A library call that adds the bias and stores the argument of an activation, which a loop then applies."""
        if not vendor.works:
            return None
        rest = replace(group, roots=[epilogue.result], opaque=False, epilogue=[], stored=[epilogue.result])
        kernel, names = lowered(rest, self.grouping, self.donated, self.cache)
        p, named = product(group.roots[0]), naming(names, self.donated)
        operands = tuple(named(storage(value)) for value in (p.x, p.y, *epilogue.operands, *epilogue.kept))
        work = write(kernel, self.properties)
        return called(vendor, operands, names, reads, list(group.stored), work)

    def _product(self, group: FusionGroup, reads: list[Node], tile: Tile | None, vendor: Any) -> Step | None:
        if vendor is not None and not vendor.works:
            return None
        node, stored = group.roots[0], [root for root in group.stored if root in group.epilogue]
        rest = replace(group, roots=group.epilogue, opaque=False, epilogue=[], stored=stored)
        kernel, names = lowered(rest, self.grouping, self.donated, self.cache)
        properties, named = self.properties, naming(names, self.donated)
        made = named(node)
        operands: tuple[str, ...] = ()
        if vendor is None:
            taken = None
            if self._takes_sums(node):
                taken = epilogue(kernel, made, node.dtype, *sides_of(node), stored=node in group.stored)
            works = [sums_of(node, named, properties, taken, tile)]
        else:
            taken, works = None, []
            operands = (*map(named, self.libraries.operands(node)), made)
        works += [write(kernel, properties)] if taken is None else []
        if taken is None and node not in group.stored:
            works.append(LaunchList((), {made: node.size * node.dtype.itemsize}))
            del names[made]
        if vendor is None:
            return launched(in_turn(works), names, reads, list(group.stored))
        return called(vendor, operands, names, reads, list(group.stored), in_turn(works))


def _named(tile: Tile | None) -> str:
    return f"ours, {tile}" if tile is not None else "ours"


# --- cuda codegen ---------------------------------------------------------------------------------------------------


class CudaCodegen:
    """The CUDA C++ code generator."""

    overwriting = True

    def __init__(
        self,
        target: Target,
        libraries: Libraries,
        choices: ChoiceStore,
        timer: Timer | None = None,
        tuning: float = 0.0,
        collectives: Collectives | None = None,
    ) -> None:
        assert target.properties is not None
        if target.invariant:  # library kernels and stored choices depend on every size
            libraries, choices, tuning = NoLibraries(), NoChoices(), 0.0
        self.target, self.libraries, self.choices = target, libraries, choices
        self.properties: DeviceProperties = target.properties
        self.timer, self.tuning = timer, tuning  # seconds for timing candidates
        self.collectives = collectives if collectives is not None and target.overlaps else NoCollectives()
        self.inlines: Callable[[Node], bool] = cache(inlines)
        self.is_hosted: Callable[[Node], bool] = cache(self._is_hosted)
        self.expands = self.is_hosted  # into ops that the device can run
        self.reads: Callable[[Node], Sequence[Node]] = cache(self._reads)

    def inside(self, target: Target) -> CudaCodegen:
        """The code generator for a loop's body."""
        return CudaCodegen(target, self.libraries, self.choices)

    def _is_hosted(self, node: Node) -> bool:
        """Whether an op is computed on the host: it has no kernels, and no library supports it."""
        if has_work(node, self.properties) or self.libraries.recipes(node):
            return False
        if node.op.kind == "function" and is_loop(node):
            return False
        if node.op.collective:
            return self.collectives.call(node) is None
        return not any(candidate.works for candidate in self.libraries.candidates(node))

    def _reads(self, node: Node) -> Sequence[Node]:
        """The operands that an op reads from memory, without those of its epilogue."""
        return node.sources if self.is_hosted(node) else operands_of(node)

    def absorbs(self, node: Node) -> bool:
        """Whether an elementwise epilogue is part of an op's kernel."""
        return absorbs(node, self.properties)

    def epilogues(self, graph: Graph) -> Mapping[Node, LibraryEpilogue]:
        """The library epilogues, by product."""
        asked = graph, self.inlines, self.reads, self.takes_epilogue
        return {**matmul_epilogues(*asked), **convolution_epilogues(*asked)}

    def takes_epilogue(self, node: Node, how: How) -> bool:
        """Whether a library runs an epilogue on a product or convolution; where that may not pay, only if timed.

        An epilogue that reads another matrix is no faster than a loop after the product if sums are short, as in GPT-2:
        gelu with its argument takes 169 us instead of 158 on an H200; the slope of gelu takes 168 and a kernel for the
        bias gradient, not 205 us.
        """
        pays = node.op not in CONVOLUTIONS and {ARGUMENT, SLOPE}.isdisjoint(how)
        if self.absorbs(node) or not (pays or self.tuning > 0 or self._was_timed(node)):
            return False
        return bool(self.libraries.candidates(node, epilogue=how))

    def _was_timed(self, node: Node) -> bool:
        """Whether a choice is stored for an op with this epilogue."""
        then = f"{node.op.name} {self.libraries.about(node)} then " if self.choices else ""
        return any(key.startswith(then) for key in self.choices.winners())

    def fallible(self, grouping: Grouping) -> list[int]:
        """The groups that the host computes: if one fails, whatever was overwritten before it would be lost.

        A failed collective ends the world; state comes from a checkpoint, so updates need not wait for collectives.
        """
        opaque = [(k, group.roots[0]) for k, group in enumerate(grouping.groups) if group.opaque]
        made = [(k, node.sources[0] if node.op is PICK else node) for k, node in opaque]
        return [k for k, node in made if needs_host(node, self) and not node.op.collective]

    def tune(self, plan: Plan) -> Tuned | None:
        """Time candidates for up to this many seconds."""
        if not self.tuning or self.timer is None:
            return None
        return tune(Candidates(self, plan), plan.grouping.groups, self.timer, self.tuning)

    def steps(self, plan: Plan) -> list[Step]:
        """The steps of all groups."""
        candidates = Candidates(self, plan)
        return [candidates.step(group) for group in plan.grouping.groups]
