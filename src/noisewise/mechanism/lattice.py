"""From a record's value to the whole numbers that are summed: the one definition that decides the
sensitivity.

Each lattice is frozen public data. `integers(x, xp)` runs on NumPy arrays (studies, tests) and,
with the curator's namespace in place of NumPy, inside a database; x is a float column in which NaN,
or a database's NULL, stands for a missing record (so a condition is phrased to be true of what is
present: NULL is not true). Whatever x is, the result lies in the declared integer ranges, because
the last step before the sum is a clip. Sums of integers are exact in any order, so the sensitivity
that `sensitivity` computes holds for the sums as they are.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.model.arrays import Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.families.categorical import Categorical
from noisewise.model.family import Family

RESOLUTION = 20
"""A continuous statistic has about 2^20 lattice steps over its range."""


class Lattice(ABC):
    """The integer statistic of one record, d numbers, and what they mean in the release's
    coordinates.
    """

    coordinates: ClassVar[str] = "plain"

    @property
    @abstractmethod
    def step(self) -> tuple[float, ...]:
        """The released statistic is step times the integer, for each statistic."""

    @property
    @abstractmethod
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """The least and the greatest contribution of a record to each statistic."""

    @property
    def offset(self) -> tuple[int, ...]:
        """What every record contributes at least; `integers` leaves it out, so that sums stay
        small.
        """
        return (0,) * len(self.ranges)

    @abstractmethod
    def integers(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        """A record's contribution to each statistic, less the offset."""


