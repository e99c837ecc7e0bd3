"""How far one record can move whole-number statistics. Nothing here is rounded.

Neighbouring tables differ in one record. Where it is replaced by another, what counts is the
largest distance between the contributions of two records; where it is added or removed, the largest
size of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray


@final
@dataclass(frozen=True, slots=True)
class Size:
    """The size of a difference in both norms: L1, and the square of L2, a whole number too."""

    l1: int
    l2_squared: int


@final
@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Upper bounds on what one record changes, offsets included."""

    pair: Size
    """Of the difference between the contributions of any two records."""
    record: Size
    """Of the contribution of any one record."""

    @classmethod
    def of_ranges(cls, ranges: Sequence[tuple[int, int]]) -> "Sensitivity":
        """What holds of any statistics within these ranges. For one statistic it is tight."""
        widths = [high - low for low, high in ranges]
        sizes = [max(abs(low), abs(high)) for low, high in ranges]
        return cls(
            pair=Size(sum(widths), sum(width**2 for width in widths)),
            record=Size(sum(sizes), sum(size**2 for size in sizes)),
        )


def largest_l1(first: NDArray[Any], second: NDArray[Any]) -> int:
    """The largest L1 distance between two points (first[i], second[i]): tight.

    It is the larger of the ranges of first + second and of first - second.
    """
    return max(int(np.ptp(first + second)), int(np.ptp(first - second)))


def parabola_diameter_squared(top: int) -> int:
    """A bound on (k - l)^2 + (q(k) - q(l))^2 over -top <= k, l <= top, q being k^2/top rounded.

    One sweep over s = |k + l|: |k - l| <= 2 top - s, and |q(k) - q(l)| <= |k - l| s / top + 1 with
    the roundings; s = 0 means q(k) = q(l).
    """
    s = np.arange(0, 2 * top + 1, dtype=np.int64)
    d = 2 * top - s
    q = -(-(d * s) // top) + (s > 0)
    return int((d * d + q * q).max())
