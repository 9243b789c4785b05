"""Optimizer: the base class of all optimizers. In: parameters, their gradients and options. Out: parameters with new
values.

An optimizer states its rule as a pure function of one parameter, its gradient and its state (see `Optimizer.rule`);
here the rule is applied to all parameters and the results are assigned. A step only records: nothing reads a value, and
everything that changes between steps (learning rate, step count, moments) is a tensor created with the optimizer. So a
compiled training step contains its optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError, DTypeError, GradientError, ShapeError
from wengert.distributed.sharding import lay_like
from wengert.optim.groups import NOTES, ParameterGroup, StepCounts, unknown_option

_FLOATING = (wg.float16, wg.bfloat16, wg.float32, wg.float64)
# What PyTorch's groups say about how its step is carried out; of no meaning here, and skipped when its state is loaded.
_HOW_TORCH_RUNS = ("foreach", "fused", "capturable", "differentiable")


class Optimizer:
    """The base class of the optimizers. `params` are tensors, (name, tensor) pairs, or dicts of groups with their
    options.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = wg.optim.SGD([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.0, 0.0]

    To write your own: pass the options to `__init__`, list in `slots` those that schedules change, and define `initial`
    (the state), `scalars` (numbers of a step that all parameters share) and `rule` (the step of one parameter).
    """

    slots: ClassVar[tuple[str, ...]] = ("lr",)

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        self.param_groups: list[ParameterGroup] = []
        self._counts: list[StepCounts] = []
        for group in _as_groups(params):
            self.add_param_group(group)

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        wg.config.changed()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.param_groups))})"

    # --- what an optimizer states -----------------------------------------------------------------------------------

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        """The state of a parameter before its first step, by name."""
        return {}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        """The numbers a step needs that do not depend on the parameter: 0-d tensors, computed in float64.

        `step` is 1 in the first step, also in float64. The rule receives them in its working dtype.
        """
        return {"lr": group["lr"]}

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Compute the next value of a parameter and of its state, from its value, gradient and state, and the scalars
        `s`."""
        raise TypeError(f"{type(self).__name__} has no rule: define rule(self, p, g, state, group, s)")

    def check_parameter(self, parameter: Tensor) -> None:
        """Raise an error for a tensor that cannot be optimised."""
        if not isinstance(parameter, Tensor):
            raise DTypeError(f"an optimizer takes tensors, not {parameter!r} of type {type(parameter).__name__}")
        if parameter.dtype not in _FLOATING:
            raise DTypeError(f"an optimizer takes floating-point tensors, not {_described(parameter)}")
        if parameter.requires_grad and not parameter.is_leaf:
            raise GradientError(
                f"{_described(parameter)} was computed from tensors that require grad, so it gets no gradient of its "
                "own. Give the optimizer those it was computed from, or x.detach().requires_grad_()"
            )

    # --- groups -----------------------------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own: `{"params": [...], "lr": 0.01}`."""
        if "params" not in param_group:
            raise ArgumentError(f"a group without 'params': it has {', '.join(map(repr, param_group)) or 'nothing'}")
        options = {name: value for name, value in param_group.items() if name != "params"}
        for name in options:
            if name not in self.defaults and name not in NOTES:
                raise unknown_option(name, self.defaults)
        names, params = _named(param_group["params"])
        if not params:
            raise ArgumentError(
                "the optimizer has no parameters: the list is empty (or an iterator that was used up before)"
            )
        for parameter in params:
            self.check_parameter(parameter)
        self._check_new(params)
        if names:
            options["param_names"] = names
        group = ParameterGroup(params, {**self.defaults, **options}, self.slots, self._group_changed)
        self.param_groups.append(group)
        self._counts.append(StepCounts(params))
        self.state.update({parameter: {} for parameter in params})
        self._group_changed(group)

    def _group_changed(self, group: ParameterGroup) -> None:
        """Make the state that the group's options ask for and that is not there yet."""
        if group.get("differentiable"):
            raise GradientError(
                f"{type(self).__name__}(differentiable=True): steps assign values without a history, so they cannot "
                "be differentiated. Compute new values instead: w = w - lr * wg.grad(loss)(w)"
            )
        for parameter in group["params"]:
            state = self.state[parameter]
            made = {name: t for name, t in self.initial(parameter, group).items() if name not in state}
            state.update(made)
            lay_like(parameter, made.values())
        wg.config.changed()

    def _check_new(self, params: Sequence[Tensor]) -> None:
        seen = set(self.state)
        for parameter in params:
            if parameter in seen:
                raise ArgumentError(f"{_described(parameter)} is among the parameters twice, so it would step twice")
            seen.add(parameter)

    # --- the step ---------------------------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients to None, or to zeros."""
        for parameter in self.state:
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.assign(wg.zeros_like(parameter.grad))

    def step(self, closure: Callable[[], Any] | None = None, *, skip: Tensor | None = None) -> Any:
        """Change every parameter that has a gradient by the optimizer's rule.

        `closure`, if given, is called first to compute a loss and the gradients, and `step` returns its result. Where
        `skip` (a boolean scalar tensor) is true, parameters, state and step counts stay unchanged.
        """
        loss = None
        if closure is not None:
            with wg.enable_grad():
                loss = closure()
        self._apply({p: p.grad for p in self.state if p.grad is not None}, skip)
        return loss

    def update(self, grads: Any, *, skip: Tensor | None = None) -> None:
        """Take a step with these gradients, ignoring the parameters' `grad`.

        `grads` has one gradient for each parameter (None skips it), in the parameters' order: a list, or any nested
        container such as `wg.grad` returns; or a dict by name if the optimizer was given named parameters.
        """
        self._apply(self._matched(grads), skip)

    def _matched(self, grads: Any) -> dict[Tensor, Tensor]:
        params = list(self.state)
        names = [name for group in self.param_groups for name in group.get("param_names", ())]
        if isinstance(grads, dict) and len(names) == len(params) and set(grads) == set(names):
            grads = [grads[name] for name in names]
        if not isinstance(grads, (list, tuple)) or any(isinstance(g, (list, tuple, dict)) for g in grads):
            grads = wg.tree.flatten(grads)[0]
        if len(grads) != len(params):
            raise ArgumentError(f"update: got {len(grads)} gradients for {len(params)} parameters")
        return {p: wg.asarray(g) for p, g in zip(params, grads) if g is not None}

    def _apply(self, gradients: dict[Tensor, Tensor], skip: Tensor | None) -> None:
        if not gradients:
            raise GradientError(
                f"{type(self).__name__}: none of the {len(self.state)} parameters has a gradient. Call backward() on "
                "the loss before step(), and zero_grad() after it; or was the loss computed from other tensors than "
                "the optimizer's?"
            )
        for parameter, gradient in gradients.items():
            if gradient.shape != parameter.shape:
                raise ShapeError(f"{_described(parameter)} has a gradient of shape {gradient.shape}")
        with wg.no_grad():
            for group, counts in zip(self.param_groups, self._counts):
                self._step_group(group, counts, gradients, skip)

    def _step_group(
        self, group: ParameterGroup, counts: StepCounts, gradients: dict[Tensor, Tensor], skip: Tensor | None
    ) -> None:
        absent = [p for p in group["params"] if p not in gradients]
        if len(absent) == len(group["params"]):
            return
        counts.set_apart(absent)
        shared: dict[Any, SimpleNamespace] = {}
        live = group.live()
        for parameter in group["params"]:
            if parameter in gradients:
                dtype = working_dtype(parameter)
                key = (parameter if parameter in counts.apart else None, dtype)
                if key not in shared:
                    shared[key] = self._scalars_in(dtype, live, (counts.of(parameter) + 1).astype(wg.float64))
                self._step_one(parameter, gradients[parameter], live, shared[key], skip)
        counts.advance(absent, skip)

    def _scalars_in(self, dtype: Any, group: ParameterGroup, step: Tensor) -> SimpleNamespace:
        scalars = self.scalars(group, step).items()
        return SimpleNamespace(**{name: s if s.dtype == wg.bool else s.astype(dtype) for name, s in scalars})

    def _step_one(self, p: Tensor, gradient: Tensor, group: ParameterGroup, s: Any, skip: Tensor | None) -> None:
        state = self.state[p]
        dtype = working_dtype(p)
        value, moved = self.rule(p.to(dtype), gradient.to(dtype), state, group, s)
        for slot, new in [(p, value.to(p.dtype)), *((state[name], new) for name, new in moved.items())]:
            slot.assign(new if skip is None else wg.where(skip, slot, new))

    # --- saving and loading -----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's current state, for `wg.save`.

        `{"state": {0: {"step": ..., "exp_avg": ...}, ...}, "param_groups": [{"lr": ..., "params": [0, 1]}, ...]}` as in
        PyTorch: parameters by index, state and changing options as tensors, other options as Python values.
        """
        place = {p: i for i, p in enumerate(self.state)}
        state = {}
        for group, counts in zip(self.param_groups, self._counts):
            for p in group["params"]:
                held = {"step": counts.of(p), **self.state[p]}
                state[place[p]] = {name: tensor.detach() for name, tensor in held.items()}
        groups = [
            {
                name: [place[p] for p in value] if name == "params" else _snapshot(value)
                for name, value in group.live().items()
            }
            for group in self.param_groups
        ]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that `state_dict()` returned, here or in PyTorch; parameters are matched by their
        order."""
        groups, states = state_dict["param_groups"], state_dict["state"]
        sizes, found = [len(g["params"]) for g in self.param_groups], [len(g["params"]) for g in groups]
        if sizes != found:
            raise ArgumentError(
                f"load_state_dict: the state has groups of {found} parameters, but this optimizer has groups of {sizes}"
            )
        for group, counts, loaded in zip(self.param_groups, self._counts, groups):
            _load_options(group, loaded)
            parts = [states.get(index, {}) for index in loaded["params"]]
            for p, part in zip(group["params"], parts):
                self._load_state(p, group, part)
            # PyTorch's SGD keeps no count; a parameter with a state has been stepped.
            counts.load([int(float(part.get("step", bool(part)))) for part in parts])

    def _load_state(self, parameter: Tensor, group: ParameterGroup, loaded: dict[str, Any]) -> None:
        state = self.initial(parameter, group)
        values = {name: wg.asarray(v) for name, v in loaded.items() if name != "step" and v is not None}
        if values.keys() - state.keys() or (values and state.keys() - values.keys()):
            raise ArgumentError(
                f"load_state_dict: {_described(parameter)} has the state {sorted(state)}, but the loaded one has "
                f"{sorted(values)}"
            )
        for name, value in values.items():
            if value.shape != state[name].shape:
                raise ShapeError(
                    f"load_state_dict: {name} of {_described(parameter)} has shape {state[name].shape}, but the "
                    f"loaded one has {value.shape}"
                )
        for name, value in {**state, **values}.items():
            self.state[parameter][name].assign(value.detach())


def working_dtype(tensor: Tensor) -> Any:
    """The dtype in which a step computes and stores its state: the parameter's, or float32 for half precision."""
    return wg.float32 if tensor.dtype in (wg.float16, wg.bfloat16) else tensor.dtype


def zeros_for(parameter: Tensor) -> Tensor:
    """Zeros of a parameter's shape, for its state."""
    return wg.zeros(parameter.shape, dtype=working_dtype(parameter), device=parameter.device)


def descent(p: Tensor, g: Tensor, group: ParameterGroup) -> Tensor:
    """The gradient to descend: negated to maximise, with the gradient of the weight decay added."""
    g = -g if group["maximize"] else g
    return g + p * group["weight_decay"] if group["weight_decay"] else g


def _as_groups(params: Iterable[Any]) -> list[dict[str, Any]]:
    if hasattr(params, "parameters"):
        raise DTypeError("an optimizer takes a module's parameters, not the module: write model.parameters()")
    if isinstance(params, (Tensor, dict)):
        raise DTypeError(
            f"an optimizer takes a list of tensors, of (name, tensor) pairs or of groups, not a single "
            f"{type(params).__name__}: write [...] around it, or list(x.values()) for a dict of parameters"
        )
    params = list(params)
    if params and isinstance(params[0], dict):
        return params
    return [{"params": params}]


def _named(params: Any) -> tuple[list[str], list[Any]]:
    """The names, if there are any, and the tensors of a list of tensors or of (name, tensor) pairs."""
    params = [params] if isinstance(params, Tensor) else list(params)
    if params and all(isinstance(item, tuple) and len(item) == 2 for item in params):
        return [name for name, _ in params], [tensor for _, tensor in params]
    return [], params


def _described(parameter: Tensor) -> str:
    return f"the parameter {parameter.dtype}{list(parameter.shape)}"


def _snapshot(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_snapshot(part) for part in value)
    return value.detach() if isinstance(value, Tensor) else value


def _load_options(group: ParameterGroup, loaded: dict[str, Any]) -> None:
    for name, value in loaded.items():
        if name in _HOW_TORCH_RUNS or name == "params":
            continue
        group[name] = _number(value) if name in group.slots else value


def _number(value: Any) -> Any:
    """A loaded option as Python numbers: whether a momentum is 0 makes a difference to the step."""
    return tuple(float(part) for part in value) if isinstance(value, (tuple, list)) else float(value)
