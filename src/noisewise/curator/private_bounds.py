"""Bounds chosen with differential privacy: Smith's private quantile (2011) over public candidates,
from counts alone.
"""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import accumulate
from typing import final

from noisewise.curator.sums import Rows
from noisewise.mechanism.opendp import private_argmin
from noisewise.mechanism.privacy import half
from noisewise.model.bounds import CANDIDATES, Bounds, PrivateBounds

FINEST = 10**6
"""The denominator of a quantile is no greater: a score is then a whole number of moderate size."""


@final
@dataclass(frozen=True, slots=True)
class Grid:
    """Evenly spaced public candidates lower, lower + width, ...; whole numbers for integer
    families.
    """

    lower: float
    width: float
    size: int

    @classmethod
    def over(cls, wanted: PrivateBounds, integer: bool) -> "Grid":
        if not integer:
            return cls(wanted.lower, (wanted.upper - wanted.lower) / (CANDIDATES - 1), CANDIDATES)
        lower, upper = math.ceil(wanted.lower), math.floor(wanted.upper)
        width = max(1, math.ceil((upper - lower) / (CANDIDATES - 1)))
        return cls(float(lower), float(width), (upper - lower) // width + 1)

    def __getitem__(self, index: int) -> float:
        return self.lower + index * self.width


def below(rows: Rows, grid: Grid) -> tuple[int, int, list[int]]:
    """n, the number of records that are not missing, and for each candidate c the number of records
    x < c.
    """
    # bin i holds the x with i candidates at or below them
    n, bins = rows.bin_counts(grid.lower, grid.width, grid.size)
    return n, sum(bins), list(accumulate(bins))[: grid.size]


def choose(
    valid: int,
    counts: list[int],
    grid: Grid,
    wanted: PrivateBounds,
    epsilon: Decimal,
    records_per_person: int,
) -> Bounds:
    """Draw both quantiles, each at half of epsilon. Crossed or equal results widen to adjacent
    candidates.
    """
    low, high = (
        _quantile(counts, valid, q, half(epsilon), records_per_person) for q in wanted.quantiles
    )
    low, high = (low, high) if low < high else (max(high - 1, 0), min(low + 1, grid.size - 1))
    return Bounds(grid[low], min(grid[high], wanted.upper), outside=wanted.outside)


def _quantile(
    counts: list[int], valid: int, quantile: float, epsilon: Decimal, records_per_person: int
) -> int:
    """The index of a candidate with about quantile * valid records below it.

    score = |d * below - p * valid| for the quantile p/d. Replacing one record changes `below` and
    `valid` by at most 1 each, and their difference d * below - p * valid by at most d.
    """
    q = Fraction(repr(quantile)).limit_denominator(FINEST)
    scores = [abs(q.denominator * count - q.numerator * valid) for count in counts]
    return private_argmin(scores, q.denominator * records_per_person, epsilon)
