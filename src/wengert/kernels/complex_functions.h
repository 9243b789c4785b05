/* Functions of complex numbers; included by complex.h for each precision.

   COMPLEX and REAL are the types of a number and of its parts, Z(name) and R(name) the functions of them, Z(name) those
   made here. As in math.h nothing branches: a choice is between two values that are computed both. What they give at
   infinities, NaN and on either side of a cut is what the C standard's Annex G says, and NumPy.

   Errors are a few units in the last place of each part, but where a part is a difference: expm1, pow. */

#define RE(z) Z(real)(z)
#define IM(z) Z(imag)(z)
#define OF(x, y) Z(of_parts)(x, y)
#define INFINITE(x) (R(abs)(x) == (REAL)WG_INF_f32)
#define FINITE(x) ((x) - (x) == 0)

/* --- arithmetic ------------------------------------------------------------------------------------------------------ */

WG COMPLEX Z(conj)(COMPLEX z) { return OF(RE(z), -IM(z)); }
WG COMPLEX Z(multiply)(COMPLEX a, COMPLEX b)
{
    return OF(RE(a) * RE(b) - IM(a) * IM(b), RE(a) * IM(b) + IM(a) * RE(b));
}
WG COMPLEX Z(square)(COMPLEX z) { return Z(multiply)(z, z); }
WG COMPLEX Z(safe_multiply)(COMPLEX g, COMPLEX d)
{
    COMPLEX y = Z(multiply)(g, d);
    int none = (RE(g) == 0) & (IM(g) == 0);
    return OF(none ? 0 : RE(y), none ? 0 : IM(y));
}
/* by Smith's method, as NumPy divides: squares of the parts would overflow before the quotient does */
WG COMPLEX Z(divide)(COMPLEX a, COMPLEX b)
{
    int wide = R(abs)(RE(b)) >= R(abs)(IM(b)), none = (RE(b) == 0) & (IM(b) == 0);
    REAL big = wide ? RE(b) : IM(b), small = wide ? IM(b) : RE(b);
    REAL p = wide ? RE(a) : IM(a), q = wide ? IM(a) : RE(a);
    REAL ratio = small / big, scale = 1 / (big + small * ratio);
    REAL x = (p + q * ratio) * scale, y = (q - p * ratio) * scale, zero = R(abs)(RE(b));
    return OF(none ? RE(a) / zero : x, none ? IM(a) / zero : wide ? y : -y);
}
WG COMPLEX Z(reciprocal)(COMPLEX z) { return Z(divide)(OF(1, 0), z); }
WG REAL Z(abs)(COMPLEX z) { return R(hypot)(RE(z), IM(z)); }
WG COMPLEX Z(sign)(COMPLEX z)
{
    REAL scale = (R(abs)(RE(z)) > 1) | (R(abs)(IM(z)) > 1) ? (REAL)0.25 : 1; /* the size may be too large */
    REAL p = RE(z) * scale, q = IM(z) * scale, size = R(hypot)(p, q), none = size * 0; /* NaN: two infinite parts */
    int x_only = INFINITE(p) & !INFINITE(q), y_only = INFINITE(q) & !INFINITE(p);
    REAL x = x_only ? R(copysign)(1, RE(z)) : y_only ? 0 : none, y = y_only ? R(copysign)(1, IM(z)) : x_only ? 0 : none;
    return OF(size == 0 ? 0 : FINITE(size) ? p / size : x, size == 0 ? 0 : FINITE(size) ? q / size : y);
}
WG COMPLEX Z(round)(COMPLEX z) { return OF(R(round)(RE(z)), R(round)(IM(z))); }
WG uint8_t Z(isinf)(COMPLEX z) { return INFINITE(RE(z)) | INFINITE(IM(z)); }
WG uint8_t Z(isfinite)(COMPLEX z) { return FINITE(RE(z)) & FINITE(IM(z)); }

/* --- exponentials ---------------------------------------------------------------------------------------------------- */

/* e^x may be too large where its product with a sine is not: from TOP on it is the product of two factors. What holds at
   0, infinities and NaN is chosen before sines are taken: a choice between results would become a branch around them. */