@final
@dataclass(frozen=True, slots=True)
class Plain(Lattice):
    """Each statistic t_j(clip(x)) rounded on its own lattice and clipped to its own range [low_j,
    high_j].
    """

    family: Family
    lower: float
    upper: float
    redact: bool
    missing: float | None  # the value that a missing record stands for; None under redact
    steps: tuple[float, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def step(self) -> tuple[float, ...]:
        return self.steps

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        pairs = zip(self.low, self.high, strict=True)
        return tuple((min(lo, 0), max(hi, 0)) if self.redact else (lo, hi) for lo, hi in pairs)

    @property
    def offset(self) -> tuple[int, ...]:
        return (0,) * len(self.low) if self.redact else self.low

    def integers(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return self.rounded(x, self.family.statistic(self.within(x, xp), xp), xp)

    def within(self, x: Any, xp: Namespace = np) -> Any:
        """The value within the bounds that a record's statistic is taken of, whatever
        the record.
        """
        known = self._known(x, xp)
        return xp.where(
            known < self.lower, self.lower, xp.where(known > self.upper, self.upper, known)
        )

    def rounded(self, x: Any, statistic: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """The integers of a record x, given the statistic of the value within the bounds."""
        if self.redact:
            known = self._known(x, xp)
            counts = self._present(x, xp) & (known >= self.lower) & (known <= self.upper)
        columns = []
        for t, step, lo, hi in zip(statistic, self.steps, self.low, self.high, strict=True):
            k = xp.floor(xp.where(xp.isfinite(t), t, lo * step) * (1 / step) + 0.5)
            k = xp.astype(xp.where(k < lo, float(lo), xp.where(k > hi, float(hi), k)), "int64")
            columns.append(xp.where(counts, k, 0) if self.redact else k - lo)
        return tuple(columns)

    def _present(self, x: Any, xp: Namespace) -> Any:
        present = ~xp.isnan(x)
        if self.family.bounded:  # a Bernoulli record that is neither 0 nor 1 is missing
            present = present & ((x == self.lower) | (x == self.upper))
        return present

    def _known(self, x: Any, xp: Namespace) -> Any:
        return xp.where(
            self._present(x, xp), x, self.lower if self.missing is None else self.missing
        )


@final
@dataclass(frozen=True, slots=True)
class Standardised(Lattice):
    """(u, u^2) of u = (x - centre)/radius, both computed in integers from one rounded k = u 2^19.

    The second statistic is k^2 / 2^19, rounded: its range is that of k, and one step serves both.
    """

    coordinates: ClassVar[str] = "standardised"
    TOP: ClassVar[int] = 1 << (RESOLUTION - 1)
    lower: float
    upper: float
    redact: bool
    missing: float | None

    @property
    def step(self) -> tuple[float, ...]:
        return (1 / self.TOP, 1 / self.TOP)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((-self.TOP, self.TOP), (0, self.TOP))

    def integers(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        top = float(self.TOP)
        centre, radius = (self.lower + self.upper) / 2, (self.upper - self.lower) / 2
        known = xp.where(~xp.isnan(x), x, centre if self.missing is None else self.missing)
        k = xp.floor((known - centre) * (top / radius) + 0.5)
        k = xp.where(k < -top, -top, xp.where(k > top, top, k))
        # the centre of the bounds is k = 0, so a missing record is redacted already
        if self.redact:
            k = xp.where((known >= self.lower) & (known <= self.upper), k, 0.0)
        return self.powers(xp.astype(k, "int64"), xp)

    def powers(self, k: Any, xp: Namespace = np) -> tuple[Any, Any]:
        """The two statistics of the lattice point k."""
        return k, xp.right_shift(k * k + self.TOP // 2, RESOLUTION - 1)


@final
@dataclass(frozen=True, slots=True)
class Counts(Lattice):
    """How many records have each of K labels; x is the index of the label."""

    family: Categorical

    @property
    def step(self) -> tuple[float, ...]:
        return (1.0,) * len(self.family.labels)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((0, 1),) * len(self.family.labels)

    def integers(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return tuple(xp.astype(x == j, "int64") for j in range(len(self.family.labels)))


def lattice_for(
    family: Family, bounds: Bounds | None, missing: float | bool | None = None
) -> Lattice:
    """The lattice of a family within its bounds. `missing` is the value that a missing record
    stands for.
    """
    family.check_bounds(bounds)
    if isinstance(family, Categorical):
        if missing is not None:
            raise UnsupportedCombination(
                "the categorical family takes other= for missing records, not missing=."
            )
        return Counts(family)
    if bounds is None:  # the Bernoulli
        if not (missing is None or (isinstance(missing, Real) and missing in (0, 1))):
            raise UnsupportedCombination(f"missing must be 0 or 1 for the {family.kind} family.")
        return Plain(family, 0.0, 1.0, False, float(missing or 0), (1.0,), (0,), (1,))
    redact = bounds.outside == "redact"
    substitute = _substitute(family, bounds, missing)
    if family.polynomial:
        return Standardised(bounds.lower, bounds.upper, redact, substitute)
    lower, upper = (
        (math.ceil(bounds.lower), math.floor(bounds.upper))
        if family.integer
        else (bounds.lower, bounds.upper)
    )
    steps, low, high = _own_lattices(family, float(lower), float(upper), redact)
    return Plain(family, float(lower), float(upper), redact, substitute, steps, low, high)


def _substitute(family: Family, bounds: Bounds, missing: float | bool | None) -> float | None:
    if bounds.outside == "redact":
        if missing is not None:
            raise UnsupportedCombination(
                "under redact a missing record contributes 0; leave "
                "missing= out, or use outside='clamp'."
            )
        return None
    if missing is not None and not isinstance(missing, Real):
        raise UnsupportedCombination(f"missing must be a number, got {type(missing).__name__}.")
    value = (bounds.lower + bounds.upper) / 2 if missing is None else float(missing)
    if family.integer and missing is not None and value != math.floor(value):
        raise UnsupportedCombination(
            f"missing must be a whole number for the {family.kind} family, got {missing}."
        )
    if not bounds.lower <= value <= bounds.upper:  # NaN fails too
        raise UnsupportedCombination(
            f"missing must lie within the bounds, got {missing}; a "
            "missing record stands for that value."
        )
    return (
        float(min(max(math.floor(value), math.ceil(bounds.lower)), math.floor(bounds.upper)))
        if family.integer
        else value
    )


def _own_lattices(
    family: Family, lower: float, upper: float, redact: bool
) -> tuple[tuple[float, ...], tuple[int, ...], tuple[int, ...]]:
    """Step and integer range of each statistic over [lower, upper].

    The range is a search over public values of x. Were it too narrow, the statistic would be
    clipped there; the sensitivity stays proven, since it is that of the clipped integers.
    """
    x = np.linspace(lower, upper, 2**14 + 1)
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
                f"a statistic of the {family.kind} family is nowhere "
                "finite within the bounds; move them."
            )
        least, most = float(t.min()), float(t.max())
        span = max(most, 0.0) - min(least, 0.0) if redact else most - least
        if not 1e-290 < span < 1e290:
            raise UnsupportedCombination(
                f"a statistic of the {family.kind} family spans {span:g} within the bounds; give "
                "the column in other units."
            )
        # No finer than the floats themselves: every k stays below 2^51, exact as a float.
        finest = max(math.log2(span) - RESOLUTION, math.log2(max(abs(least), abs(most))) - 50)
        step = 1.0 if family.integer else 2.0 ** math.ceil(finest)
        low.append(math.floor(least / step + 0.5))
        high.append(math.floor(most / step + 0.5))
        if low[-1] == high[-1] or max(-low[-1], high[-1]) > 2**51:
            raise UnsupportedCombination(
                f"the bounds of the {family.kind} family are too large or too close together for "
                "64-bit numbers."
            )
        steps.append(step)
    return tuple(steps), tuple(low), tuple(high)
