"""Privacy arithmetic: epsilon as exact decimals, and the noise scale that OpenDP certifies for it."""

import math
from decimal import Context, Decimal, Inexact, InvalidOperation
from numbers import Real
from typing import Any

from noisewise.errors import UnsupportedCombination

DIGITS = 50
"""Of an epsilon. With its size between 1e-100 and 1e100, sums of any number of them are exact in 400 digits."""
_EXACT = Context(prec=400, traps=[InvalidOperation, Inexact])


def exact_epsilon(value: float | int | str | Decimal, name: str = "epsilon") -> Decimal:
    """epsilon as the decimal that a person wrote: 0.1 is one tenth, not the nearest binary fraction."""
    if isinstance(value, bool) or not isinstance(value, (str, Real, Decimal)):  # not shown: it may be a column given by mistake
        raise ValueError(f"{name} must be a number, got {type(value).__name__}.")
    try:
        epsilon = value if isinstance(value, Decimal) else Decimal(repr(float(value)) if isinstance(value, float) else str(value))
    except InvalidOperation:
        raise ValueError(f"{name} must be a number with a decimal point, such as 0.5; got {value!r}.") from None
    if not epsilon.is_finite() or epsilon <= 0:
        raise ValueError(f"{name} must be a positive number, got {value}; smaller is more private, and 0 would release nothing.")
    if not Decimal("1e-100") < epsilon < Decimal("1e100") or len(epsilon.as_tuple().digits) > DIGITS:
        raise ValueError(f"{name} must lie between 1e-100 and 1e100 and have at most {DIGITS} digits.")
    return epsilon


def compose(*epsilons: Decimal) -> Decimal:
    """The cost of several pure-epsilon releases about the same people: their exact sum."""
    total = Decimal(0)
    for epsilon in epsilons:
        total = _EXACT.add(total, epsilon)
    return total


def half(epsilon: Decimal) -> Decimal:
    """Exactly half, whatever decimal context the caller has set."""
    return _EXACT.divide(epsilon, Decimal(2))


def remaining(limit: Decimal, spent: Decimal) -> Decimal:
    """limit - spent, exactly."""
    return _EXACT.subtract(limit, spent)


def text(epsilon: Decimal) -> str:
    """The decimal in plain digits, without an exponent or trailing zeros."""
    plain = format(epsilon, "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain


def smallest_scale(measurement: Any, distance: int, epsilon: Decimal, start: float) -> float:
    """The smallest float for which OpenDP's map of `measurement(scale)` stays within epsilon at the given distance."""

    def certified(scale: float) -> bool:
        return Decimal(measurement(scale).map(distance)) <= epsilon

    if not 0 < start < math.inf:
        raise UnsupportedCombination("the noise for this epsilon is beyond 64-bit numbers; raise epsilon or narrow the bounds.")
    scale = start
    while not certified(scale):
        scale = math.nextafter(scale, math.inf)
    while (below := math.nextafter(scale, 0.0)) > 0 and certified(below):
        scale = below
    return scale
