"""Small neighbouring tables of nobody's records, ready to be released again and again.

Of statistics: two tables that lie as far apart as any, and for every number that is released, and
for every sum and difference of two, a pair that moves it. Of private bounds: tables that are as bad
for the scores of both quantiles as any.
"""

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
from noisewise.curator.publish import Prepared, prepare
from noisewise.mechanism.lattice import Counts
from noisewise.mechanism.privacy import Cost, half, pure
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds, PrivateBounds
from noisewise.model.families.categorical import Categorical
from noisewise.model.family import Family

GROUPS = ("a", "b")
MANY = 30
"""Of more tables than this, only the first is compared with each of the others."""
MOST_RECORDS = 100_000
Settings: TypeAlias = dict[str, Any]
"""Of a release: family, bounds, cost, neighbours, records_per_person, sizes."""
Record = tuple[Any, str]
"""A value and its group."""
Records = tuple[Record, ...]


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


def _prepared(
    records: Iterable[Record], asked: Settings, read: Callable[[Prepared], Any]
) -> tuple[Prepared, Any]:
    """The release of these records, and what is read of them."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"  # records of nobody
        path.write_text(
            "x,g\n" + "".join(f"{'' if x is None else x},{group}\n" for x, group in records)
        )
        by, groups = (None, None) if asked["sizes"] is None else ("g", GROUPS)
        prepared = prepare(
            path,
            column="x",
            by=by,
            groups=groups,
            ledger=None,
            dataset=None,
            missing=None,
            description=None,
            out=None,
            **asked,
        )
        return prepared, read(prepared)


def _shown(records: Records, grouped: bool) -> str:
    words = []
    for (x, group), same in groupby(records):
        times = len(list(same))
        value = "missing" if x is None else f"{x:g}" if isinstance(x, float) else repr(x)
        words.append(
            (f"{times} times " if times > 1 else "") + value + (f" in {group}" if grouped else "")
        )
    return f"({', '.join(words)})"


@final
@dataclass(frozen=True, slots=True)
class Statistics:
    """A table of which the noisy statistics are released."""

    shown: str
    prepared: Prepared
    plan: Plan
    found: list[tuple[int, list[int]]]
    exact: FloatArray  # what is released, before its noise, in lattice steps

    @classmethod
    def of(cls, records: Records, asked: Settings) -> "Statistics":
        prepared, found = _prepared(
            records, asked, lambda ready: ready.column.sums(ready.widest.lattice)
        )
        plan = prepared.widest
        exact: list[int] = []
        for n, sums in found:
            offsets = [0 if plan.public else n * offset for offset in plan.lattice.offset]
            exact += [n * plan.count_weight] * bool(plan.count_weight) + [
                s + o for s, o in zip(sums, offsets, strict=True)
            ]
        return cls(
            _shown(records, prepared.groups is not None),
            prepared,
            plan,
            found,
            np.array(exact, dtype=float),
        )

    def release(self) -> list[float]:
        """In lattice steps."""
        numbers: list[float] = []
        for made in self.prepared.releases(self.plan, None, self.found):
            offsets = [
                0 if made.n is None else made.n * offset for offset in self.plan.lattice.offset
            ]
            parts = zip(made.statistic, self.plan.lattice.step, offsets, strict=True)
            # The count was divided by its weight: without what that rounds off, equal counts are
            # equal numbers.
            count = (
                [] if made.count is None else [round(made.count.value * self.plan.count_weight, 6)]
            )
            numbers += [*count, *(value / step - offset for value, step, offset in parts)]
        return numbers

    def views(self, other: "Statistics", own: FloatArray, others: FloatArray) -> Iterator[View]:
        ratio = "the likelihood ratio of the declared noise"
        yield View(ratio, "ratio", lambda y: _log_ratio(y, self.exact, other.exact, self.plan))
        yield from views(self._names(), own, others, self.exact - other.exact)

    def _names(self) -> tuple[str, ...]:
        lattice = self.plan.lattice
        if isinstance(lattice, Counts):
            names = [f"the count of {label!r}" for label in lattice.family.labels]
        else:
            several = len(lattice.step) > 1
            names = [
                f"statistic {j}" if several else "the statistic"
                for j in range(1, len(lattice.step) + 1)
            ]
        names = ["the number of records"] * bool(self.plan.count_weight) + names
        groups = self.prepared.groups
        return tuple(
            names
            if groups is None
            else [f"{name} in {group}" for group in groups.values for name in names]
        )


def _log_ratio(y: FloatArray, first: FloatArray, second: FloatArray, plan: Plan) -> FloatArray:
    """log of the density under the first table over that under the second, as declared."""
    if plan.gaussian:
        return np.asarray(
            (((y - second) ** 2 - (y - first) ** 2) / (2 * plan.scale**2)).sum(axis=1)
        )
    return np.asarray((np.abs(y - second) - np.abs(y - first)).sum(axis=1) / plan.scale)


def statistics(asked: Settings) -> tuple[Cost, list[Pair]]:
    """What is declared, and the pairs to try: the furthest, and one for each number, sum and
    difference that it moves little.
    """

    @cache
    def ready(records: Records) -> Statistics:
        return Statistics.of(records, asked)

    pairs = [(ready(one), ready(other)) for one, other in _neighbouring(asked)]
    plan = pairs[0][0].plan
    moves = np.array([one.exact - other.exact for one, other in pairs])  # (pairs, d)
    d = moves.shape[1]
    far = np.linalg.norm(moves, ord=2 if plan.gaussian else 1, axis=1)
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
    return plan.cost, [pairs[k] for k in chosen]


def _neighbouring(asked: Settings) -> Iterator[tuple[Records, Records]]:
    groups = GROUPS[: 1 if asked["sizes"] is None else 2]
    records = [(x, group) for group in groups for x in _values(asked["family"], asked["bounds"])]
    rest = tuple(records[:2])
    tables = [rest + (one,) * asked["records_per_person"] for one in records]
    if asked["neighbours"] == "add_remove":
        yield from ((rest, table) for table in tables)
        return
    for one, other in (
        combinations(tables, 2)
        if len(tables) <= MANY
        else ((tables[0], table) for table in tables[1:])
    ):
        # where sizes are public, a record stays in its group
        if asked["sizes"] != "public" or one[-1][1] == other[-1][1]:
            yield one, other


def _values(family: Family, bounds: Bounds | None) -> list[Any]:
    """Records at every corner: on the bounds, within, beyond them, at 0, missing."""
    if isinstance(family, Categorical):
        return [*(str(label) for label in family.labels), "none of them", None]
    if bounds is None:
        return [0.0, 1.0, None]
    span = bounds.upper - bounds.lower
    inside = [
        bounds.lower,
        bounds.upper,
        *(bounds.lower + span * part for part in (0.25, 0.5, 0.75)),
    ]
    return [*inside, bounds.lower - 10 * span, bounds.upper + 10 * span, 0.0, math.inf, None]


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
    def of(cls, records: Records, asked: Settings, grid: private_bounds.Grid) -> "Choices":
        prepared, (_, valid, counts) = _prepared(
            records, asked, lambda ready: private_bounds.below(ready.column, grid)
        )
        return cls(_shown(records, False), prepared, grid, valid, counts)

    def release(self) -> list[float]:
        """As real releases choose them."""
        chosen = self.prepared._choose(self.valid, self.counts, self.grid)
        return [chosen.lower, chosen.upper]

    def views(self, other: "Choices", own: FloatArray, others: FloatArray) -> Iterator[View]:
        yield View("the lower bound", "number", lambda y: y[:, 0])
        yield View("the upper bound", "number", lambda y: y[:, 1])
        yield View("both bounds together", "hit", lambda y: y[:, 0] + math.pi * y[:, 1])


def choices(asked: Settings) -> tuple[Cost, list[Pair]]:
    """What choosing the bounds costs, and the pairs to try: one of the worst size and shape, and a
    small one.
    """
    bounds: PrivateBounds = asked["bounds"]
    grid = private_bounds.Grid.over(bounds, asked["family"].integer)
    declared, k = pure(bounds.epsilon), asked["records_per_person"]

    def table(numbers: dict[int, int]) -> Choices:
        """By how many records lie between which candidates: bin i is below the i-th."""
        where = {i: (grid.lower + (i - 0.5) * grid.width, GROUPS[0]) for i in numbers}
        return Choices.of(
            tuple(where[i] for i, times in numbers.items() for _ in range(times)), asked, grid
        )

    base, top = _worst(bounds, grid, half(declared.amount), k), grid.size
    few = {top // 2: 1}
    left, right = ({**base, i: base.get(i, 0) + k} for i in (0, top))
    if asked["neighbours"] == "add_remove":
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
    start = min(math.ceil(max(needed)), MOST_RECORDS)
    n = min(range(start, start + 1000), key=lambda n: low * n % 1 + (1 - high) * n % 1)
    below, above = max(math.floor(low * n) - 2 * k, 0), max(math.floor((1 - high) * n) - k, 0)
    middle = max(n - below - above - 5 * k, 0)
    numbers: dict[int, int] = {}
    lower = ((0, below), (1, 2 * k), (2, middle // 2))
    upper = ((grid.size - 2, middle - middle // 2), (grid.size - 1, 2 * k), (grid.size, above))
    for i, times in lower + upper:
        numbers[i] = numbers.get(i, 0) + times
    return numbers
