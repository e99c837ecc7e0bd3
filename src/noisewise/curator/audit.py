"""An attack on our own releases: how much privacy do they spend at least, as seen from the outside?

The real release is made many times of two neighbouring tables, those of all tried that lie furthest apart. The best test of
one against the other (the likelihood ratio of the declared noise) is tuned on half of the releases and tried on the
other half: if it is right with probability p and wrong with probability q, then epsilon is at least log(p/q), and rho at
least the Renyi divergence of order a between both, over a, for every a. Confidence limits of p and q (Clopper & Pearson
1934) make it a lower bound that holds with the stated confidence, whatever the mechanism really does.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
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
RUNS = 20_000


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
    runs: int = RUNS,
    progress: Callable[[float], None] | None = None,
) -> Audit:
    """A lower bound on the privacy that a release with these settings spends."""
    asked = {"epsilon": epsilon, "delta": delta, "rho": rho, "neighbours": neighbours, "records_per_person": records_per_person}

    @cache
    def ready(records: tuple[Any, ...]) -> "_Table":
        return _Table.of(records, family, bounds, asked)

    first, second = max(
        ((ready(a), ready(b)) for a, b in _neighbouring(_values(family, bounds), neighbours, records_per_person)),
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
    return Audit(declared, _bound(ratios[0], ratios[1], declared.currency == "rho"), runs, (first.name, second.name))


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
    def of(cls, records: tuple[Any, ...], family: Family, bounds: Bounds | None, asked: dict[str, Any]) -> "_Table":
        with TemporaryDirectory() as folder:
            path = Path(folder) / "table.csv"  # records of nobody
            path.write_text("x\n" + "".join("\n" if x is None else f"{x}\n" for x in records))
            prepared = prepare(
                path, column="x", family=family, bounds=bounds, ledger=None, dataset=None, missing=None,
                by=None, groups=None, sizes=None, description=None, out=None, **asked,
            )  # fmt: skip
            found = prepared.column.sums(prepared.widest.lattice)
        plan = prepared.widest
        ((n, sums),) = found
        offsets = [0 if plan.public else n * offset for offset in plan.lattice.offset]
        exact = [n * plan.count_weight] * bool(plan.count_weight) + [s + o for s, o in zip(sums, offsets, strict=True)]
        shown = ", ".join("missing" if x is None else f"{x:g}" if isinstance(x, float) else repr(x) for x in records)
        return cls(f"({shown})", prepared, plan, found, np.array(exact, dtype=float))

    def distance(self, other: "_Table") -> float:
        return float(np.linalg.norm(self.exact - other.exact, ord=2 if self.plan.gaussian else 1))

    def release(self) -> list[float]:
        """The numbers of one more release, in lattice steps."""
        (made,) = self.prepared.releases(self.plan, None, self.found)
        offsets = [0 if made.n is None else made.n * offset for offset in self.plan.lattice.offset]
        parts = zip(made.statistic, self.plan.lattice.step, offsets, strict=True)
        count = [] if made.count is None else [made.count.value * self.plan.count_weight]
        return [*count, *(value / step - offset for value, step, offset in parts)]


def _values(family: Family, bounds: Bounds | None) -> list[Any]:
    """Records at every corner: on the bounds, beyond them, at 0, missing."""
    if isinstance(family, Categorical):
        return [*(str(label) for label in family.labels[:3]), "none of them", None]
    if bounds is None:
        return [0.0, 1.0, None]
    span = bounds.upper - bounds.lower
    inside = [bounds.lower, bounds.upper, (bounds.lower + bounds.upper) / 2]
    return [*inside, bounds.lower - 10 * span, bounds.upper + 10 * span, 0.0, math.inf, None]


def _neighbouring(values: list[Any], neighbours: str, records_per_person: int) -> Iterator[tuple[tuple[Any, ...], ...]]:
    rest = tuple(values[:2])
    tables = [rest + (x,) * records_per_person for x in values]
    yield from ((rest, table) for table in tables) if neighbours == "add_remove" else combinations(tables, 2)


def _log_ratio(y: FloatArray, first: FloatArray, second: FloatArray, plan: Plan) -> FloatArray:
    """log of the density under the first table over that under the second, as declared."""
    if plan.gaussian:
        return np.asarray((((y - second) ** 2 - (y - first) ** 2) / (2 * plan.scale**2)).sum(axis=1))
    return np.asarray((np.abs(y - second) - np.abs(y - first)).sum(axis=1) / plan.scale)


def _bound(of_first: FloatArray, of_second: FloatArray, rho: bool) -> float:
    """The best of the thresholds on one half of the releases, with confidence limits from the other half."""
    half = len(of_first) // 2
    best, chosen = -math.inf, (1.0, 0.0)
    levels = np.unique(np.quantile(np.concatenate([of_first[:half], of_second[:half]]), np.linspace(0.002, 0.998, 200)))
    for sign in (1.0, -1.0):
        right, wrong = (of_first, of_second) if sign > 0 else (of_second, of_first)
        for level in levels:
            p, q = ((sign * (x[:half] - level) >= 0).sum() for x in (right, wrong))
            found = _spent(int(p), int(q), half, rho)
            if found > best:
                best, chosen = found, (sign, float(level))
    sign, level = chosen
    right, wrong = (of_first, of_second) if sign > 0 else (of_second, of_first)
    p, q = (int((sign * (x[half:] - level) >= 0).sum()) for x in (right, wrong))
    return max(0.0, _spent(p, q, len(of_first) - half, rho))


def _spent(right: int, wrong: int, runs: int, rho: bool) -> float:
    """What a test with so many right and wrong answers shows to be spent, at the confidence CONFIDENCE."""
    miss = (1 - CONFIDENCE) / 2
    p = float(stats.beta.ppf(miss, right, runs - right + 1)) if right else 0.0
    q = float(stats.beta.isf(miss, wrong + 1, runs - wrong)) if wrong < runs else 1.0
    if p <= q:
        return 0.0
    if not rho:
        return math.log(p / q)
    orders = 1 + np.geomspace(1e-3, 1e3, 200)
    with np.errstate(over="ignore", divide="ignore"):
        logs = np.logaddexp(
            orders * math.log(p) + (1 - orders) * math.log(q), orders * math.log1p(-p) + (1 - orders) * math.log1p(-q)
        )
    return float(np.max(logs / (orders - 1) / orders))
