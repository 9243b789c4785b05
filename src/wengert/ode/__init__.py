"""`wg.ode`: ordinary differential equations, solved in one compiled loop and differentiated in every mode.

In: a function f(t, y, args), a state, times. Out: the states at these times. `steps` has the methods (`tableaus`,
`rosenbrock_tableaus` their coefficients), `control` their step sizes, `loop` the loop over steps, `dense` values within
a step, `discrete` and `continuous` the solve with either adjoint, `failures` its errors.
"""

from wengert.ode.solve import Trajectory, solve

__all__ = ["Trajectory", "solve"]
