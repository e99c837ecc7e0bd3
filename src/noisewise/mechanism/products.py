"""From a record of several columns to whole numbers: sums and products of them, or one cell."""

from dataclasses import dataclass
from functools import reduce
from operator import add, and_
from typing import Any, ClassVar, final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.mechanism.lattice import Lattice, Records, Stage, Standardised, Sums, Told
from noisewise.mechanism.products_sensitivity import (
    LESS,
    products_sensitivity,
    room_for_count,
)
from noisewise.mechanism.ruler import Ruler
from noisewise.mechanism.sensitivity import Sensitivity, Size
from noisewise.model.arrays import Namespace
from noisewise.model.columns import Column, Cut, Factor, Number
from noisewise.model.families.moments import Moments
from noisewise.model.families.table import Table

NOTHING = "A record that is missing in any column, {}or of a level that is not listed, {}."
"""What becomes of such records, for whoever reads the release."""
FEW_EDGES = 65
"""Up to so many edges are searched by halving: of more a database takes long to plan."""


@final
@dataclass(frozen=True, slots=True)
class Products(Lattice):
    """Whether a record counts, its z and their products, all computed in integers from z 2^19.

    A numeric column is rounded to k = u 2^19 by its ruler; an indicator is 0 or 2^19. A product is
    that of two such integers over 2^19, rounded, and a square is less half a column for every
    record that counts. One step serves all. A record that does not count contributes 0 to
    everything.
    """

    counted: ClassVar[bool] = True
    TOP: ClassVar[int] = Standardised.TOP
    family: Moments

    def __post_init__(self) -> None:
        if not self.family.dimension:
            raise UnsupportedCombination(
                "a factor with one level has nothing to release but the number of records; add a "
                "column, or list more levels."
            )
        if self.family.less != LESS:
            raise UnsupportedCombination(f"a release has less={float(LESS)}.")

    @property
    def step(self) -> tuple[float, ...]:
        return (1 / self.TOP,) * self.family.dimension

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        top, owners = self.TOP, self.family.owners
        least = [-top if isinstance(one, Number) else 0 for one in owners]
        return (
            *((low, top) for low in least),
            *(
                (-top // 2, top // 2) if j == k else (min(least[j], least[k]), top)
                for j, k in self.family.products
            ),
        )

    @property
    def sensitivity(self) -> Sensitivity:
        return products_sensitivity(*sizes_of(self.family), self.TOP)

    @property
    def room(self) -> Size:
        numbers, two, more = sizes_of(self.family)
        return room_for_count(numbers, two + more, self.TOP)

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.family.parts

    @property
    def names(self) -> list[str]:
        z = self.family.numbers
        return [
            *(f"the sum of {name}" for name in z),
            *(f"the sum of {z[j]} times {z[k]}" for j, k in self.family.products),
        ]

    @property
    def note(self) -> str:
        bounds = "outside bounds under redact, "
        return NOTHING.format(bounds, "contributes nothing; the count is of those that remain")

    @property
    def stages(self) -> tuple[Stage, ...]:
        """From the columns' values, for a factor the index of its level; the first of the integers
        says whether a record counts.
        """
        return self.rounded, self.points, self.counting, self.blank, self.scaled, self.products

    @property
    def told(self) -> Told:
        """The steps and levels of its columns: there are far fewer of them than products."""
        ranges = tuple(
            (0, len(one.levels) - 1) if isinstance(one, Factor) else (-self.TOP, self.TOP)
            for one in self.columns
        )
        return Told(2, ranges, some_missing=True)

    @property
    def rulers(self) -> tuple[Ruler | None, ...]:
        """Of each column that is a number."""
        return tuple(
            Ruler(one.bounds.lower, one.bounds.upper, one.bounds.outside == "redact")
            if isinstance(one, Number)
            else None
            for one in self.columns
        )

    def rounded(self, x: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """The values, and the nearest step of each number."""
        pairs = zip(self.rulers, x, strict=True)
        return *x, *(ruler.rounded(v, xp) for ruler, v in pairs if ruler is not None)

    def points(self, rounded: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """Of each column its step or level, of a record that does not count NaN or NULL in one."""
        q = len(self.columns)
        nearest = iter(rounded[q:])
        return tuple(
            v if ruler is None else ruler.point(v, next(nearest), xp.nan, xp)
            for ruler, v in zip(self.rulers, rounded[:q], strict=True)
        )

    def counting(self, points: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """Whether a record counts: no column is missing where their sum is not."""
        return ~xp.isnan(reduce(add, points)), *points

    def blank(self, counting: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """1 or 0 for whether a record counts, and its z on the lattice, 0 if it does not."""
        counts, *points = counting
        top, z = float(self.TOP), []
        for one, k in zip(self.columns, points, strict=True):
            if isinstance(one, Factor):
                levels = range(1, len(one.levels))
                z += [xp.where(counts & (k == float(level)), top, 0.0) for level in levels]
            else:
                z.append(xp.where(counts, k, 0.0))
        return xp.where(counts, 1.0, 0.0), *z

    def scaled(self, blank: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """The same, what is added to a square before it is rounded down, and z in units."""
        counts, *z = blank
        # half a column less, for every record that counts
        return counts, *z, 0.5 - counts * float(self.TOP // 2), *(k * (1 / self.TOP) for k in z)

    def products(self, scaled: tuple[Any, ...], xp: Namespace = np) -> tuple[Any, ...]:
        """The integers. All of it is exact: the product of two steps has 38 bits."""
        width = len(scaled) // 2
        counts, *z = scaled[:width]
        less, *units = scaled[width:]
        products = (
            xp.floor(z[j] * units[k] + (less if j == k else 0.5)) for j, k in self.family.products
        )
        return counts, *z, *products


@final
@dataclass(frozen=True, slots=True)
class Cells(Lattice):
    """How many records fall in each cell of a table. A record falls in one or in none, and a
    replaced one in another: 2 counts change by 1.
    """

    adds_up_to_n: ClassVar[bool] = True
    tells_n: ClassVar[bool] = False
    family: Table

    @property
    def step(self) -> tuple[float, ...]:
        return (1.0,) * self.family.dimension

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        return ((0, 1),) * self.family.dimension

    @property
    def sensitivity(self) -> Sensitivity:
        return Sensitivity(pair=Size(2, 2), record=Size(1, 1))

    @property
    def columns(self) -> tuple[Column, ...]:
        return self.family.parts

    @property
    def names(self) -> list[str]:
        return [f"the count of ({label})" for label in self.family.labels]

    @property
    def note(self) -> str:
        return NOTHING.format("beyond the edges of its bins, ", "falls in no cell")

    def query(self, records: Records) -> list[Sums]:
        return records.counts_of_cells(self)

    def integers(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        """Of the columns' values, for a factor the index of its level."""
        falls = reduce(and_, [_falls(one, v, xp) for one, v in zip(self.columns, x, strict=True)])
        cell: Any = 0.0
        for one, value in zip(self.family.parts, x, strict=True):
            index = bin_of(one, value, xp) if isinstance(one, Cut) else value
            cell = cell * float(len(one.levels)) + index
        return tuple(
            xp.astype(falls & (cell == float(j)), "int64") for j in range(self.family.dimension)
        )


def sizes_of(family: Moments) -> tuple[int, int, int]:
    """How many columns are numeric, factors with two levels, and factors with more."""
    levels = [len(one.levels) for one in family.parts if isinstance(one, Factor)]
    return len(family.numeric), levels.count(2), sum(number > 2 for number in levels)


def bin_of(cut: Cut, value: Any, xp: Namespace = np) -> Any:
    """The index, as a float, of the bin that holds a value between the first edge and the last."""
    edges, bins = cut.bins.edges, len(cut.bins.edges) - 1
    if (width := _even_width(cut)) is not None:
        # a guess, one off at most, and then the edges themselves decide
        first, last = edges[0], float(bins - 1)
        guess = xp.floor((value - first) * (1 / width))
        guess = xp.where(guess < 0.0, 0.0, xp.where(guess > last, last, guess))
        above = (value >= first + (guess + 1.0) * width) & (guess < last)
        return xp.where(
            value < first + guess * width, guess - 1.0, xp.where(above, guess + 1.0, guess)
        )

    def between(low: int, high: int) -> Any:
        if high - low == 1:
            return float(low)
        middle = (low + high) // 2
        return xp.where(value < edges[middle], between(low, middle), between(middle, high))

    return xp.where(value < edges[0], -1.0, between(0, bins))


def _even_width(cut: Cut) -> float | None:
    """The width of many bins, if every edge is the first plus a multiple of it to the last bit."""
    edges = np.array(cut.bins.edges)
    width = (edges[-1] - edges[0]) / (len(edges) - 1)
    even = edges[0] + np.arange(len(edges)) * width
    many = len(edges) > FEW_EDGES and np.isfinite(width) and np.isfinite(1 / width)
    return float(width) if many and np.array_equal(even, edges) else None


def _falls(one: Column, value: Any, xp: Namespace) -> Any:
    """Whether a column has a level for the value: false, or a database's NULL, if not."""
    return within_edges(one, value) if isinstance(one, Cut) else ~xp.isnan(value)


def within_edges(cut: Cut, value: Any) -> Any:
    """Whether a bin holds the value. False of NaN: it is no number's equal in NumPy, and above them
    all in a database.
    """
    return (value >= cut.bins.edges[0]) & (value <= cut.bins.edges[-1])
