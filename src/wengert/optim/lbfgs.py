"""L-BFGS: Newton steps with curvature learned from the last gradients. A closure computes the loss as often as
needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import wengert as wg
from wengert import Tensor
from wengert.core.devices import is_host
from wengert.core.errors import ArgumentError, RecordingError
from wengert.core.graph import recording
from wengert.optim.groups import ParameterGroup
from wengert.optim.line_search import Point, strong_wolfe
from wengert.optim.optimizer import Optimizer

# All parameters, or a gradient, as one vector. On the CPU it is a NumPy array: hundreds of small products follow each
# other, and recording one takes longer than computing it. The lines are the same for both.
Vector = Any

_LEAST_CURVATURE = 1e-10  # a pair of step and change of gradient with less than this is not remembered


class LBFGS(Optimizer):
    """Limited-memory BFGS (Liu and Nocedal, 1989), with all parameters as one vector. `step` takes a closure.

    A step is up to `max_iter` iterations and `max_eval` calls of the closure, which clears the gradients, computes the
    loss, calls `backward()` and returns the loss. `line_search_fn="strong_wolfe"` chooses the step length of each
    iteration; without it the length is `lr`. A step ends early when the largest gradient is at most `tolerance_grad`,
    or loss and parameters move by less than `tolerance_change`.

    >>> import wengert as wg
    >>> w = wg.tensor([-1.2, 1.0], dtype=wg.float64, requires_grad=True)
    >>> optimizer = wg.optim.LBFGS([w], line_search_fn="strong_wolfe", max_iter=50)
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> _ = optimizer.step(closure)
    >>> [round(x, 4) for x in w.tolist()]
    [1.0, 1.0]

    The closure may call compiled functions; the step itself depends on values, so it cannot be compiled.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if self.param_groups:
            raise ArgumentError("LBFGS takes all parameters in one group, because it steps along one direction")
        super().add_param_group(param_group)
        self._params: list[Tensor] = list(self.param_groups[0]["params"])
        self._memory: dict[str, Any] = {}

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        if group["line_search_fn"] not in (None, "strong_wolfe"):
            raise ArgumentError(f'line_search_fn must be "strong_wolfe" or None, not {group["line_search_fn"]!r}')
        return {}

    def update(self, grads: Any, *, skip: Tensor | None = None) -> None:
        raise ArgumentError("LBFGS computes the loss at several points in a step: write optimizer.step(closure)")

    # --- the step ---------------------------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None, *, skip: Tensor | None = None) -> Any:
        """Take up to `max_iter` iterations; returns the closure's loss at the start."""
        if closure is None or skip is not None:
            raise ArgumentError("LBFGS.step takes a closure, which computes the loss and its gradients, but no skip")
        if recording.trace is not None:
            raise RecordingError(
                "LBFGS.step cannot run inside wg.compile: how often it computes the loss depends on values. Call "
                "step outside, with a closure that calls the compiled function"
            )
        with wg.no_grad():
            return self._step(closure)

    def _step(self, closure: Callable[[], Any]) -> Any:
        group, memory = self.param_groups[0], self._memory
        first_loss, value, gradient = self._evaluate(closure)
        memory.setdefault("n_iter", 0)
        memory["func_evals"] = memory.get("func_evals", 0) + 1
        if _largest(gradient) <= group["tolerance_grad"]:
            return first_loss
        count = 1
        for iteration in range(1, group["max_iter"] + 1):
            memory["n_iter"] += 1
            direction = self._direction(gradient)
            before, memory["prev_flat_grad"], memory["prev_loss"] = value, gradient, value
            length = self._first_length(gradient)
            memory["d"], memory["t"] = direction, length
            slope = _dot(gradient, direction)
            if slope > -group["tolerance_change"]:
                break
            start = Point(0.0, value, gradient, slope)
            is_last = iteration == group["max_iter"]
            point, asked = self._moved(closure, start, direction, length, group["max_eval"] - count, is_last)
            value, gradient, memory["t"] = point.value, point.gradient, point.length
            count += asked
            memory["func_evals"] += asked
            if is_last or count >= group["max_eval"] or self._has_arrived(point, direction, before):
                break
        return first_loss

    def _moved(
        self, closure: Callable[[], Any], start: Point, direction: Vector, length: float, most: int, is_last: bool
    ) -> tuple[Point, int]:
        """Go along the direction, and say what was found there and how often the closure was called."""
        values, calls = _vector([p.detach() for p in self._params]), 0

        def evaluate(at: float) -> Point:
            nonlocal calls
            calls += 1
            self._place(values, direction, at)
            _, value, gradient = self._evaluate(closure)
            return Point(at, value, gradient, _dot(gradient, direction))

        if self.param_groups[0]["line_search_fn"] is None:
            if is_last:  # nobody asks for the loss at the end
                self._place(values, direction, length)
                return Point(length, start.value, start.gradient, start.slope), 0
            return evaluate(length), calls
        least = self.param_groups[0]["tolerance_change"]
        point = strong_wolfe(evaluate, start, length, _largest(direction), least, most)
        self._place(values, direction, point.length)
        return point, calls

    def _has_arrived(self, point: Point, direction: Vector, before: float) -> bool:
        group = self.param_groups[0]
        least = group["tolerance_change"]
        return (
            _largest(point.gradient) <= group["tolerance_grad"]
            or _largest(direction * point.length) <= least
            or abs(point.value - before) < least
        )

    def _first_length(self, gradient: Vector) -> float:
        lr = float(self.param_groups[0]["lr"])
        return min(1.0, 1.0 / float(abs(gradient).sum())) * lr if self._memory["n_iter"] == 1 else lr

    # --- curvature --------------------------------------------------------------------------------------------------

    def _direction(self, gradient: Vector) -> Vector:
        memory = self._memory
        if memory["n_iter"] == 1:
            memory.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -gradient
        self._remember(gradient - memory["prev_flat_grad"], memory["d"] * memory["t"])
        return self._newton_step(gradient)

    def _remember(self, change: Vector, step: Vector) -> None:
        """Keep a step and the change of the gradient along it, and forget the oldest beyond `history_size`."""
        curvature = _dot(change, step)
        if not curvature > _LEAST_CURVATURE:
            return
        memory = self._memory
        if len(memory["ro"]) == self.param_groups[0]["history_size"]:
            for kept in ("old_dirs", "old_stps", "ro"):
                memory[kept].pop(0)
        memory["old_dirs"].append(change)
        memory["old_stps"].append(step)
        memory["ro"].append(1.0 / curvature)
        memory["H_diag"] = curvature / _dot(change, change)

    def _newton_step(self, gradient: Vector) -> Vector:
        """Minus the inverse Hessian, as the pairs tell it, times the gradient: the two-loop recursion."""
        memory = self._memory
        pairs = list(zip(memory["old_dirs"], memory["old_stps"], memory["ro"]))
        along, shares = -gradient, []
        for change, step, inverse in reversed(pairs):
            shares.append((step @ along) * inverse)
            along = along - change * shares[-1]
        along = along * memory["H_diag"]
        for (change, step, inverse), share in zip(pairs, reversed(shares)):
            along = along + step * (share - (change @ along) * inverse)
        return along

    # --- the parameters as one vector -------------------------------------------------------------------------------

    def _evaluate(self, closure: Callable[[], Any]) -> tuple[Any, float, Vector]:
        """The loss as the closure gives it, as a number, and the gradient: zeros where a parameter has none."""
        with wg.enable_grad():
            loss = closure()
        if loss is None:
            raise ArgumentError("LBFGS: the closure returned None; it must return the loss, after loss.backward()")
        parts = [(wg.zeros_like(p) if p.grad is None else p.grad).detach() for p in self._params]
        return loss, float(loss), _vector(parts)

    def _place(self, values: Vector, direction: Vector, length: float) -> None:
        """Give the parameters the values they started from, moved by so much of the direction."""
        moved, start = wg.asarray(values + direction * length), 0
        for parameter in self._params:
            parameter.assign(moved[start : start + parameter.size].reshape(parameter.shape).to(parameter.dtype))
            start += parameter.size

    # --- saving and loading -----------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The state in PyTorch's layout: the first parameter holds the history for all of them."""
        kept = {name: _saved(value) for name, value in self._memory.items()}
        return {**super().state_dict(), "state": {0: kept} if kept else {}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that `state_dict()` returned, here or in PyTorch."""
        super().load_state_dict({**state_dict, "state": {}})
        loaded = state_dict["state"].get(0, {})
        numbers = {name: loaded[name] for name in ("n_iter", "func_evals") if name in loaded}
        floats = {name: float(loaded[name]) for name in ("t", "H_diag", "prev_loss") if name in loaded}
        vectors = {name: _vector([wg.asarray(loaded[name])]) for name in ("d", "prev_flat_grad") if name in loaded}
        pairs = {
            name: [_vector([wg.asarray(part)]) for part in loaded[name]]
            for name in ("old_dirs", "old_stps")
            if name in loaded
        }
        ro = {"ro": [float(number) for number in loaded["ro"]]} if "ro" in loaded else {}
        self._memory = {**numbers, **floats, **vectors, **pairs, **ro}


def _vector(parts: list[Tensor]) -> Vector:
    flat = wg.concat([part.detach().reshape(-1) for part in parts])
    return flat.numpy() if is_host(flat.device) else flat


def _saved(value: Any) -> Any:
    """A part of the memory for a state dict: vectors as tensors."""
    if isinstance(value, list):
        return [_saved(part) for part in value]
    return wg.tensor(value) if isinstance(value, np.ndarray) else value


def _dot(a: Vector, b: Vector) -> float:
    return float(a @ b)


def _largest(vector: Vector) -> float:
    return float(abs(vector).max())
