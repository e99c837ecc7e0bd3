"""How finely a statistic is rounded: the step and the integer range of each, from public bounds."""

import math

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model.family import Family

RESOLUTION = 20
"""A continuous statistic has about 2^20 lattice steps over its range: fine enough for the rounding
to vanish beside the noise of any cost that protects, and coarse enough for the sums of 2^42 records
to fit in 63 bits.
"""
PROBES = 2**14 + 1
"""At so many evenly spaced values within the bounds a statistic is looked at, for its range."""
FLOAT_BITS = 50
"""A whole number of at most so many bits and one is exact as a float, with room to round it."""
SPAN = (1e-290, 1e290)
"""A statistic's span lies between them: its lattice step is then an ordinary float."""


def lattices_of(
    family: Family, lower: float, upper: float, redact: bool
) -> tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]:
    """Step and integer range of each statistic over [lower, upper].

    The range is a search over public values of x. Were it too narrow, the statistic would be
    clipped there; the sensitivity stays proven, since it is that of the clipped integers.
    """
    x = np.linspace(lower, upper, PROBES)
    steps, low, high = [], [], []
    with np.errstate(all="ignore"):
        columns = family.statistic(x, np)
    if not isinstance(columns, tuple):
        raise UnsupportedCombination(
            f"the statistic of the {family.kind} family must return a tuple, one column for each."
        )
    for column in columns:
        t = np.asarray(column, dtype=float)
        t = t[np.isfinite(t)]
        if t.size == 0:
            raise UnsupportedCombination(
                f"a statistic of the {family.kind} family is nowhere finite within the bounds; "
                "move them."
            )
        least, most = float(t.min()), float(t.max())
        span = max(most, 0.0) - min(least, 0.0) if redact else most - least
        if not SPAN[0] < span < SPAN[1]:
            raise UnsupportedCombination(
                f"a statistic of the {family.kind} family spans {span:g} within the bounds; give "
                "the column in other units."
            )
        # no finer than the floats themselves
        largest = math.log2(max(abs(least), abs(most)))
        finest = max(math.log2(span) - RESOLUTION, largest - FLOAT_BITS)
        step = 1.0 if family.integer else 2.0 ** math.ceil(finest)
        low.append(math.floor(least / step + 0.5))
        high.append(math.floor(most / step + 0.5))
        if low[-1] == high[-1] or max(-low[-1], high[-1]) > 2 << FLOAT_BITS:
            raise UnsupportedCombination(
                f"the bounds of the {family.kind} family are too large or too close together for "
                "64-bit numbers."
            )
        steps.append(step)
    return tuple(steps), tuple(low), tuple(high)
