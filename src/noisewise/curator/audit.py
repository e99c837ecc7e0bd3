"""An attack on our own releases: how much privacy do they spend at least, as seen from the outside?

The real release is made many times of two neighbouring tables, those of all tried that lie furthest apart. The best test of
one against the other (the likelihood ratio of the declared noise) is tuned on half of the releases and tried on the
other half: if it is right with probability p and wrong with probability q, then epsilon is at least log(p/q). And rho is at
least log E1[exp((a - 1) g)]/(a - 1) - log E2[exp(a g)]/a for any function g of a release and any order a > 1 (by Hoelder's
inequality; Birrell et al. 2021), which is sharp at the likelihood ratio. Confidence limits of p and q (Clopper & Pearson 1934)
and of both means (Maurer & Pontil 2009) make them lower bounds that hold with the stated confidence, whatever the mechanism
really does.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

import numpy as np
from scipy import stats

from noisewise.curator.plan import Plan
from noisewise.curator.publish import Prepared, prepare
from noisewise.mechanism.privacy import Cost
from noisewise.model.arrays import FloatArray
from noisewise.model.bounds import Bounds
from noisewise.model.families.categorical import Categorical
from noisewise.model.family import Family

CONFIDENCE = 0.9999
MISS = (1 - CONFIDENCE) / 2
"""Of each of the two limits that make a bound."""
RUNS = 20_000
GROUPS = ("a", "b")
Record = tuple[Any, str]
"""A value and its group."""


@final
@dataclass(frozen=True, slots=True)
class Audit:
    """What was declared, and what is spent at least."""

    declared: Cost
    bound: float
    """In the declared currency; with the confidence CONFIDENCE, no less is spent."""
    runs: int
    tables: tuple[str, str]

    @property
    def kept(self) -> bool:
        """Whether nothing shows that more is spent than declared."""
        return self.bound <= float(self.declared.amount)


def audit(
    family: Family,
    *,
    bounds: Bounds | None = None,
    epsilon: object = None,
    delta: object = None,
    rho: object = None,
    neighbours: str = "replace_one",
    records_per_person: int = 1,
    sizes: str | None = None,
    runs: int = RUNS,
    progress: Callable[[float], None] | None = None,
) -> Audit:
    """A lower bound on the privacy that a release with these settings spends; with `sizes`, one of two groups."""
    asked = {"epsilon": epsilon, "delta": delta, "rho": rho, "neighbours": neighbours, "records_per_person": records_per_person}
    asked |= {"by": None, "groups": None, "sizes": sizes} if sizes is None else {"by": "g", "groups": GROUPS, "sizes": sizes}

    @cache
    def ready(records: tuple[Record, ...]) -> "_Table":
        return _Table.of(records, family, bounds, asked)

    records = [(x, group) for group in GROUPS[: 2 if sizes == "released" else 1] for x in _values(family, bounds)]
    first, second = max(
        ((ready(a), ready(b)) for a, b in _neighbouring(records, neighbours, records_per_person)),
        key=lambda pair: pair[0].distance(pair[1]),
    )
    ratios = []
    for number, one in enumerate((first, second)):
        made = []
        for k in range(runs):
            made.append(one.release())
            if progress is not None and k % 500 == 0:
                progress((number + k / runs) / 2)
        y = np.array(made)
        ratios.append(_log_ratio(y, first.exact, second.exact, first.plan))
    declared = first.plan.cost
    bound = _least_rho if declared.currency == "rho" else _least_epsilon
    return Audit(declared, bound(*ratios), runs, (first.name, second.name))


@final
@dataclass(frozen=True, slots=True)
class _Table:
    """A small table, ready to be released again and again."""

    name: str
    prepared: Prepared
    plan: Plan
    found: list[tuple[int, list[int]]]
    exact: FloatArray  # what is released, before its noise, in lattice steps

    @classmethod
    def of(cls, records: tuple[Record, ...], family: Family, bounds: Bounds | None, asked: dict[str, Any]) -> "_Table":
        with TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"  # records of nobody
            path.write_text("x,g\n" + "".join(f"{'' if x is None else x},{group}\n" for x, group in records))
            prepared = prepare(
                path, column="x", family=family, bounds=bounds, ledger=None, dataset=None, missing=None, description=None,
                out=None, **asked,
            )  # fmt: skip
            found = prepared.column.sums(prepared.widest.lattice)
        plan = prepared.widest
        exact: list[int] = []
        for n, sums in found:
            offsets = [0 if plan.public else n * offset for offset in plan.lattice.offset]
            exact += [n * plan.count_weight] * bool(plan.count_weight) + [s + o for s, o in zip(sums, offsets, strict=True)]
        shown = ["missing" if x is None else f"{x:g}" if isinstance(x, float) else repr(x) for x, _ in records]
        shown = shown if prepared.groups is None else [f"{x} in {group}" for x, (_, group) in zip(shown, records, strict=True)]
        return cls(f"({', '.join(shown)})", prepared, plan, found, np.array(exact, dtype=float))

    def distance(self, other: "_Table") -> float:
        return float(np.linalg.norm(self.exact - other.exact, ord=2 if self.plan.gaussian else 1))

    def release(self) -> list[float]:
        """The numbers of one more release, in lattice steps."""
        numbers: list[float] = []
        for made in self.prepared.releases(self.plan, None, self.found):
            offsets = [0 if made.n is None else made.n * offset for offset in self.plan.lattice.offset]
            parts = zip(made.statistic, self.plan.lattice.step, offsets, strict=True)
            count = [] if made.count is None else [made.count.value * self.plan.count_weight]
            numbers += [*count, *(value / step - offset for value, step, offset in parts)]
        return numbers


def _values(family: Family, bounds: Bounds | None) -> list[Any]:
    """Records at every corner: on the bounds, beyond them, at 0, missing."""
    if isinstance(family, Categorical):
        return [*(str(label) for label in family.labels[:3]), "none of them", None]
    if bounds is None:
        return [0.0, 1.0, None]
    span = bounds.upper - bounds.lower
    inside = [bounds.lower, bounds.upper, (bounds.lower + bounds.upper) / 2]
    return [*inside, bounds.lower - 10 * span, bounds.upper + 10 * span, 0.0, math.inf, None]


def _neighbouring(records: list[Record], neighbours: str, records_per_person: int) -> Iterator[tuple[tuple[Record, ...], ...]]:
    rest = tuple(records[:2])
    tables = [rest + (one,) * records_per_person for one in records]
    yield from ((rest, table) for table in tables) if neighbours == "add_remove" else combinations(tables, 2)


def _log_ratio(y: FloatArray, first: FloatArray, second: FloatArray, plan: Plan) -> FloatArray:
    """log of the density under the first table over that under the second, as declared."""
    if plan.gaussian:
        return np.asarray((((y - second) ** 2 - (y - first) ** 2) / (2 * plan.scale**2)).sum(axis=1))
    return np.asarray((np.abs(y - second) - np.abs(y - first)).sum(axis=1) / plan.scale)


def _least_epsilon(of_first: FloatArray, of_second: FloatArray) -> float:
    """From the ratios of both tables' releases: the threshold that is best on one half, with limits from the other half."""
    half = len(of_first) // 2
    levels = np.unique(np.quantile(np.concatenate([of_first[:half], of_second[:half]]), np.linspace(0.002, 0.998, 200)))

    def spent(part: slice, sign: float, level: float) -> float:
        right, wrong = (of_first[part], of_second[part]) if sign > 0 else (of_second[part], of_first[part])
        p, q = (int((sign * (x - level) >= 0).sum()) for x in (right, wrong))
        low = float(stats.beta.ppf(MISS, p, len(right) - p + 1)) if p else 0.0
        high = float(stats.beta.isf(MISS, q + 1, len(wrong) - q)) if q < len(wrong) else 1.0
        return math.log(low / high) if low > 0 else -math.inf

    return _tried(spent, product((1.0, -1.0), levels), half)