WG COMPLEX Z(exp)(COMPLEX z)
{
    REAL x = RE(z), y = IM(z), up = x > TOP ? E_TOP : 1, size = R(exp)(x > TOP ? x - TOP : x);
    REAL angle = FINITE(y) | !INFINITE(x) ? y : 0; /* e^-inf is 0, e^inf is infinite, whatever the angle */
    return OF(R(cos)(angle) * up * size, R(sin)(angle) * (y == 0 ? 1 : up) * (y == 0 ? 1 : size));
}
WG COMPLEX Z(expm1)(COMPLEX z)
{
    REAL half = R(sin)(IM(z) / 2);
    return OF(R(expm1)(RE(z)) * R(cos)(IM(z)) - 2 * half * half, R(exp)(RE(z)) * R(sin)(IM(z)));
}
WG COMPLEX Z(sinh)(COMPLEX z)
{
    REAL x = RE(z), y = IM(z), a = R(abs)(x);
    int far = a > TOP;
    REAL large = R(exp)(far ? a - TOP : 0) / 2, up = far ? E_TOP : 1;
    REAL s = far ? R(copysign)(large, x) : R(sinh)(x), c = far ? large : R(cosh)(x);
    REAL angle = FINITE(y) | !(INFINITE(x) | (x == 0)) ? y : 0, cross = y == 0 ? 1 : FINITE(y) ? c : y - y;
    return OF(R(cos)(angle) * up * s, R(sin)(angle) * up * cross);
}
WG COMPLEX Z(cosh)(COMPLEX z)
{
    REAL x = RE(z), y = IM(z), a = R(abs)(x);
    int far = a > TOP;
    REAL large = R(exp)(far ? a - TOP : 0) / 2, up = far ? E_TOP : 1;
    REAL s = far ? R(copysign)(large, x) : R(sinh)(x), c = far ? large : R(cosh)(x);
    REAL angle = FINITE(y) | !(INFINITE(x) | (x == 0)) ? y : 0, along = FINITE(y) | (x != 0) ? c : y - y;
    return OF(R(cos)(angle) * up * along, R(sin)(angle) * up * (y == 0 ? R(copysign)(1, x) : s));
}
WG COMPLEX Z(tanh)(COMPLEX z)
{
    REAL x = RE(z), y = IM(z), a = R(abs)(x), sy = R(sin)(y), cy = R(cos)(y);
    int far = a > 22;
    REAL s = R(sinh)(far ? 0 : x), size = far ? 1 : s * s + cy * cy;
    REAL re = far ? R(copysign)(1, x) : s * R(cosh)(far ? 0 : x) / size;
    REAL im = sy * cy * (far ? 4 * R(exp)(-2 * a) : 1) / size;
    re = FINITE(y) ? re : INFINITE(x) ? R(copysign)(1, x) : x == 0 ? x : y - y;
    im = FINITE(y) | !INFINITE(x) ? im : R(copysign)(0, y);
    return OF(re, y == 0 ? y : im);
}
/* of i z */
WG COMPLEX Z(turned)(COMPLEX z) { return OF(-IM(z), RE(z)); }
/* of z / i */
WG COMPLEX Z(turned_back)(COMPLEX z) { return OF(IM(z), -RE(z)); }
WG COMPLEX Z(sin)(COMPLEX z) { return Z(turned_back)(Z(sinh)(Z(turned)(z))); }
WG COMPLEX Z(cos)(COMPLEX z) { return Z(cosh)(Z(turned)(z)); }
WG COMPLEX Z(tan)(COMPLEX z) { return Z(turned_back)(Z(tanh)(Z(turned)(z))); }

/* --- logarithms and roots -------------------------------------------------------------------------------------------- */

