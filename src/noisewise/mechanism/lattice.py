"""From a record's value to the whole numbers that are summed: the one definition that decides the
sensitivity.

Each lattice is frozen public data. Its stages run on NumPy arrays (studies, tests) and, with the
curator's namespace in place of NumPy, inside a database; x is a float column in which NaN, or a
database's NULL, stands for a missing record (so a condition is phrased to be true of what is
present: NULL is not true). Whatever x is, the result lies in the declared integer ranges, because
the last step before the sum is a clip. The whole numbers are floats until they are summed, and
`most` says how many of them a float can hold the sum of. Sums of whole numbers are exact in any
order, so the sensitivity that a lattice states holds for the sums as they are.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast, final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.missing import (
    DROP,
    DROPPED_LABELS,
    Missing,
    missing_note,
    substitute_for,
)
from noisewise.mechanism.ruler import TOP, Ruler
from noisewise.mechanism.sensitivity import (
    Sensitivity,
    Size,
    largest_l1,
    parabola_diameter_squared,
)
from noisewise.mechanism.steps import lattices_of
from noisewise.model import families
from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.columns import Column
from noisewise.model.families.categorical import Categorical, Label
from noisewise.model.families.moments import Moments
from noisewise.model.families.table import Table
from noisewise.model.family import Family, StatisticKind
from noisewise.model.transformed import Transformed

if TYPE_CHECKING:
    from noisewise.mechanism.products import Cells

Coordinates = Literal["plain", "standardised"]
"""What a released statistic is of: t(x), or (u, u^2) of u = (x - centre)/radius of the bounds."""
Sums = tuple[int, list[int]]
"""n and, for each statistic, the sum of the records' integer contributions less their offsets."""
Stage = Callable[[tuple[Any, ...], Namespace], tuple[Any, ...]]
"""From columns to columns."""
NO_VALUES = np.empty(0)
"""What a lattice tries in the database that lets no family's code run in it."""


class Records(Protocol):
    """What a lattice asks of records, wherever they are; for each group, if they are in groups."""

    def sums_of_integers(self, lattice: "Lattice") -> list[Sums]:
        """The sums of what the lattice's stages give."""

    def counts_of_labels(self, other: int | None) -> list[Sums]:
        """How many have each label; those that have none of them count for the one at `other`, if
        there is one.
        """

    def counts_of_cells(self, lattice: "Cells") -> list[Sums]:
        """How many fall in each cell of a table."""


@final
@dataclass(frozen=True, slots=True)
class Told:
    """Whole numbers that tell all that a record contributes: its columns after so many stages."""

    stages: int
    ranges: tuple[tuple[int, int], ...]
    """The least and the greatest of each."""
    some_missing: bool = False
    """Whether one may be NaN or NULL."""


