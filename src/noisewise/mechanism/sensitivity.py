"""How far one record can move the integer statistics. Everything is a whole number, so nothing here
is rounded.

Neighbours replace one record by another: `l1` and `l2_squared` are the largest distance between two
contributions. Or they add or remove one: `l1_of_record` and `l2_squared_of_record` are the largest
size of one.
"""

import math
from functools import lru_cache

import numpy as np

from noisewise.mechanism.lattice import Counts, Lattice, Standardised


def l1(lattice: Lattice) -> int:
    """max over record pairs of the L1 distance.

    For counts it is 2. For powers of one k it is the largest range of a signed sum t1 + t2 or t1 -
    t2 over every k of the lattice, tight. For statistics on lattices of their own it is the sum of
    their ranges, which holds whatever the statistics are, and is tight for one.
    """
    if isinstance(lattice, Counts):
        return 2
    if isinstance(lattice, Standardised):
        return _signed_sweep(lattice)
    return sum(hi - lo for lo, hi in lattice.ranges)


def l2_squared(lattice: Lattice) -> int:
    """The square of the largest L2 distance between two records: tight for one statistic, for
    counts and for (u, u^2).

    For several statistics on lattices of their own it is the upper bound that their ranges give.
    """
    if isinstance(lattice, Counts):
        return 2
    if isinstance(lattice, Standardised):
        return _parabola_diameter(lattice.TOP)
    return sum((hi - lo) ** 2 for lo, hi in lattice.ranges)


def l1_of_record(lattice: Lattice) -> int:
    """The largest L1 norm of what one record contributes, the offset included. Tight for one
    statistic, counts and (u, u^2).
    """
    if isinstance(lattice, Counts):
        return 1
    return sum(max(abs(lo), abs(hi)) for lo, hi in lattice.ranges)


def l2_squared_of_record(lattice: Lattice) -> int:
    """The square of the largest L2 norm of what one record contributes."""
    if isinstance(lattice, Counts):
        return 1
    return sum(max(abs(lo), abs(hi)) ** 2 for lo, hi in lattice.ranges)


def of_release(lattice: Lattice, neighbours: str, gaussian: bool) -> tuple[int, int]:
    """How many steps a record adds to the released count (0 without one), and how far it moves all:
    L1, or L2 squared.

    Where n is not public, a record moves the count, in steps of 1/weight, as far as it can move the
    statistics: half of the budget goes to each. The counts of a categorical add up to a noisy count
    by themselves. Neighbours "move" where records are in groups and one may be replaced by one of
    another group: it leaves one and enters the other, or changes within its own.
    """
    within = l2_squared(lattice) if gaussian else l1(lattice)
    if neighbours == "replace_one":
        return 0, within
    if neighbours == "move":
        weight, size = of_release(lattice, "add_remove", gaussian)
        return weight, max(within, 2 * size)
    size = l2_squared_of_record(lattice) if gaussian else l1_of_record(lattice)
    if isinstance(lattice, Counts):
        return 0, size
    weight = math.isqrt(size - 1) + 1 if gaussian else size
    return weight, size + (weight**2 if gaussian else weight)


@lru_cache
def _signed_sweep(lattice: Standardised) -> int:
    # Every lattice point, the redacted record among them: k = 0 gives (0, 0).
    first, second = lattice.powers(np.arange(-lattice.TOP, lattice.TOP + 1, dtype=np.int64))
    return max(int(np.ptp(first + second)), int(np.ptp(first - second)))


@lru_cache
def _parabola_diameter(top: int) -> int:
    """max of (k - l)^2 + (q(k) - q(l))^2 with q the rounded k^2/top, by one sweep over s = |k + l|.

    |k - l| <= 2 top - s, and |q(k) - q(l)| <= |k - l| s / top + 1 with the roundings; s = 0 means
    q(k) = q(l).
    """
    s = np.arange(0, 2 * top + 1, dtype=np.int64)
    d = 2 * top - s
    q = -(-(d * s) // top) + (s > 0)
    return int((d * d + q * q).max())
