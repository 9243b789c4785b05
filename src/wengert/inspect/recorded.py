"""Records what a page shows: a computation, its gradient's nodes, and the values of both.

In: a Tensor, or a function (compiled or not) with example inputs. Out: a RecordedCall. Values are computed here by the
ops' references, separately from the user's tensors: none of these changes, and showing a training step does not update
the parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wengert.api.creation import tensor
from wengert.autodiff.reverse import differentiable_path, walk
from wengert.core import tree
from wengert.core.communication import current
from wengert.core.devices import on_host
from wengert.core.dtypes import FLOATING
from wengert.core.errors import ArgumentError, GradientError
from wengert.core.evaluation import apply_here
from wengert.core.graph import RELEASED, Graph, Node, ancestors, has_array, now, recorded_as, recording, tracing
from wengert.core.placement import ShardedArray
from wengert.inspect.calls import Observed
from wengert.inspect.slots import module_slots, named_slots
from wengert.nn.hooks import calls
from wengert.ops.core import DATA, LITERAL, PLACEHOLDER, VARIABLE, literal, variable
from wengert.ops.movement import broadcast_to
from wengert.runtime.arguments import take_apart
from wengert.runtime.capture import NONE, Captured
from wengert.runtime.dynamic.realize import flush
from wengert.runtime.static.compile import Compiled
from wengert.runtime.static.specialization import Specialization
from wengert.tensor import Tensor, engine

Value = Any  # an array, or a tuple of them
ARGUMENT, LEAF, PARAMETER, BUFFER, CONSTANT = "argument", "leaf", "parameter", "buffer", "constant"


@dataclass
class RecordedCall:
    """A computation: its forward nodes and its gradient's nodes in order, with the values that are known."""

    title: str
    forward: list[Node]
    backward: list[Node]
    outputs: list[Node]
    observed: Observed
    values: dict[Node, Value]
    names: dict[Node, str] = field(default_factory=dict)  # of what was given: arguments and parameters
    given: dict[Node, str] = field(default_factory=dict)  # where the computation begins: what each is
    inputs: list[Node] = field(default_factory=list)  # the arguments, in order
    specialization: Specialization | None = None  # of a compiled function: what its passes began with
    leaves: Sequence[Any] = ()  # of the arguments of a compiled function
    accumulated: dict[int, str] = field(default_factory=dict)  # by output: the tensor whose gradient it becomes
    assigned: dict[int, str] = field(default_factory=dict)  # by output: the tensor whose value it becomes

    def __post_init__(self) -> None:
        first = [*self.forward, *(node for node in self.backward if node.op is not VARIABLE)]  # there: an assignment
        self.given = {node: CONSTANT for node in first if is_given(node)}

    def name_inputs(self, inputs: Iterable[tuple[Node, str]]) -> None:
        """Name the arguments, and put them first."""
        named: dict[Node, str] = {}
        for node, name in inputs:
            if node in self.given:  # one tensor may be several arguments
                named[node] = f"{named[node]}, {name}" if node in named else name
        self.inputs = list(named)
        self.names |= named
        self.given |= dict.fromkeys(self.inputs, ARGUMENT)
        own = set(self.inputs)
        self.forward = [*self.inputs, *(node for node in self.forward if node not in own)]
        self.backward = [node for node in self.backward if node not in own]

    def name_slots(self, slots: Iterable[tuple[Node, str]]) -> None:
        """Name the parameters and buffers. A parameter's input and the variable on it share a name."""
        named = dict(slots)
        for node in self.given:
            slot = node.sources[0] if node.op is VARIABLE and node.sources and node not in named else node
            if slot in named and self.given[node] == CONSTANT:
                self.names[node] = named[slot]
                self.given[node] = PARAMETER if node.tracked else BUFFER

    def take_leaves(self) -> None:
        """Take the leaves without a name as inputs: a Tensor is differentiated with respect to them."""
        own = {node: None for node in self.forward if node.tracked and self.given.get(node) == CONSTANT}
        self.given |= dict.fromkeys(own, LEAF)
        self.inputs = list(own)
        self.forward = [*own, *(node for node in self.forward if node not in own)]

    @property
    def differentiated(self) -> bool:
        """Whether the gradients have values, and not only a graph."""
        return all(node in self.values for node in self.backward)

    def assigned_nodes(self) -> dict[Node, str]:
        """The nodes that are assigned to a tensor, with its name."""
        return {self.outputs[k]: name for k, name in self.assigned.items()}

    def accumulated_nodes(self) -> dict[Node, str]:
        """The nodes that become the gradient of a tensor (PyTorch's AccumulateGrad), with that tensor's name."""
        return {self.outputs[k]: name for k, name in self.accumulated.items()}