/* log(1 + t + a^2 + b^2) / 2, where the terms may all but cancel: their sum is made with what rounding them drops */
WG REAL Z(log1p_of_squares)(REAL t, REAL a, REAL b)
{
    REAL p = R(rounded_product)(a, a), q = R(rounded_product)(b, b);
    REAL dropped = R(exact_ma)(a, a, -p) + R(exact_ma)(b, b, -q);
    REAL s = t + p, of_p = s - t;
    dropped += (t - (s - of_p)) + (p - of_p);
    REAL all = s + q, of_q = all - s;
    dropped += (s - (all - of_q)) + (q - of_q);
    return R(log1p)(all + dropped) / 2;
}
/* log |z|, exact near the unit circle too, and where |z| itself is too large, or so small that it has few digits */
WG REAL Z(log_size)(REAL x, REAL y)
{
    REAL a = R(abs)(x), b = R(abs)(y), big = a > b ? a : b, small = a > b ? b : a;
    REAL scale = big > LARGE ? (REAL)0x1p-60 : big < TINY ? (REAL)0x1p60 : 1;
    REAL scaled = big > LARGE ? 60 * LOG_2 : big < TINY ? -60 * LOG_2 : 0;
    REAL far = R(log)(R(hypot)(a * scale, b * scale)) + scaled;
    int near = (big >= (REAL)0.5) & (big <= 2);
    return near ? Z(log1p_of_squares)(-1, near ? big : 1, near ? small : 0) : far;
}
WG COMPLEX Z(log)(COMPLEX z) { return OF(Z(log_size)(RE(z), IM(z)), R(atan2)(IM(z), RE(z))); }
WG COMPLEX Z(log2)(COMPLEX z)
{
    COMPLEX y = Z(log)(z);
    return OF(RE(y) * (REAL)1.4426950408889634, IM(y) * (REAL)1.4426950408889634);
}
WG COMPLEX Z(log10)(COMPLEX z)
{
    COMPLEX y = Z(log)(z);
    return OF(RE(y) * (REAL)0.4342944819032518, IM(y) * (REAL)0.4342944819032518);
}
WG COMPLEX Z(log1p)(COMPLEX z)
{
    REAL x = RE(z), y = IM(z);
    int near = (R(abs)(x) < (REAL)0.5) & (R(abs)(y) < 1);
    REAL small = Z(log1p_of_squares)(near ? 2 * x : 0, near ? x : 0, near ? y : 0);
    return OF(near ? small : Z(log_size)(1 + x, y), R(atan2)(y, 1 + x));
}
WG COMPLEX Z(sqrt)(COMPLEX z)
{
    REAL a = R(abs)(RE(z)), b = R(abs)(IM(z)), big = a > b ? a : b;
    REAL scale = big > LARGE ? (REAL)0x1p-4 : big < TINY ? (REAL)0x1p60 : 1;
    REAL back = big > LARGE ? 4 : big < TINY ? (REAL)0x1p-30 : 1;
    REAL x = a * scale, y = b * scale, half = R(sqrt)((x + R(hypot)(x, y)) / 2), other = y / (2 * half);
    half = INFINITE(b) ? b : half * back, other = (x == 0) & (y == 0) ? 0 : INFINITE(b) ? b : other * back;
    return OF(RE(z) < 0 ? other : half, R(copysign)(RE(z) < 0 ? half : other, IM(z)));
}
/* whole exponents below 100 by multiplication, as NumPy has them: those of small whole numbers are exact */
WG COMPLEX Z(pow)(COMPLEX a, COMPLEX b)
{
    int whole = (IM(b) == 0) & (R(abs)(RE(b)) < 100) & (R(round)(RE(b)) == RE(b));
    int32_t n = (int32_t)R(abs)(whole ? RE(b) : 1);
    COMPLEX power = a, y = OF(1, 0);
    int begun = 0;
    for (int bit = 0; bit < 7; bit++) {
        COMPLEX next = Z(multiply)(y, power);
        int taken = (n >> bit) & 1;
        y = OF(taken ? begun ? RE(next) : RE(power) : RE(y), taken ? begun ? IM(next) : IM(power) : IM(y));
        begun |= taken;
        power = Z(multiply)(power, power);
    }
    COMPLEX over = Z(divide)(OF(1, 0), y), any = Z(exp)(Z(multiply)(b, Z(log)(a)));
    REAL re = whole ? RE(b) < 0 ? RE(over) : RE(y) : RE(any), im = whole ? RE(b) < 0 ? IM(over) : IM(y) : IM(any);
    int zero = (RE(a) == 0) & (IM(a) == 0), one = (RE(b) == 0) & (IM(b) == 0), none = zero & !one;
    REAL at_zero = RE(b) > 0 ? 0 : (REAL)WG_NAN_f32;
    return OF(none ? at_zero : re, none ? at_zero : im);
}