def _least_rho(of_first: FloatArray, of_second: FloatArray) -> float:
    """The order, and how far the ratio is trusted and stretched, that are best on one half, with limits from the other half."""

    def spent(part: slice, sign: float, order: float, most: float, stretch: float) -> float:
        first, second = (np.clip(sign * stretch * x[part], -most, most) for x in (of_first, of_second))
        first, second = (first, second) if sign > 0 else (second, first)
        low = _mean_limit(np.exp((order - 1) * first), math.exp((order - 1) * most), -1)
        high = _mean_limit(np.exp(order * second), math.exp(order * most), 1)
        return math.log(low) / (order - 1) - math.log(high) / order if low > 0 else -math.inf

    tests = product((1.0, -1.0), (1.1, 1.2, 1.5, 2.0, 3.0, 5.0), (0.5, 1.0, 2.0, 4.0), (1.0, 2.0, 4.0))
    return _tried(spent, tests, len(of_first) // 2)


def _tried(spent: Callable[..., float], tests: Iterable[tuple[float, ...]], half: int) -> float:
    """The test that shows most on the first half, on the second half."""
    best = max(tests, key=lambda test: spent(slice(half), *test))
    return max(0.0, spent(slice(half, None), *best))


def _mean_limit(x: FloatArray, most: float, sign: int) -> float:
    """A lower (-1) or upper (1) confidence limit of the mean of numbers between 0 and `most`: Maurer & Pontil's Theorem 4."""
    away = math.log(2 / MISS)
    return float(x.mean() + sign * (math.sqrt(2 * x.var(ddof=1) * away / len(x)) + 7 * most * away / (3 * (len(x) - 1))))
