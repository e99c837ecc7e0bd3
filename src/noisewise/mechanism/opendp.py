"""What OpenDP does for us: it certifies what a noise costs, and draws the noise of a real release
from the operating system's randomness. There is no seed.
"""

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any

from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.privacy import Cost, quotient, within

Measurement = Callable[[float], Any]
"""Makes OpenDP's measurement, the one that adds the noise, for a scale in lattice steps."""
INT64 = 2**63
"""OpenDP's whole numbers lie below this, and saturate there."""
MOST_SUM = 2**62
"""A sum whose size is not public is clipped here, before its noise, which has the other half."""
HEADROOM = 200
"""The room for noise, in scales of it. It goes beyond with probability e^-200: never."""
ABOVE = 1 + 1e-15
"""More than what a few roundings to the nearest float can take away."""


@cache
def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


def laplace(scale: float) -> Any:
    """Whole numbers plus independent noise k, P(k) proportional to exp(-|k|/scale)."""
    dp = _opendp()
    return dp.m.make_laplace(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale
    )


def gaussian(scale: float) -> Any:
    """Whole numbers plus independent noise k, P(k) proportional to exp(-k^2/2 scale^2)."""
    dp = _opendp()
    return dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale
    )


def noisy_min(scale: float) -> Any:
    """The index of a small one among whole numbers."""
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    return dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale, negate=True)


def smallest_scale(
    measurement: Measurement, distance: float, amount: Decimal, start: float
) -> float:
    """The smallest float at which OpenDP certifies that the measurement costs no more than that for
    inputs at that distance. The search begins at `start`, a float or two away from it.
    """

    def certified(scale: float) -> bool:
        return within(measurement(scale).map(distance), amount)

    if not 0 < start < math.inf:
        raise UnsupportedCombination(
            "the noise for this cost is beyond 64-bit numbers; raise it, or narrow the bounds."
        )
    scale = start
    while not certified(scale):
        scale = math.nextafter(scale, math.inf)
    while (below := math.nextafter(scale, 0.0)) > 0 and certified(below):
        scale = below
    return scale


def check_scale(scale: float) -> None:
    """Refuse noise that does not fit in 64 bits beside a sum of MOST_SUM."""
    if not scale * HEADROOM < INT64 - MOST_SUM:
        raise UnsupportedCombination(
            "the noise for this cost does not fit in 64-bit whole numbers; raise epsilon or rho, "
            "or narrow the bounds."
        )


def check_headroom(n: int, ranges: Sequence[tuple[int, int]], scale: float) -> None:
    """Refuse, from public numbers alone, sums that with their noise could pass 63 bits."""
    widest = max(hi - lo for lo, hi in ranges)
    if n * widest + math.ceil(HEADROOM * scale) >= INT64:
        raise UnsupportedCombination(
            f"{n} records over {widest} lattice steps do not fit in 63 bits with their noise; "
            "narrow the bounds, raise epsilon, or release parts of the records."
        )


def draw(measurement: Measurement, sums: Sequence[int], scale: float) -> list[int]:
    """The sums plus noise."""
    if not scale > 0:
        raise ValueError("scale must be positive; OpenDP would take 0 and add no noise.")
    return [int(value) for value in measurement(scale)(list(sums))]


def private_argmin(scores: Sequence[int], sensitivity: int, epsilon: Decimal) -> int:
    """The index of a small score, by report-noisy-min at cost epsilon.

    OpenDP adds exponential noise for this (permute-and-flip, McKenna and Sheldon 2020), which is
    never worse than the exponential mechanism of Smith (2011) at the same epsilon.
    """
    start = quotient(2 * sensitivity, epsilon)
    return int(noisy_min(smallest_scale(noisy_min, sensitivity, epsilon, start))(list(scores)))


@lru_cache(maxsize=256)
def concentrated_within(epsilon: Decimal, delta: Decimal) -> Cost:
    """The largest rho, to six digits, that OpenDP certifies to imply (epsilon, delta)-privacy.

    The conversion is that of Canonne, Kamath & Steinke (2020), tighter than epsilon = rho + 2
    sqrt(rho log(1/delta)).
    """
    profile = _opendp().c.make_zCDP_to_approxDP(gaussian(1.0))

    def certified(rho: Decimal) -> bool:
        implied = profile.map(math.sqrt(2 * float(rho)) * ABOVE).epsilon(float(delta) / ABOVE)
        return within(implied, epsilon)

    log = -math.log(float(delta))
    start = (math.sqrt(log + float(epsilon)) - math.sqrt(log)) ** 2  # by the looser formula
    low, high = _six_digits(start / 2), _six_digits(start * 8)
    if not certified(low) or certified(high):
        raise UnsupportedCombination(
            "epsilon and delta are too small or too large to convert; give --rho instead."
        )
    while low < (middle := _six_digits((float(low) + float(high)) / 2)) < high:
        low, high = (middle, high) if certified(middle) else (low, middle)
    return Cost("rho", low)


def _six_digits(value: float) -> Decimal:
    return Decimal(f"{value:.5e}")