/* --- inverse functions: Kahan, "Branch cuts for complex elementary functions" (1987) ---------------------------------- */

/* Far from 0, |z| > FAR, they are logarithms of 2 z to rounding. Nearer by the roots of 1 - z and 1 + z: sums of terms
   of one sign, so that nothing cancels. */
WG COMPLEX Z(asin)(COMPLEX z)
{
    REAL x = RE(z), y = IM(z), a = R(abs)(x), b = R(abs)(y);
    int far = (a > FAR) | (b > FAR);
    COMPLEX below = Z(sqrt)(OF(1 - x, -y)), above = Z(sqrt)(OF(1 + x, y));
    REAL across = R(atan2)(x, far ? b : RE(below) * RE(above) - IM(below) * IM(above));
    REAL along = R(asinh)(far ? 0 : RE(below) * IM(above) - IM(below) * RE(above));
    REAL size = Z(log_size)(x, y) + LOG_2;
    return OF(x == 0 ? x : across, (y == 0) & (a <= 1) ? y : R(copysign)(far ? size : along, y));
}
WG COMPLEX Z(acos)(COMPLEX z)
{
    REAL x = RE(z), y = IM(z), a = R(abs)(x), b = R(abs)(y);
    int far = (a > FAR) | (b > FAR);
    COMPLEX below = Z(sqrt)(OF(1 - x, -y)), above = Z(sqrt)(OF(1 + x, y));
    REAL angle = R(atan2)(far ? b : RE(below), far ? x : RE(above));
    REAL along = R(asinh)(far ? 0 : RE(above) * IM(below) - IM(above) * RE(below));
    REAL size = Z(log_size)(x, y) + LOG_2;
    REAL quarter = (REAL)1.5707963267948966;
    return OF(x == 0 ? quarter : (far ? 1 : 2) * angle, -R(copysign)(far ? size : along, y));
}
WG COMPLEX Z(atanh)(COMPLEX z)
{
    REAL x = RE(z), y = IM(z), a = R(abs)(x), b = R(abs)(y);
    int far = (a > FAR) | (b > FAR), pole = (a == 1) & (b < 1 / FAR);
    COMPLEX over = Z(reciprocal)(OF(a / 4, b / 4));
    REAL near = R(log1p)(4 * a / ((1 - a) * (1 - a) + b * b)) / 4, at_pole = (LOG_2 - R(log)(b)) / 2;
    REAL re = far ? RE(over) / 4 : pole ? at_pole : near, quarter = (REAL)1.5707963267948966;
    REAL im = far ? quarter + IM(over) / 4 : R(atan2)(2 * b, (1 - a) * (1 + a) - b * b) / 2;
    int infinite = INFINITE(a) | INFINITE(b);
    re = (a == 0) | infinite ? 0 : re, im = infinite ? quarter : im;
    im = (b != b) | ((a != a) & FINITE(b)) ? y + x : im;
    return OF(R(copysign)(re, x), R(copysign)(im, y));
}
WG COMPLEX Z(acosh)(COMPLEX z)
{
    COMPLEX turned = Z(acos)(z);
    return OF(R(abs)(IM(turned)), R(copysign)(RE(turned), IM(z)));
}
WG COMPLEX Z(asinh)(COMPLEX z) { return Z(turned_back)(Z(asin)(Z(turned)(z))); }
WG COMPLEX Z(atan)(COMPLEX z) { return Z(turned_back)(Z(atanh)(Z(turned)(z))); }

#undef RE
#undef IM
#undef OF
#undef INFINITE
#undef FINITE
