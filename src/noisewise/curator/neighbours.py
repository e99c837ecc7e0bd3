"""Small neighbouring tables of nobody's records, ready to be released again and again.

Of statistics: two tables that lie as far apart as any, and for every number that is released, and
for every sum and difference of two, a pair that moves it. Of private bounds: tables that are as bad
for the scores of both quantiles as any.
"""

import csv
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations, groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, TypeAlias, final

import numpy as np

from noisewise.curator import private_bounds
from noisewise.curator.attack import View, views
from noisewise.curator.plan import Plan
from noisewise.curator.publish import Prepared, exact_numbers, prepare
from noisewise.curator.settings import Settings
from noisewise.mechanism.lattice import Sums
from noisewise.mechanism.privacy import Cost, half, pure
from noisewise.model import families
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import PrivateBounds
from noisewise.model.columns import Cut, Factor, Number
from noisewise.model.families.moments import Moments
from noisewise.model.family import Family

COLUMN, BY = "x", "g"
"""The columns of the tables: the value, and the group."""
GROUPS = ("a", "b")
"""Two groups, where there are any: a record can leave one and enter the other."""
MANY = 30
"""Of more tables than this, only the first is compared with each of the others."""
MOST_SMALL = 100_000
"""Records of a table of which bounds are chosen: more would take longer to read than to attack."""
Record = tuple[Any, str]
"""A value, or those of several columns, and its group."""
Records = tuple[Record, ...]
"""A small table."""


class Table(Protocol):
    """A small table, ready to be released again and again."""

    @property
    def shown(self) -> str:
        """Its records."""

    def release(self) -> list[float]:
        """The numbers of one more release."""

    def views(self, other: Any, own: FloatArray, others: FloatArray) -> Iterator[View]:
        """What to look at, to tell releases of this table from those of the other."""


Pair: TypeAlias = tuple[Table, Table]
"""Two tables that are neighbours."""