def is_given(node: Node) -> bool:
    """Whether a node is where a computation begins: an argument, a parameter, a value with no history."""
    return node.op in (DATA, PLACEHOLDER, VARIABLE) or (not node.sources and has_array(node))


def record(subject: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> RecordedCall:
    """The computation of a Tensor, or of a function on these arguments."""
    if isinstance(subject, Tensor):
        if args or kwargs:
            raise ArgumentError("inspect.page: a Tensor takes no arguments; they are inputs of a function")
        return _of_tensor(subject)
    if not callable(subject):
        raise ArgumentError(
            f"inspect.page takes a Tensor, or a function and example inputs, not a {type(subject).__name__}"
        )
    flush()  # what was made before is given, and not part of the function
    if isinstance(subject, Compiled):
        return _of_compiled(subject, args, kwargs)
    return _of_function(subject, args, kwargs)


# --- a Tensor, and a function -----------------------------------------------------------------------------------------


def _of_tensor(value: Tensor) -> RecordedCall:
    if value.node.sources is RELEASED:
        raise GradientError(
            "inspect.page: the graph behind this value was freed by backward(). Make the page before it, call it with "
            "retain_graph=True, or pass the function and its inputs"
        )
    observed = Observed()
    observed.remember(calls)
    recorded = _differentiated([value.node], observed, "Tensor")
    recorded.name_slots((slot.node, name) for slot, name in module_slots(observed.outermost))
    recorded.take_leaves()
    leaves = [node.attrs["slot"]() for node in recorded.forward if node.op is VARIABLE and "slot" in node.attrs]
    if any(leaf is not None and leaf.grad is not None for leaf in leaves):
        evaluate(recorded.backward, recorded.values)
    return recorded


def _of_function(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> RecordedCall:
    """A function, run on variables with the arguments' values, so that it can be differentiated."""
    observed = Observed()
    leaves, structure = tree.flatten((tuple(args), dict(kwargs)))
    given = [_as_variable(leaf) for leaf in leaves]
    with observed.watching(), _no_backward(), tracing("inspect.page"), recorded_as(None, True, recording.autocast):
        positional, named = tree.unflatten(structure, given)
        result = function(*positional, **named)
    outputs = [leaf.node for leaf in tree.flatten(result)[0] if isinstance(leaf, Tensor)]
    if not outputs:
        raise ArgumentError(f"inspect.page: the function returned {result!r}, which contains no tensor")
    recorded = _differentiated(outputs, observed, _title(function))
    evaluate(recorded.backward, recorded.values)
    names = _argument_names(function, args, kwargs)
    recorded.name_inputs((leaf.node, name) for leaf, name in zip(given, names) if isinstance(leaf, Tensor))
    recorded.name_slots((slot.node, name) for slot, name in named_slots(function, observed))
    return recorded


@contextmanager
def _no_backward() -> Iterator[None]:
    """Make `backward()` raise inside the block: it would change gradients and free the graph that is to be shown."""

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise GradientError(
            "inspect.page: the function calls backward(). Pass the function that computes the loss, or the whole "
            "step compiled: wg.inspect.page(wg.compile(step), ...)"
        )

    kept, engine.backward = engine.backward, refuse
    try:
        yield
    finally:
        engine.backward = kept


def _as_variable(leaf: Any) -> Any:
    if isinstance(leaf, (float, np.ndarray)):
        leaf = tensor(leaf)
    if not isinstance(leaf, Tensor) or leaf.dtype not in FLOATING:
        return leaf
    return Tensor(variable(leaf.node))


def _differentiated(outputs: list[Node], observed: Observed, title: str) -> RecordedCall:
    """The nodes behind some outputs and those of the gradient, with the forward values."""
    forward = _behind(outputs)
    values: dict[Node, Value] = {}
    evaluate(forward, values)
    leaves = [node for node in forward if node.tracked and not any(source.tracked for source in node.sources)]
    start = now()
    tracked = [node for node in outputs if node.tracked]
    order = differentiable_path(tracked, leaves)
    with observed.watching(), recorded_as(None, False):
        seeds = [(node, _ones(node)) for node in tracked]
        found = [node for node in walk(order, seeds, leaves) if isinstance(node, Node)]
    first = {seed for _, seed in seeds}
    backward = [node for node in ancestors(found, since=start) if node in first or node.op is not LITERAL]
    return RecordedCall(title, _shown(forward), backward, outputs, observed, values)


def _ones(node: Node) -> Node:
    return broadcast_to(literal(1, node.dtype, node.device), node.shape)


def _behind(outputs: Sequence[Node]) -> list[Node]:
    """The outputs and all they were computed from, back to leaves and values without a history."""
    stop = {node for node in ancestors(outputs) if node.op is VARIABLE and not any(s.tracked for s in node.sources)}
    return ancestors(outputs, stop=stop)


def _shown(nodes: Sequence[Node], seeds: Container[Node] = ()) -> list[Node]:
    """The nodes without the numbers written in the program, which stand in the text of the ops that use them."""
    return [node for node in nodes if node.op is not LITERAL or node in seeds]


def evaluate(nodes: Sequence[Node], values: dict[Node, Value]) -> None:
    """Compute nodes in order by their references, from the values known so far."""
    with np.errstate(all="ignore"):
        for node in nodes:
            if node not in values:
                values[node] = _value(node, values)


def _value(node: Node, values: dict[Node, Value]) -> Value:
    if has_array(node):
        return on_host(node.buffer)
    if type(node.buffer) is tuple:
        return tuple(map(on_host, node.buffer))
    arrays = []
    for source in node.sources:
        if source not in values:
            evaluate([each for each in ancestors([source]) if each not in values], values)
        arrays.append(values[source])
    return apply_here(node, arrays)


# --- a compiled function ----------------------------------------------------------------------------------------------


def _of_compiled(compiled: Compiled, args: Sequence[Any], kwargs: dict[str, Any]) -> RecordedCall:
    """A compiled function, recorded once more on these arguments and computed by the references."""
    call = take_apart(None, tuple(args), kwargs)
    if call is None:
        raise ArgumentError("inspect.page: an argument was computed from tensors that require grad; pass x.detach()")
    observed = Observed()
    with observed.watching():
        specialization = compiled._capture(call, None)
    captured, graph = specialization.captured, specialization.graph
    values: dict[Node, Value] = {}
    if _can_be_had(captured):
        values.update(zip(graph.inputs, _inputs(captured, call.leaves)))
        values.update((node, on_host(node.buffer)) for node in graph.captured())
        evaluate(graph.nodes, values)
    observed.take_over(_stand_ins(captured, graph, call.leaves))
    forward, backward = _sides(graph, observed)
    seeds = observed.adjoint_nodes()
    title = f"compiled {_title(compiled._function)}"
    recorded = RecordedCall(title, _shown(forward), _shown(backward, seeds), list(graph.outputs), observed, values)
    recorded.specialization, recorded.leaves = specialization, call.leaves
    names = _argument_names(compiled._function, args, kwargs)
    recorded.name_inputs(zip(graph.inputs, [names[i] for i in captured.arguments] + captured.floats.names(names)))
    slots = {id(slot()): node for slot, node in zip(captured.slots, graph.inputs[_first_slot(captured) :])}
    named = named_slots(compiled._function, observed)
    recorded.name_slots((slots[id(slot)], name) for slot, name in named if id(slot) in slots)
    by_slot = {id(slot): name for slot, name in named}
    recorded.accumulated = _accumulated(captured, by_slot)
    recorded.assigned = {k: by_slot.get(id(slot()), "a tensor") for slot, k, _ in captured.assigned}
    before = graph.inputs[_first_slot(captured) + len(captured.slots) :]  # the gradients that are there already
    known = {id(slot): f"{name}.grad" for slot, name in named}
    recorded.name_slots((n, known[id(s())]) for s, n in zip(captured.grads, before) if id(s()) in known)
    return recorded


def _stand_ins(captured: Captured, graph: Graph, leaves: Sequence[Any]) -> dict[Node, Node]:
    """The graph input that replaces each slot's node."""
    arguments = [leaves[i] for i in captured.arguments]
    pairs = [*zip(arguments, graph.inputs)]
    pairs += zip([slot() for slot in captured.slots], graph.inputs[_first_slot(captured) :])
    return {slot.node: node for slot, node in pairs if isinstance(slot, Tensor)}


def _sides(graph: Graph, observed: Observed) -> tuple[list[Node], list[Node]]:
    """The nodes of the forward pass, and those of gradients and updates, each list with its inputs."""
    after = observed.adjoint_nodes() & set(graph.nodes)
    for node in graph.nodes:
        is_gradient = observed.forward_of(node) is not None or not after.isdisjoint(node.sources)
        if is_gradient or observed.is_of_optimizer(node):
            after.add(node)
    given = [*graph.inputs, *graph.captured()]
    read = {s for node in graph.nodes if node not in after and node.op is not VARIABLE for s in node.sources}
    late = {s for node in after for s in node.sources if s not in read}
    hidden = {s for node in graph.nodes if node.op is VARIABLE for s in node.sources} - read - late
    forward = [node for node in given if node not in late and node not in hidden]
    forward += [node for node in graph.nodes if node not in after]
    return forward, [node for node in given if node in late] + [node for node in graph.nodes if node in after]


def _accumulated(captured: Captured, names: dict[int, str]) -> dict[int, str]:
    """By output, the name of the tensor whose `grad` it replaces."""
    return {k: names.get(id(slot()), "a tensor") for slot, how, k in captured.set_grads if how != NONE}


def _can_be_had(captured: Captured) -> bool:
    """Whether the values of all slots are available: a sharded one needs all ranks of its mesh."""
    held = [slot().node.buffer for slot in captured.all_slots()]  # type: ignore[union-attr]
    return all(array.placement.mesh.size == current.size for array in held if isinstance(array, ShardedArray))


def _first_slot(captured: Captured) -> int:
    return len(captured.arguments) + len(captured.floats.used) + len(captured.argument_grads)


def _inputs(captured: Captured, leaves: Sequence[Any]) -> list[Value]:
    """The arrays that the inputs of a captured graph have now."""
    found = [leaves[i] for i in captured.arguments] + captured.floats.arrays(leaves)
    found += [leaves[i].grad for i in captured.argument_grads] + [slot() for slot in captured.slots]
    found += [slot().grad for slot in captured.grads]  # type: ignore[union-attr]
    return [np.asarray(_host(value)) for value in found]


def _host(value: Any) -> Any:
    return value.detach().numpy() if isinstance(value, Tensor) else value


# --- names ------------------------------------------------------------------------------------------------------------


def _title(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__).replace("<lambda>", "lambda")


def _argument_names(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """What the function calls each leaf of its arguments."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # built-in functions do not tell
        parameters = []
    names: list[str] = []
    for i, argument in enumerate([*args, *kwargs.values()]):
        known = [*parameters[: len(args)], *kwargs] if len(parameters) >= len(args) else []
        name = known[i] if i < len(known) else f"x{i + 1}"
        count = len(tree.flatten(argument)[0])
        names += [name] if count == 1 else [f"{name}[{k}]" for k in range(count)]
    return names
