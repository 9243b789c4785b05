"""What is said about each way to a derivative."""

SYMBOLIC = (
    "The function is written as a formula, and the rules of calculus turn it into other formulas. They are "
    "exact, can be read, simplified and solved. But a formula has no intermediate results: what several "
    "derivatives share is written out in each of them."
)

NUMERIC = (
    "The function is only evaluated: the slope between two points nearby stands for the derivative. With a "
    "large step h they are too far apart. With a small one their values agree in most digits, and subtracting "
    "leaves the rounding errors. On logarithmic axes the error is a V, and even at its lowest point many "
    "digits are lost."
)

FORWARD = (
    "The function is a list of simple steps, v1, v2, v3, ..., each with a known derivative. Beside each value "
    "goes its tangent t, the derivative by an input: here by {first}, so {first} has the tangent 1. It takes "
    "as many walks as there are inputs."
)

REVERSE = (
    "The same list, read backwards. The adjoint a of a value is the derivative of the result by it, so the "
    "result has the adjoint 1, and each value gets a share from every step that used it. One walk gives the "
    "derivatives with respect to all inputs; the values on the way have to be kept for it."
)

COST = (
    "A function of many parameters: f of many groups of inputs, and the square of the mean of all results, so "
    "that every parameter matters, as in the loss of a network. Operations are counted in the recorded graphs "
    "and in the formulas, and times measured on this machine; what begins with ~ is extrapolated."
)

WHY = (
    "Numeric differences evaluate the function twice for each parameter, and forward mode walks through it "
    "once for each: work that grows with the square of their number. Formulas grow with the square too, since "
    "each derivative repeats the whole sum, and where functions are nested within functions they grow faster "
    "still. Reverse mode takes a few times the work of the function itself, however many parameters there "
    "are."
)

WHEN = (
    "Reverse mode: one result, many inputs, as when training. Its price is memory, for the values on the way; "
    "checkpoints trade some of it for time.\n\n"
    "Forward mode: few inputs and many results, and directional derivatives; it keeps nothing. Forward over "
    "reverse gives Hessian-vector products.\n\n"
    "Symbolic: when the formula itself is wanted, to read, to solve or to simplify; and small closed forms "
    "that are evaluated very often.\n\n"
    "Numeric: when there is nothing but values, as with a black box or an experiment; and to check the other "
    "ways.\n\n"
    "Automatic differentiation is the wrong tool where the derivative of the program is not the one that is "
    "meant: a function with jumps or rounding has the derivative 0 almost everywhere; a loop that runs until "
    "it converges is better differentiated through the equation that it solves; and a noisy simulation needs "
    "an estimate of the mean's slope."
)