def _prepared(
    records: Iterable[Record], settings: Settings, read: Callable[[Prepared], Any]
) -> tuple[Prepared, Any]:
    """The release of these records, and what is read of them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"  # records of nobody
        with open(path, "w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow([*(names_of(settings.family) or [COLUMN]), settings.by or BY])
            lines.writerows([*(x if isinstance(x, tuple) else (x,)), g] for x, g in records)
        prepared = prepare(path, settings)
        return prepared, read(prepared)


def names_of(family: Family) -> list[str]:
    """Of several columns; none where a record is one."""
    return (
        [one.name for one in family.parts] if isinstance(family, Moments | families.Table) else []
    )


def _shown(records: Records, grouped: bool) -> str:
    words = []
    for (x, group), same in groupby(records):
        times = len(list(same))
        value = "/".join(_word(part) for part in x) if isinstance(x, tuple) else _word(x)
        words.append(
            (f"{times} times " if times > 1 else "") + value + (f" in {group}" if grouped else "")
        )
    return f"({', '.join(words)})"


def _word(x: Any) -> str:
    return "missing" if x is None else f"{x:g}" if isinstance(x, float) else repr(x)


@final
@dataclass(frozen=True, slots=True)
class Statistics:
    """A table of which the noisy statistics are released."""

    shown: str
    prepared: Prepared
    sums: list[Sums]
    exact: FloatArray  # what is released, before its noise, in lattice steps

    @classmethod
    def of(cls, records: Records, settings: Settings) -> "Statistics":
        prepared, sums = _prepared(
            records, settings, lambda ready: ready.rows.sums(ready.plan.lattice)
        )
        exact = [number for n, group in sums for number in exact_numbers(prepared.plan, n, group)]
        shown = _shown(records, settings.grouping is not None)
        return cls(shown, prepared, sums, np.array(exact, dtype=float))

    @property
    def plan(self) -> Plan:
        return self.prepared.plan

    def release(self) -> list[float]:
        """In lattice steps."""
        lattice, weight = self.plan.lattice, self.plan.count_weight
        numbers: list[float] = []
        for one in self.prepared.releases(self.plan, None, self.sums):
            offsets = [0 if one.n is None else one.n * offset for offset in lattice.offset]
            parts = zip(one.statistic, lattice.step, offsets, strict=True)
            # The count was divided by its weight: without what that rounds off, equal counts are
            # equal numbers.
            count = [] if one.count is None else [round(one.count.value * weight, 6)]
            numbers += [*count, *(value / step - offset for value, step, offset in parts)]
        return numbers

    def views(self, other: "Statistics", own: FloatArray, others: FloatArray) -> Iterator[View]:
        plan, first, second = self.plan, self.exact, other.exact
        yield View(
            "the likelihood ratio of the declared noise",
            "ratio",
            lambda y: plan.mechanism.log_ratio(y, first, second, plan.scale),
        )
        yield from views(self._names(), own, others, first - second)

    def _names(self) -> tuple[str, ...]:
        names = ["the number of records"] * bool(self.plan.count_weight) + self.plan.lattice.names
        groups = self.prepared.settings.grouping
        if groups is None:
            return tuple(names)
        return tuple(f"{name} in {group}" for group in groups.values for name in names)


def statistics(settings: Settings) -> tuple[Cost, list[Pair]]:
    """What is declared, and the pairs to try: the furthest, and one for each number, sum and
    difference that it moves little.
    """

    @cache
    def ready(records: Records) -> Statistics:
        return Statistics.of(records, settings)

    pairs = [(ready(one), ready(other)) for one, other in _neighbouring(settings)]
    plan = pairs[0][0].plan
    moves = np.array([one.exact - other.exact for one, other in pairs])  # (pairs, d)
    d = moves.shape[1]
    far = np.linalg.norm(moves, ord=plan.mechanism.order, axis=1)
    chosen = [int(far.argmax())]

    def cover(move: FloatArray, share: float) -> None:
        """Take one more pair, unless one taken already moves this number at least that share of the
        furthest.
        """
        if move[chosen].max() < share * move.max():
            known = {id(table) for k in chosen for table in pairs[k]}
            tied = np.flatnonzero(move == move.max())
            chosen.append(
                int(
                    max(tied, key=lambda k: (sum(id(table) in known for table in pairs[k]), far[k]))
                )
            )

    for j in range(d):
        cover(np.abs(moves[:, j]), 1.0)
    for i, j in combinations(range(d), 2):
        cover(np.abs(moves[:, i] + moves[:, j]), 0.5)
        cover(np.abs(moves[:, i] - moves[:, j]), 0.5)
    return settings.cost, [pairs[k] for k in chosen]


def _neighbouring(settings: Settings) -> Iterator[tuple[Records, Records]]:
    groups = GROUPS[:1] if settings.grouping is None else GROUPS
    records = [(x, group) for group in groups for x in _values(settings)]
    rest = tuple(records[:2])
    tables = [rest + (one,) * settings.records_per_person for one in records]
    if settings.relation == "add_remove":
        yield from ((rest, table) for table in tables)
        return
    few = len(tables) <= MANY
    pairs = combinations(tables, 2) if few else ((tables[0], table) for table in tables[1:])
    for one, other in pairs:
        # where sizes are public, a record stays in its group
        if settings.relation == "move" or one[-1][1] == other[-1][1]:
            yield one, other


def _values(settings: Settings) -> list[Any]:
    """Records at every corner: on the bounds, within, beyond them, at 0, missing."""
    if isinstance(settings.family, Moments):
        return _moments_corners(settings.family)
    if isinstance(settings.family, families.Table):
        return _table_corners(settings.family)
    if labels := Plan.widest(settings).lattice.labels:
        return [*(str(label) for label in labels), "none of them", None]
    if (bounds := settings.widest_bounds) is None:
        return [0.0, 1.0, None]
    span = bounds.upper - bounds.lower
    inside = [
        bounds.lower,
        bounds.upper,
        *(bounds.lower + span * part for part in (0.25, 0.5, 0.75)),
    ]
    return [*inside, bounds.lower - 10 * span, bounds.upper + 10 * span, 0.0, math.inf, None]


def _moments_corners(family: Moments) -> list[Any]:
    """Where records of several columns lie furthest apart: all numbers at a bound, against just
    below the middle (L1) or half of them at the other bound (L2), and levels that change.
    """
    q = len(family.numeric)
    rows = [[1.0] * q, [-1 / (q + 1)] * q, [(-1.0) ** (j + 1) for j in range(q)], [-1.0] * q]

    def record(row: list[float], level: int) -> tuple[Any, ...]:
        u = iter(row)
        return tuple(
            one.bounds.middle + next(u) * one.bounds.radius
            if isinstance(one, Number)
            else one.levels[min(level, len(one.levels) - 1)]
            for one in family.parts
        )

    levels = range(min(max(len(one.names) for one in family.parts) + 1, 3))
    found = [record(row, level) for row in rows for level in levels]
    return [*dict.fromkeys(found), (None,) * len(family.parts)]


def _table_corners(family: families.Table) -> list[Any]:
    """A record in each of some cells, and in none."""

    def value(one: Factor | Cut, index: int) -> Any:
        return one.bins.edges[index] if isinstance(one, Cut) else one.levels[index]

    cells = range(0, family.dimension, max(family.dimension // MANY, 1))
    places = [np.unravel_index(cell, family.shape) for cell in cells]
    return [
        *(
            tuple(value(one, int(index)) for one, index in zip(family.parts, place, strict=True))
            for place in places
        ),
        (None,) * len(family.parts),
    ]


@final
@dataclass(frozen=True, slots=True)
class Choices:
    """A table of which bounds are chosen."""

    shown: str
    prepared: Prepared
    grid: private_bounds.Grid
    valid: int
    counts: list[int]

    @classmethod
    def of(cls, records: Records, settings: Settings, grid: private_bounds.Grid) -> "Choices":
        prepared, (_, valid, counts) = _prepared(
            records, settings, lambda ready: private_bounds.below(ready.rows, grid)
        )
        return cls(_shown(records, False), prepared, grid, valid, counts)

    def release(self) -> list[float]:
        """As real releases choose them."""
        chosen = self.prepared.choose(self.valid, self.counts, self.grid)
        return [chosen.lower, chosen.upper]

    def views(self, other: "Choices", own: FloatArray, others: FloatArray) -> Iterator[View]:
        yield View("the lower bound", "number", lambda y: y[:, 0])
        yield View("the upper bound", "number", lambda y: y[:, 1])
        yield View("both bounds together", "hit", lambda y: y[:, 0] + math.pi * y[:, 1])


def choices(settings: Settings, bounds: PrivateBounds) -> tuple[Cost, list[Pair]]:
    """What choosing the bounds costs, and the pairs to try: one of the worst size and shape, and a
    small one.
    """
    grid = private_bounds.Grid.over(bounds, settings.family.integer)
    declared, k = pure(bounds.epsilon), settings.records_per_person

    def table(numbers: dict[int, int]) -> Choices:
        """By how many records lie between which candidates: bin i is below the i-th."""
        where = {i: (grid.lower + (i - 0.5) * grid.width, GROUPS[0]) for i in numbers}
        return Choices.of(
            tuple(where[i] for i, times in numbers.items() for _ in range(times)), settings, grid
        )

    base, top = _worst(bounds, grid, half(declared.amount), k), grid.size
    few = {top // 2: 1}
    left, right = ({**base, i: base.get(i, 0) + k} for i in (0, top))
    if settings.relation == "add_remove":
        start, small = table(base), table(few)
        return declared, [
            (start, table(left)),
            (start, table(right)),
            (small, table({0: k, **few})),
        ]
    return declared, [(table(left), table(right)), (table({0: k, **few}), table({top // 2: 1 + k}))]


def _worst(
    bounds: PrivateBounds, grid: private_bounds.Grid, epsilon: Decimal, k: int
) -> dict[int, int]:
    """How many records lie in which bin, so that k more at either end make most of a difference to
    both quantiles.

    Of the candidates, the two at the lower end compete for the low quantile. With k more records
    below them they have equal scores; with k above instead, the first has a worse one by twice the
    sensitivity, the most there can be. Likewise the two at the upper end. So many records lie
    between that no other candidate is in the race.
    """
    low, high = (Fraction(repr(q)) for q in bounds.quantiles)
    race = 4 * k * (1 + (math.log(grid.size) + 3) / float(epsilon))
    needed = [race / float(high - low), *(2 * k / float(part) for part in (low, 1 - high) if part)]
    start = min(math.ceil(max(needed)), MOST_SMALL)
    n = min(range(start, start + 1000), key=lambda n: low * n % 1 + (1 - high) * n % 1)
    below, above = max(math.floor(low * n) - 2 * k, 0), max(math.floor((1 - high) * n) - k, 0)
    middle = max(n - below - above - 5 * k, 0)
    numbers: dict[int, int] = {}
    lower = ((0, below), (1, 2 * k), (2, middle // 2))
    upper = ((grid.size - 2, middle - middle // 2), (grid.size - 1, 2 * k), (grid.size, above))
    for i, times in lower + upper:
        numbers[i] = numbers.get(i, 0) + times
    return numbers