class Lattice(ABC):
    """The integer statistic of one record, d numbers, and what they mean in the release's
    coordinates.
    """

    adds_up_to_n: ClassVar[bool] = False
    """Whether the statistics are counts of all records, so that their noisy sum is a noisy n."""
    counted: ClassVar[bool] = False
    """Whether the first of a record's integers is 1 if it counts, 0 if not, before its
    statistics.
    """
    tells_n: ClassVar[bool] = True
    """Whether n, where it is public, stands in the release."""

    @property
    def coordinates(self) -> Coordinates:
        """What the released statistics are of."""
        return "plain"

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

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one record can move the statistics: what their ranges allow, or less."""
        return Sensitivity.of_ranges(self.ranges)

    @property
    def room(self) -> Size | None:
        """What the count of a counted lattice may add to the size of a record, at least."""
        return None

    @property
    def width(self) -> int:
        """How many integers a record has."""
        return len(self.step) + self.counted

    @property
    def labels(self) -> tuple[Label, ...]:
        """What a record is matched with; () where it is read as a number."""
        return ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """Where a record is several columns, all of them; () where it is one."""
        return ()

    @property
    def names(self) -> list[str]:
        """Of the statistics, for people."""
        d = len(self.step)
        return ["the statistic"] if d == 1 else [f"statistic {j}" for j in range(1, d + 1)]

    @property
    @abstractmethod
    def note(self) -> str:
        """What becomes of a missing record, for whoever reads the release."""

    @property
    def fallible(self) -> "Plain | None":
        """Itself, where a family's own code computes the statistic, which may fail for a record."""
        return None

    @property
    def trial(self) -> FloatArray:
        """Public values on which to try whether the database computes the same integers."""
        return NO_VALUES

    @property
    def most(self) -> int:
        """The largest size of an integer less its offset."""
        ranges = zip(self.ranges, self.offset, strict=True)
        return max(1, *(max(offset - low, high - offset) for (low, high), offset in ranges))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """From a record's columns to its contribution to each statistic less the offset, as floats
        that are whole: what a stage gives is used more than once by the next, and a database should
        compute it once. () where records are counted instead.
        """
        return ()

    @property
    def told(self) -> Told:
        """The fewest and smallest whole numbers that tell all that a record contributes."""
        pairs = zip(self.ranges, self.offset, strict=True)
        ranges = tuple((low - least, high - least) for (low, high), least in pairs)
        return Told(len(self.stages), ranges)

    def has_value(self, x: Any, xp: Namespace = np) -> Any:
        """Whether a record has one: it is not missing."""
        return ~xp.isnan(x)

    def integers(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        """A record's contribution to each statistic, less the offset."""
        columns: tuple[Any, ...] = tuple(x) if self.columns else (x,)
        for stage in self.stages:
            columns = stage(columns, xp)
        return tuple(xp.astype(k, "int64") for k in columns)

    def query(self, records: Records) -> list[Sums]:
        """Ask records for their sums."""
        return records.sums_of_integers(self)


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

    @property
    def note(self) -> str:
        return missing_note(self.missing)

    @property
    def fallible(self) -> "Plain | None":
        ours = type(self.family).__module__.startswith(families.__name__)
        return None if ours else self

    @property
    def trial(self) -> FloatArray:
        sweep = np.linspace(self.lower, self.upper, 513)
        return np.concatenate([sweep, [0.0, -1.0, np.nan, np.inf, -np.inf]])

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.bounded, self.described, self.rounded, self.points

    def bounded(self, x: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """x, and the value within the bounds of which the statistic is taken, whatever x is."""
        (value,) = x
        return value, self.within(value, xp)

    def within(self, x: Any, xp: Namespace = np) -> Any:
        """The value within the bounds of which the statistic is taken, whatever the record."""
        missing = self.lower if self.missing is None else self.missing
        if self.family.bounded:
            return xp.where(self.has_value(x, xp), x, missing)
        # NaN is below nothing in NumPy, and above infinity in a database
        above = xp.where(x <= math.inf, self.upper, missing)
        return xp.where(x < self.lower, self.lower, xp.where(x <= self.upper, x, above))

    def has_value(self, x: Any, xp: Namespace = np) -> Any:
        """As of any lattice; and a Bernoulli record that is neither 0 nor 1 is missing."""
        if self.family.bounded:
            return (x == self.lower) | (x == self.upper)
        return ~xp.isnan(x)

    def described(self, bounded: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """x, and the statistic."""
        x, within = bounded
        return x, *self.family.statistic(within, xp)

    def rounded(self, described: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """x, the statistic, and the nearest lattice points."""
        x, *statistic = described
        nearest = [
            xp.floor(t * (1 / step) + 0.5) for t, step in zip(statistic, self.steps, strict=True)
        ]
        return x, *statistic, *nearest

    def points(self, rounded: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """The whole numbers; the least one where the statistic is not finite."""
        x, *rest = rounded
        d = len(self.steps)
        columns = []
        for t, k, low, high in zip(rest[:d], rest[d:], self.low, self.high, strict=True):
            lo, hi = float(low), float(high)
            others = xp.where(xp.isfinite(t) & (k > hi), hi, lo)
            # one comparison, and exact: multiples of a half below 2^52
            point = xp.where(xp.abs(k - (lo + hi) / 2) <= (hi - lo) / 2, k, others)
            if self.redact:
                counts = (x >= self.lower) & (x <= self.upper)
                columns.append(xp.where(counts, point, 0.0))
            else:
                columns.append(point - lo)
        return tuple(columns)


@final
@dataclass(frozen=True, slots=True)
class Standardised(Lattice):
    """(u, u^2) of u = (x - centre)/radius, both computed in integers from one rounded k = u 2^19.
    Of a transformed column u = (g(x) - centre)/radius; whatever an engine's g gives, k is clipped.

    The second statistic is k^2 / 2^19, rounded: its range is that of k, and one step serves both.
    """

    TOP: ClassVar[int] = TOP
    lower: float
    upper: float
    redact: bool
    missing: float | None
    column: Transformed | None = None

    @property
    def coordinates(self) -> Coordinates:
        return "standardised"

    @property
    def step(self) -> tuple[float, ...]:
        return (1 / self.TOP, 1 / self.TOP)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((-self.TOP, self.TOP), (0, self.TOP))

    @property
    def sensitivity(self) -> Sensitivity:
        """Tight, but for the two roundings in L2."""
        return _sensitivity_of_powers()

    @property
    def note(self) -> str:
        return missing_note(self.missing)

    @property
    def stages(self) -> tuple[Stage, ...]:
        if self.column is None:
            return self.rounded, self.point, self.powers
        return self.transformed, self.rounded_image, self.point_of_image, self.powers

    @property
    def told(self) -> Told:
        """The lattice point, of which both statistics are computed."""
        return Told(len(self.stages) - 1, ((-self.TOP, self.TOP),))

    @property
    def ruler(self) -> Ruler:
        return Ruler(self.lower, self.upper, self.redact)

    def rounded(self, x: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """x, and the nearest step."""
        (value,) = x
        return value, self.ruler.rounded(value, xp)

    def point(self, rounded: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """The lattice point k. That of the centre is 0, which is what a redacted record gives."""
        absent = 0.0
        if self.missing is not None:
            value = np.float64(self.missing)
            absent = float(self.ruler.point(value, self.ruler.rounded(value), absent))
        x, nearest = rounded
        return (self.ruler.point(x, nearest, absent, xp),)

    @property
    def image(self) -> Ruler:
        """Of g(x) where the column is transformed; what lies outside is told by x itself."""
        assert self.column is not None
        return Ruler(self.column.image(self.lower), self.column.image(self.upper), redact=False)

    def transformed(self, x: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """x, and g of the value within the bounds that it stands for."""
        assert self.column is not None
        (value,) = x
        ends = Bounds(self.lower, self.upper, outside="redact")
        missing = self.column.middle_of(ends) if self.missing is None else self.missing
        known = xp.where(~xp.isnan(value), value, missing)
        within = xp.where(
            known < self.lower, self.lower, xp.where(known > self.upper, self.upper, known)
        )
        return value, self.column.transform(within, xp)

    def rounded_image(self, transformed: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """x, and the nearest step of g(x)."""
        x, z = transformed
        return x, self.image.rounded(z, xp)

    def point_of_image(self, rounded: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """As `point`; a missing record stands for a value within the bounds already."""
        x, nearest = rounded
        k = self.image.point(x, nearest, 0.0, xp)
        if self.redact:
            k = xp.where((x >= self.lower) & (x <= self.upper), k, 0.0)
        return (k,)

    @classmethod
    def powers(cls, point: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, Any]:
        """The two statistics of the lattice point k."""
        (k,) = point
        return k, xp.floor(k * k * (1 / cls.TOP) + 0.5)


@cache
def _sensitivity_of_powers() -> Sensitivity:
    """Over every lattice point, the redacted record among them: k = 0 gives (0, 0)."""
    top = Standardised.TOP
    every = np.arange(-top, top + 1, dtype=float)
    first, second = (k.astype(np.int64) for k in Standardised.powers((every,)))
    pair = Size(largest_l1(first, second), parabola_diameter_squared(top))
    return Sensitivity(pair, Sensitivity.of_ranges(((-top, top), (0, top))).record)


@final
@dataclass(frozen=True, slots=True)
class Counts(Lattice):
    """How many records have each of K labels; x is the index of the label. A record has one of
    them, and a replaced one has another instead: 2 counts change by 1.
    """

    adds_up_to_n: ClassVar[bool] = True
    family: Categorical
    drop: bool = False
    """Whether records that are missing or unlisted contribute nothing."""

    @property
    def tells_n(self) -> bool:  # type: ignore[override]
        return not self.drop

    @property
    def step(self) -> tuple[float, ...]:
        return (1.0,) * len(self.family.labels)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((0, 1),) * len(self.family.labels)

    @property
    def sensitivity(self) -> Sensitivity:
        return Sensitivity(pair=Size(2, 2), record=Size(1, 1))

    @property
    def labels(self) -> tuple[Label, ...]:
        return self.family.labels

    @property
    def names(self) -> list[str]:
        return [f"the count of {label!r}" for label in self.family.labels]

    @property
    def note(self) -> str:
        if self.drop:
            return DROPPED_LABELS
        return f"Records that are missing or unlisted count as {self.family.other!r}."

    def query(self, records: Records) -> list[Sums]:
        other = self.family.other
        return records.counts_of_labels(
            None if self.drop or other is None else self.family.labels.index(other)
        )

    def integers(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return tuple(xp.astype(x == j, "int64") for j in range(len(self.family.labels)))


def lattice_for(family: Family, bounds: Bounds | None, missing: Missing = None) -> Lattice:
    """The lattice of a family within its bounds. `missing` is the value that a missing record
    stands for; of sums it is one that counts all records (see `Counted`).
    """
    family.check_bounds(bounds)
    return LATTICES[family.statistic_kind](family, bounds, missing)


def _of_counts(family: Family, bounds: Bounds | None, missing: Missing) -> Lattice:
    if isinstance(family, Table):
        from noisewise.mechanism.products import Cells  # a lattice, as all that this module makes

        _refuse_missing(family, missing)
        return Cells(family)
    counted = cast(Categorical, family)
    if missing == DROP:
        if counted.other is not None:
            raise UnsupportedCombination(
                "with missing='drop' unlisted and missing records are no records; leave other= out."
            )
        return Counts(counted, drop=True)
    if missing is not None:
        raise UnsupportedCombination(
            f"the {family.kind} family takes other= for missing records, or missing='drop'."
        )
    if counted.other is None:
        raise UnsupportedCombination(
            f"a {family.kind} release needs other=, the category that takes unlisted and missing "
            "records, or missing='drop', which leaves them out."
        )
    return Counts(counted)


def _of_sums(family: Family, bounds: Bounds | None, missing: Missing) -> Lattice:
    if missing == DROP:
        missing = None
    if bounds is None:  # the Bernoulli
        if not (missing is None or (isinstance(missing, Real) and missing in (0, 1))):
            raise UnsupportedCombination(
                f"missing must be 0, 1 or 'drop' for the {family.kind} family."
            )
        return Plain(family, 0.0, 1.0, False, float(missing or 0), (1.0,), (0,), (1,))
    redact = bounds.outside == "redact"
    substitute = substitute_for(family, bounds, missing)
    if family.polynomial:
        column = family if isinstance(family, Transformed) else None
        return Standardised(bounds.lower, bounds.upper, redact, substitute, column)
    lower, upper = (
        (math.ceil(bounds.lower), math.floor(bounds.upper))
        if family.integer
        else (bounds.lower, bounds.upper)
    )
    steps, low, high = lattices_of(family, float(lower), float(upper), redact)
    return Plain(family, float(lower), float(upper), redact, substitute, steps, low, high)


def _of_moments(family: Family, bounds: Bounds | None, missing: Missing) -> Lattice:
    from noisewise.mechanism.products import Products

    _refuse_missing(family, missing)
    return Products(cast(Moments, family))


def _refuse_missing(family: Family, missing: Missing) -> None:
    if missing is not None:
        raise UnsupportedCombination(
            f"a record of the {family.kind} family that misses a column contributes nothing; leave "
            "missing= out."
        )


LATTICES: dict[StatisticKind, Callable[[Family, Bounds | None, Missing], Lattice]] = {
    "sums": _of_sums,
    "counts": _of_counts,
    "moments": _of_moments,
}
"""What makes the lattice of a family, by the kind of its statistic."""
