"""The noise of a real release, drawn by OpenDP from the operating system's randomness. There is no
seed.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.privacy import Cost, quotient, smallest_scale, within

INT64 = 2**63
MOST_SUM = 2**62
"""A sum whose size is not public is clipped here, before its noise."""
ABOVE = 1 + 1e-15
"""More than what a few roundings to the nearest float can take away."""
HEADROOM = 200
"""OpenDP saturates at 64 bits. Noise beyond this many scales has probability e^-200."""


@cache
def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


def _laplace(scale: float) -> Any:
    dp = _opendp()
    return dp.m.make_laplace(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale
    )


def _gaussian(scale: float) -> Any:
    dp = _opendp()
    return dp.m.make_gaussian(
        dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale
    )


def _noisy_min(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    return dp.m.make_noisy_max(*space, dp.max_divergence(), scale=scale, negate=True)


def laplace_scale(sensitivity: int, epsilon: Decimal) -> float:
    """The smallest scale, in lattice steps, at which integer Laplace noise is certified
    epsilon-private.
    """
    start = quotient(sensitivity, epsilon)
    _check_size(start)
    return smallest_scale(_laplace, sensitivity, epsilon, start)


def gaussian_scale(squared: int, rho: Decimal) -> float:
    """The smallest sd parameter, in lattice steps, at which integer normal noise is certified
    rho-zCDP; `squared` is L2 squared.
    """
    distance = math.sqrt(squared) * ABOVE
    start = distance / math.sqrt(2 * float(rho))
    _check_size(start)
    return smallest_scale(_gaussian, distance, rho, start)


def _check_size(scale: float) -> None:
    if not scale * HEADROOM < INT64 - MOST_SUM:
        raise UnsupportedCombination(
            "the noise for this cost does not fit in 64-bit whole numbers; raise epsilon or rho, "
            "or narrow the bounds."
        )


def concentrated_within(epsilon: Decimal, delta: Decimal) -> Cost:
    """The largest rho, to six digits, that OpenDP certifies to imply (epsilon, delta)-privacy.

    The conversion is that of Canonne, Kamath & Steinke (2020), tighter than epsilon = rho + 2
    sqrt(rho log(1/delta)).
    """
    dp = _opendp()
    profile = dp.c.make_zCDP_to_approxDP(_gaussian(1.0))

    def certified(rho: Decimal) -> bool:
        return within(
            profile.map(math.sqrt(2 * float(rho)) * ABOVE).epsilon(float(delta) / ABOVE), epsilon
        )

    log = -math.log(float(delta))
    start = (math.sqrt(log + float(epsilon)) - math.sqrt(log)) ** 2  # by the looser formula
    low, high = _six_digits(start / 2), _six_digits(start * 8)
    if not certified(low) or certified(high):
        raise UnsupportedCombination(
            "epsilon and delta are too small or too large to convert; give --rho instead."
        )
    for _ in range(40):
        middle = _six_digits((float(low) + float(high)) / 2)
        low, high = (middle, high) if certified(middle) else (low, middle)
    return Cost("rho", low)


def _six_digits(value: float) -> Decimal:
    return Decimal(f"{value:.5e}")


def check_headroom(n: int, ranges: Sequence[tuple[int, int]], scale: float) -> None:
    """Refuse, from public numbers alone, sums that with their noise could pass 63 bits."""
    widest = max(hi - lo for lo, hi in ranges)
    if n * widest + math.ceil(HEADROOM * scale) >= INT64:
        raise UnsupportedCombination(
            f"{n} records over {widest} lattice steps do not fit in 63 bits with their noise; "
            "narrow the bounds, "
            "raise epsilon, or release parts of the records."
        )


def add_noise(sums: Sequence[int], scale: float, gaussian: bool = False) -> list[int]:
    """The sums plus independent discrete noise: P(k) proportional to exp(-|k|/scale), or to
    exp(-k^2/2 scale^2).
    """
    if not scale > 0:
        raise ValueError("scale must be positive; OpenDP would take 0 and add no noise.")
    return [int(value) for value in (_gaussian if gaussian else _laplace)(scale)(list(sums))]


def private_argmin(scores: Sequence[int], sensitivity: int, epsilon: Decimal) -> int:
    """The index of a small score, by report-noisy-min at cost epsilon.

    OpenDP adds exponential noise for this (permute-and-flip, McKenna and Sheldon 2020), which is
    never worse than the exponential mechanism of Smith (2011) at the same epsilon.
    """
    start = quotient(2 * sensitivity, epsilon)
    return int(_noisy_min(smallest_scale(_noisy_min, sensitivity, epsilon, start))(list(scores)))
