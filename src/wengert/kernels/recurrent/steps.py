"""The text of a recurrence's kernel: a block's work before, in and after the steps.

In: a Recurrence and its Shape. Out: lines of CUDA C++ around the products of recurrent.cuh, and the kernel's arguments.
A step runs phase by phase: wait until all blocks have written the operands of the phase's products, multiply, apply the
body's elementwise work to the sums, write the operands of the next phase's products, and signal. What the next step
reads of xs is loaded while a block waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wengert.core.dtypes import float64
from wengert.core.graph import Node
from wengert.kernels.launch import Named
from wengert.kernels.recurrent.body import Recurrence, StepProduct
from wengert.kernels.recurrent.elements import CommentedPage, SpaceElements, rounded
from wengert.kernels.recurrent.shape import COUNTER, Core, Shape
from wengert.kernels.writer import stored_type, widened
from wengert.ops.core import LITERAL

EXCHANGE, COUNTERS = "recurrent_exchange", "recurrent_counters"


class RecurrentText:
    """A kernel under construction. `results` says which of the scan's results are read."""

    def __init__(self, recurrence: Recurrence, shape: Shape, named: Named, results: dict[int, Node]) -> None:
        self.recurrence, self.shape, self.results = recurrence, shape, results
        self.node, self.body = recurrence.node, recurrence.body
        c, n = self.node.attrs["constants"], self.node.attrs["carries"]
        self.steps = self.node.attrs["steps"]
        self.carries, self.xs = self.body.inputs[c : c + n], self.body.inputs[c + n :]
        self.page = CommentedPage()
        self.loaded_ahead = not self.xs
        self.spaces = [SpaceElements(k, recurrence, shape, self.page) for k in range(len(recurrence.widths))]
        self.exchanged: dict[tuple[Node, str], int] = {}  # where what products read is, by the order they read it in
        self.exchange_bytes = 0
        self._lay_out_exchange()
        self._find_values()
        self.parameters: list[str] = []
        self.arguments: list[str] = []
        self._declare_parameters(named)
        self._write()

    # --- what is needed where -----------------------------------------------------------------------------------------

    def _lay_out_exchange(self) -> None:
        """Two places for each value that products read: those of a step and of the next."""
        for product, core in zip(self.recurrence.products, self.shape.cores):
            if (product.left, core.mma) not in self.exchanged:
                self.exchanged[product.left, core.mma] = self.exchange_bytes
                self.exchange_bytes += 2 * self.shape.row_groups * core.rows * product.depth * core.element

    def _find_values(self) -> None:
        """Each output, and what products read, in the space that computes it; carries where they are read."""
        outputs, products = self.body.outputs, self.recurrence.products
        roots = [self._made_for(k) for k in range(len(products))]
        roots += [product.left for product in products if product.carried is not None]
        roots += [self.carries[k] if k < len(self.carries) else outputs[k] for k in self.results]
        for node in roots:
            self._space_of(node).require([node])
        more = True
        while more:
            pairs = list(zip(self.carries, outputs))
            more = any([s.require(made for given, made in pairs if given in s.values) for s in self.spaces])

    def _space_of(self, node: Node) -> SpaceElements:
        return self.spaces[self.recurrence.spaces.get(node, 0)]

    def _made_for(self, product: int) -> Node:
        """The value of a step that a product reads, in this step or the next."""
        one = self.recurrence.products[product]
        return one.left if one.carried is None else self.body.outputs[one.carried]

    def _declare_parameters(self, named: Named) -> None:
        """A pointer for each source that is read, and each result."""
        read = {product.weight for product in self.recurrence.products}
        given = {node for space in self.spaces for node in space.values}
        for k, source in enumerate(self.node.sources):
            if (k in read or self.body.inputs[k] in given) and source.op is not LITERAL:
                self.parameters.append(f"const {stored_type(source.dtype)} *__restrict__ s{k}")
                self.arguments.append(named(source))
        for k, node in self.results.items():
            self.parameters.append(f"{stored_type(node.dtype)} *__restrict__ r{k}")
            self.arguments.append(named(node))
        self.parameters += ["char *exchange", "unsigned *counters"]
        self.arguments += [EXCHANGE, COUNTERS]

    # --- the text -----------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        page, groups = self.page, self.shape.column_groups
        page.line("extern __shared__ __align__(128) char shared[];")
        page.line(f"const int row_group = blockIdx.x / {groups}, group = blockIdx.x % {groups};")
        page.line(f"unsigned *count = counters + row_group * {COUNTER // 4}, all = 0;")
        for k in range(len(self.recurrence.products)):
            self._keep_weights(k)
        page.line("__syncthreads();")
        for k in range(len(self.recurrence.products)):
            page.line(f"Core{k} core{k};")
            page.line(f"core{k}.keep(weights{k});")
        self._begin()
        page.line("#pragma unroll 1")
        page.open(f"for (int t = 0; t < {self.steps}; t++)")
        page.line(f"const long long i = {self._step('t')};")
        for phase in range(self.recurrence.last_phase + 1):
            self._phase(phase)
        self._end_of_step()
        page.close()
        self._finish()

    def _step(self, t: str) -> str:
        return f"{self.steps - 1} - {t}" if self.node.attrs["reverse"] else t

    def _keep_weights(self, k: int) -> None:
        """Bring a block's slice of a matrix of weights into shared memory."""
        product, element = self.recurrence.products[k], element_type(self.shape.cores[k])
        space = self.spaces[self.recurrence.spaces[product.node]]
        sums = f"({sum_type(self.shape.cores[k])} *)(shared + {self.shape.partial_at[k]})"
        for one in self.spaces:
            one.sum_texts = {**one.sum_texts, k: sums}
        self.page.line(f"{element} *weights{k} = ({element} *)(shared + {self.shape.weights_at[k]});")
        down, across = product.steps
        read = widened(product.node.dtype, f"s{product.weight}[k * {down}LL + n * {across}LL]")
        sizes = f"{product.depth}, {self.recurrence.units(product.node)}, {space.columns}, {space.width}"
        along = "true" if down == 1 else "false"
        self.page.line(
            f"wg_keep_weights<Core{k}, {sizes}, {along}>(weights{k}, group * {space.columns}, "
            f"[&](int k, int n) {{ return {read}; }});"
        )

    def _begin(self) -> None:
        """Load what does not change, the first carries and the first xs; have others know the carries they read."""
        given = {node for node in self.body.inputs}
        for space in self.spaces:
            for node in space.values:
                if node in given:
                    space.declare(node, node in self.xs)
        carried = self._distinct(k for k, one in enumerate(self.recurrence.products) if one.carried is not None)
        self.page.tell("constants, carries and what the first step reads")
        for space in self.spaces:
            space.open()
            for node in space.values:
                if node in given:
                    space.load(node, self._step("0") if node in self.xs else "")
            for k in carried:
                if self._space_of(self.recurrence.products[k].left) is space:
                    self._give(space, k, self.recurrence.products[k].left, "0")
            self.page.close()
        if carried:
            self._arrive()

    def _distinct(self, products: Iterable[int]) -> list[int]:
        """Products that read different memory."""
        found: dict[tuple[Node, str], int] = {}
        for k in products:
            found.setdefault((self.recurrence.products[k].left, self.shape.cores[k].mma), k)
        return list(found.values())

    def _phase(self, phase: int) -> None:
        products = [k for k, product in enumerate(self.recurrence.products) if product.phase == phase]
        if products:
            self.page.line("wg_wait_for_all(count, all);")
        for k in products:
            self._multiply(k, self.recurrence.products[k])
        given = self._given_after(phase)
        for space in self.spaces:
            self._elements(space, phase, [k for k in given if self._space_of(self._made_for(k)) is space])
        if given:  # as soon as others may go on: what only readers outside wait for is written after that
            self._arrive()
            self._load_ahead()
        for space in self.spaces:
            self._store_stacked(space, phase)

    def _given_after(self, phase: int) -> list[int]:
        """The products that read what is made in a phase, or carries at the end of the last."""
        last, phases = phase == self.recurrence.last_phase, self.recurrence.phases
        products = enumerate(self.recurrence.products)
        return self._distinct(k for k, p in products if (last if p.carried is not None else phases[p.left] == phase))

    def _multiply(self, k: int, product: StepProduct) -> None:
        core, element = self.shape.cores[k], element_type(self.shape.cores[k])
        self.page.open()
        slab = self._slab(product.left, core, "t & 1")
        self.page.line(f"const {element} *slab = (const {element} *){slab};")
        ring = f"({element} *)(shared + {self.shape.ring_at})"
        partial = f"({sum_type(core)} *)(shared + {self.shape.partial_at[k]})"
        sizes = f"{product.depth}, {core.chunk}, {core.ring}"
        self.page.line(f"wg_multiply<Core{k}, {sizes}>(core{k}, slab, weights{k}, {ring}, {partial});")
        self.page.close()

    def _slab(self, left: Node, core: Core, which: str) -> str:
        """Where what a product reads of this block's rows is."""
        size = core.rows * left.shape[-1] * core.element
        at = self.exchanged[left, core.mma]
        return f"(exchange + {at} + (({which}) * {self.shape.row_groups} + row_group) * {size}LL)"

    def _arrive(self) -> None:
        self.page.line("wg_arrive(count);")
        self.page.line(f"all += {self.shape.column_groups};")

    def _load_ahead(self) -> None:
        """Load the next step's xs during the first wait of a step."""
        if self.loaded_ahead:
            return
        self.loaded_ahead = True
        self.page.tell("what the next step reads")
        self.page.open(f"if (t + 1 < {self.steps})")
        for space in self.spaces:
            stepped = [node for node in space.values if node in self.xs]
            if stepped:
                space.open()
                for node in stepped:
                    space.load(node, self._step("(t + 1)"), "next_")
                self.page.close()
        self.page.close()

    def _elements(self, space: SpaceElements, phase: int, given: Sequence[int]) -> None:
        """A thread's work in a phase in one space: values, and what it writes of them."""
        phases = self.recurrence.phases
        made = [n for n in space.values if phases[n] == phase and n not in self.body.inputs and not space.is_moved(n)]
        if not made and not given:
            return
        for node in made:
            space.declare(node)
        space.open()
        for node in made:
            space.compute(node)
        for k in given:
            is_carried = self.recurrence.products[k].carried is not None
            self._give(space, k, self._made_for(k), "(t + 1) & 1" if is_carried else "t & 1")
        self.page.close()

    def _store_stacked(self, space: SpaceElements, phase: int) -> None:
        """Write the stacked outputs that were made in a phase."""
        stacked = [(k, self.body.outputs[k]) for k in self.results if k >= len(self.carries)]
        written = [(k, n) for k, n in stacked if self._space_of(n) is space and self.recurrence.phases[n] == phase]
        if written:
            space.open()
            for k, node in written:
                space.store(f"r{k}", node, "i")
            self.page.close()

    def _give(self, space: SpaceElements, k: int, made: Node, which: str) -> None:
        """Write what a product of others reads, in the order in which it does."""
        product, core = self.recurrence.products[k], self.shape.cores[k]
        element = element_type(core)
        self.page.open("if (own)")
        self.page.line(f"{element} *slab = ({element} *){self._slab(product.left, core, which)};")
        for unit in space.units(made):
            value = space.text(made, unit)
            value = value if core.mma else rounded(made, value)
            self.page.line(f"slab[Core{k}::slab_at(j + {unit * space.width}, r)] = Core{k}::of({value});")
        self.page.close()

    def _end_of_step(self) -> None:
        self._load_ahead()
        self.page.tell("the next step")
        for space in self.spaces:
            stepped = [node for node in space.values if node in self.xs]
            pairs = list(zip(self.carries, self.body.outputs))
            carried = [(given, made) for given, made in pairs if given in space.values and given is not made]
            if stepped or carried:
                space.open()
                space.advance(stepped, carried)
                self.page.close()

    def _finish(self) -> None:
        """The last carries are results."""
        for space in self.spaces:
            wanted = [(k, node) for k, node in enumerate(self.carries) if k in self.results]
            wanted = [(k, node) for k, node in wanted if self._space_of(node) is space]
            if wanted:
                space.open()
                for k, node in wanted:
                    space.store(f"r{k}", node)
                self.page.close()


def element_type(core: Core) -> str:
    """The C++ type of slab and weights."""
    if core.mma:
        return "float" if core.element == 4 else "uint16_t"
    return "double" if core.product.node.dtype is float64 else "float"


def sum_type(core: Core) -> str:
    """The C++ type of sums."""
    return "float" if core.mma else element_type(core)
