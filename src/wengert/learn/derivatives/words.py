"""What is said about each way to differentiate."""

SYMBOLIC = (
    "The function is written as a formula, and the rules of calculus turn it into other formulas. They are "
    "exact, and can be read, simplified and solved. But a formula has no intermediate results: what several "
    "derivatives share is written out in each of them."
)

NO_SYMPY = (
    "simplifying a whole formula takes SymPy, which is not installed. To add it: python -m pip install sympy. "
    "The tables below need no SymPy: they show the rule of every step."
)

NUMERIC = (
    "The function is only evaluated: the slope between two nearby points approximates the derivative. With a "
    "large step h the points are too far apart. With a small one their values agree in most digits, and the "
    "subtraction leaves mostly rounding error. On logarithmic axes the error is a V, and even at its lowest "
    "point many digits are lost."
)

FORWARD = (
    "The function is a list of elementary steps, v1, v2, v3, ..., each with a known derivative. Every value is "
    "accompanied by its tangent t, the derivative with respect to one input. Here that input is {first}, so "
    "{first} has the tangent 1. The list is walked once for each input."
)

REVERSE = (
    "The same list, read backwards. The adjoint a of a value is the derivative of the result with respect to "
    "that value, so the result has the adjoint 1, and each value receives a share from every step that used "
    "it. One walk gives the derivatives with respect to all inputs, but the intermediate values have to be "
    "kept until then."
)

COST = (
    "A function of many parameters: f of many groups of inputs, and the square of the mean of all results, so "
    "that every parameter matters, as in the loss of a network. Operations are counted in the recorded graphs "
    "and in the formulas; times are measured on this machine. Figures that begin with ~ are extrapolated."
)

WHY = (
    "Numeric differences evaluate the function twice for each parameter, and forward mode walks through it "
    "once for each: work that grows with the square of their number. Formulas grow with the square too, since "
    "each derivative repeats the whole sum, and where functions are nested within functions they grow faster "
    "still. Reverse mode takes a few times the work of the function itself, however many parameters there "
    "are."
)

WHEN = (
    "Reverse mode: one result and many inputs, as in training. Its price is memory for the intermediate "
    "values; checkpointing trades some of it for time.\n\n"
    "Forward mode: few inputs and many results, and directional derivatives; it keeps nothing. Forward over "
    "reverse gives Hessian-vector products.\n\n"
    "Symbolic: when you want the formula itself, to read, solve or simplify it; and for small closed forms "
    "that are evaluated very often.\n\n"
    "Numeric: when only values are available, as with a black box or an experiment; and to check the other "
    "ways.\n\n"
    "Automatic differentiation is the wrong tool where the derivative of the program is not the one you mean: "
    "a function with jumps or rounding has the derivative 0 almost everywhere; a loop that runs until it "
    "converges is better differentiated through the equation that it solves; and a noisy simulation needs an "
    "estimate of the derivative of its mean."
)
