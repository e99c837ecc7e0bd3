"""Where a falling curve crosses a line, with as few points of it as need be."""

import math
from collections.abc import Callable

STEP = 4.0
"""How far beyond the known points one more is looked at, as a factor."""
NEAR = 2.0
"""Points no further apart than this factor are joined by a power law."""


def crossing(
    width_at: Callable[[float], float],
    target: float,
    known: list[float],
    limits: tuple[float, float],
) -> float | None:
    """The x at which a width that falls with x comes down to `target`; None where it does not
    within the limits, and the lower limit where it is below the target even there.

    `known` are points where width_at is cheap. Between two near ones log width is a straight line
    in log x.
    """
    low, high = limits
    points = sorted({min(max(x, low), high) for x in known})
    above = [x for x in points if width_at(x) > target]
    below = [x for x in points if width_at(x) <= target and (not above or x > max(above))]
    a = max(above) if above else None
    b = min(below) if below else None
    while b is None:
        assert a is not None
        if a >= high:
            return None
        step = min(a * STEP, high)
        a, b = (step, None) if width_at(step) > target else (a, step)
    while a is None:
        if b <= low:
            return low
        step = max(b / STEP, low)
        a, b = (step, b) if width_at(step) > target else (None, step)
    while b / a > NEAR:
        middle = math.sqrt(a * b)
        a, b = (middle, b) if width_at(middle) > target else (a, middle)
    of_a, of_b = math.log(width_at(a)), math.log(width_at(b))
    share = 1.0 if not math.isfinite(of_a) else (of_a - math.log(target)) / (of_a - of_b)
    return float(math.exp(math.log(a) + share * math.log(b / a)))
