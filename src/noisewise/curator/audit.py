"""An attack on our own releases: how much privacy do they spend at least, as seen from the outside?

The real release is made many times of a few small neighbouring tables (`neighbours`). A quarter of
the runs is made of every table, and serves to find the two that are told apart best, and how
(`attack`). The rest is made of those two alone, and the best test of each kind is tried on it. With
the confidence CONFIDENCE all of these bounds hold at once, whatever the mechanism really does, so
that the greatest holds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.curator.attack import KINDS, strongest
from noisewise.curator.neighbours import (
    BY,
    COLUMN,
    GROUPS,
    Pair,
    Table,
    choices,
    names_of,
    statistics,
)
from noisewise.curator.settings import Amount, Settings
from noisewise.mechanism.missing import Missing
from noisewise.mechanism.privacy import Cost
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds, PrivateBounds
from noisewise.model.family import Family

CONFIDENCE = 0.9999
"""That the bound of an audit holds: of many audits of a good release, hardly one cries wolf."""
MISS = (1 - CONFIDENCE) / (2 * len(KINDS))
"""The chance that a limit fails: two of them make a bound, and there is a bound for each kind of
test.
"""
ROUGH = 0.001
"""The chance in its place where tests are chosen: of a third as many releases it gives about the
limits that can be hoped for.
"""
RUNS = 20_000
"""Releases of each of the two tables, unless told otherwise: enough for a bound that is not far
below what is spent.
"""


@final
@dataclass(frozen=True, slots=True)
class Audit:
    """What was declared, and what is spent at least."""

    declared: Cost
    bound: float
    """In the declared currency; with the confidence CONFIDENCE, no less is spent."""
    runs: int
    tables: tuple[str, str]
    attack: str
    """What told the two tables apart best."""

    @property
    def kept(self) -> bool:
        """Whether nothing shows that more is spent than declared."""
        return self.bound <= float(self.declared.amount)


def audit(
    family: Family,
    *,
    bounds: Bounds | PrivateBounds | None = None,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    rho: Amount | None = None,
    missing: Missing = None,
    neighbours: str = "replace_one",
    records_per_person: int = 1,
    sizes: str | None = None,
    runs: int = RUNS,
    progress: Callable[[float], None] | None = None,
) -> Audit:
    """A lower bound on the privacy that a release with these settings spends; with `sizes`, one of
    two groups.

    With private bounds it is what choosing them spends, at an epsilon of their own; the numbers
    that are released within them are attacked by an audit with bounds, and what they cost may be
    left out here.
    """
    if isinstance(bounds, PrivateBounds) and epsilon is None and delta is None and rho is None:
        epsilon = bounds.epsilon
    several = names_of(family)
    # a name that no column has
    by, groups = (None, None) if sizes is None else (BY + "".join(several), GROUPS)
    settings = Settings(
        column=None if several else COLUMN,
        family=family,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        bounds=bounds,
        missing=missing,
        records_per_person=records_per_person,
        neighbours=neighbours,
        by=by,
        groups=groups,
        sizes=sizes,
    )
    declared, pairs = (
        choices(settings, bounds) if isinstance(bounds, PrivateBounds) else statistics(settings)
    )
    (first, second), words, bound = _attacked(pairs, declared, runs, progress)
    return Audit(declared, bound, runs, (first.shown, second.shown), words)


def _attacked(
    pairs: list[Pair], declared: Cost, runs: int, progress: Callable[[float], None] | None
) -> tuple[Pair, str, float]:
    """The pair that is told apart best, what tells it apart, and what that shows."""
    tables = list({id(table): table for pair in pairs for table in pair}.values())
    # where tables are many, all of them share twice the runs
    few = max(min(runs // 4, 2 * runs // len(tables)), 10)
    whole, done = len(tables) * few + 2 * (runs - few), 0

    def releases(table: Table, number: int) -> FloatArray:
        nonlocal done
        numbers = []
        for _ in range(number):
            numbers.append(table.release())
            done += 1
            if progress is not None and done % 500 == 0:
                progress(done / whole)
        return np.array(numbers, dtype=float)

    seen = {id(table): releases(table, few) for table in tables}
    tests = []
    for one, other in pairs:
        y = seen[id(one)], seen[id(other)]
        tests.append(strongest(*y, list(one.views(other, *y)), ROUGH, declared.currency))
    best = max(range(len(pairs)), key=lambda k: max(score for score, _ in tests[k].values()))
    first, second = pairs[best]
    fresh = releases(first, runs - few), releases(second, runs - few)
    shown = [
        (test.shows(*fresh, MISS, declared.currency), test.words)
        for _, test in tests[best].values()
    ]
    bound, words = max(shown)
    return pairs[best], words, max(0.0, bound)
