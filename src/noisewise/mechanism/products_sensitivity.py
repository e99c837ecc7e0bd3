"""How far one record can move the sums of several columns and of their products.

Real numbers first, as exact fractions; then whole ones, with a step for each product that is
rounded. The theorem and its proof stand in docs/mathematics.md ("Several columns").
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import final

from noisewise.mechanism.sensitivity import Sensitivity, Size

LESS = Fraction(1, 2)
"""What every record that counts subtracts from its squares: a square then lies between -1/2 and
1/2, and the difference between a record that counts and one that does not is no larger than that
between two that do, with a count of the records besides.
"""
ROOM = Fraction(1, 20)
"""The count takes at least this share of what a record moves otherwise."""
HALF = Fraction(1, 2)
"""And it weighs at least half of what a column does."""
Exact = tuple[Fraction, Fraction]
"""A size in L1, and the square of one in L2."""


@final
@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of the factors where one record takes another's place: how many keep a level
    after the first (same), go from one such level to another (other), leave one for the first
    level (left), or come from there (came). There are at least as many that leave as come.
    """

    same: int
    other: int
    left: int
    came: int

    @property
    def indicators(self) -> int:
        """How many indicators change, and products of two: each by 1."""
        before = self.same + self.other + self.left
        after = self.same + self.other + self.came
        products = math.comb(before, 2) + math.comb(after, 2) - 2 * math.comb(self.same, 2)
        return 2 * self.other + self.left + self.came + products


def changes(two: int, more: int) -> Iterator[Change]:
    """Of factors with two levels, and with more than two."""
    factors = two + more
    for other in range(more + 1):
        for same in range(factors - other + 1):
            for left in range(factors - other - same + 1):
                for came in range(min(left, factors - other - same - left) + 1):
                    yield Change(same, other, left, came)


@cache
def exact_pair(numbers: int, two: int, more: int) -> Exact:
    """The largest distance between two records of so many numeric columns and factors; tight in L1,
    and in L2 up to 1 in its square where there are factors.
    """
    sizes = [_distance(numbers, change) for change in changes(two, more)]
    return max(l1 for l1, _ in sizes), max(l2 for _, l2 in sizes)


def _distance(q: int, change: Change) -> Exact:
    first, second = change.other + change.left, change.other + change.came
    fixed = Fraction(change.indicators + first * q)
    return (
        fixed + _largest_l1(q, change.same, second),
        fixed + _largest_l2(q, change.same, second),
    )


def _largest_l1(q: int, same: int, second: int) -> Fraction:
    """The largest c M - 2 M^2 - 2 sum m_j^2 + second sum |1 - 2 m_j| over 0 <= m_j <= 1, M being
    their sum and c = 2 q + 4 + 2 same.

    Either side of 1/2 it is concave and symmetric, so that r of the m_j equal x <= 1/2 and the
    others y >= 1/2. Its gradient vanishes in x and y at once only where y = x + second, on the
    border of the square; so the largest value lies on the border.
    """
    c, low, high = Fraction(2 * q + 4 + 2 * same), Fraction(1, 2), Fraction(1)
    best = Fraction(0)
    for r in range(q + 1):
        s = q - r
        points = []
        for x in (Fraction(0), low):
            y = (c + 2 * second - 4 * r * x) / (4 * (s + 1))
            points.append((x, min(max(y, low), high)))
        for y in (low, high):
            x = (c - 2 * second - 4 * s * y) / (4 * (r + 1))
            points.append((min(max(x, Fraction(0)), low), y))
        for x, y in points:
            total = r * x + s * y
            spread = second * (r * (1 - 2 * x) + s * (2 * y - 1))
            best = max(best, c * total - 2 * total**2 - 2 * (r * x**2 + s * y**2) + spread)
    return best


def _largest_l2(q: int, same: int, second: int) -> Fraction:
    """No less than the largest q (q + 3)/2 + 1 - (1 + V)^2 + (Q^2 + R)/2 + same (q - 2 V + Q) +
    second Q over -1 <= v_j <= 1, with V, Q and R the sums of v_j, v_j^2 and v_j^4.
    """
    if q == 0:
        return Fraction(0)
    if same == second == 0:  # tight: V is a whole number with the parity of q
        return Fraction((q + 1) ** 2 - (q % 2 == 0))
    v = max(-1 - same, -q)
    sides = Fraction(q * (q + 3), 2) + 1 + Fraction(q * (q + 1), 2)
    return sides - (1 + v) ** 2 + same * (2 * q - 2 * v) + second * q


def exact_record(numbers: int, factors: int, less: Fraction = LESS) -> Exact:
    """The largest size of one record: every |u_j| = 1, every factor at a level after the first."""
    q, k = numbers, factors
    first = Fraction(q + k + math.comb(q, 2) + q * k + math.comb(k, 2))
    return first + q * (1 - less), first + q * (1 - less) ** 2


@cache
def products_sensitivity(numbers: int, two: int, more: int, top: int) -> Sensitivity:
    """In whole numbers, of columns between -top and top, whose products are rounded."""
    rounded = math.comb(numbers + 1, 2)
    return Sensitivity(
        pair=_whole(exact_pair(numbers, two, more), rounded, top),
        record=_whole(exact_record(numbers, two + more), rounded, top),
    )


def _whole(exact: Exact, rounded: int, top: int) -> Size:
    """The same in lattice steps: a rounded product moves by less than one step more than the
    product itself, and all of them by less than the root of their number in L2.
    """
    l1, l2 = exact[0] * top, exact[1] * top**2
    cross = math.isqrt(math.ceil(4 * l2 * rounded)) + 1 if rounded else 0
    return Size(math.floor(l1) + rounded, math.ceil(l2) + cross + rounded)


@cache
def room_for_count(numbers: int, factors: int, top: int) -> Size:
    """What a count of the records may add to the size of a record, at least: as much as the squares
    would without LESS, and enough to be of use.
    """
    record, plain = exact_record(numbers, factors), exact_record(numbers, factors, Fraction(0))
    l1 = max(plain[0] - record[0], ROOM * record[0], HALF)
    l2 = max(plain[1] - record[1], ROOM * record[1], HALF**2)
    return Size(math.floor(l1 * top), math.floor(l2 * top**2))
