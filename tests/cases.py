"""The list of families that every property test runs over. A new family gets its tests by one line
here.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from noisewise import Bounds, families, priors
from noisewise.model.families import Family
from noisewise.model.priors import Prior


@dataclass(frozen=True)
class Case:
    """A family, a prior to draw theta from, and intervals of x: ordinary, one-sided, and far in a
    tail.
    """

    family: Family
    prior: Prior
    intervals: tuple[tuple[float, float], ...] = ()
    derivatives: bool = True
    """Whether log P of an interval can be differentiated."""

    @property
    def name(self) -> str:
        return "-".join(
            str(value)
            for value in self.family.describe().values()
            if not isinstance(value, (tuple, type(None)))
        )

    def bounds(self, outside: str) -> list[Bounds | None]:
        finite = [interval for interval in self.intervals if np.isfinite(interval).all()]
        return [Bounds(*interval, outside=outside) for interval in finite] or [None]  # type: ignore[arg-type]

    def theta(self, rng: np.random.Generator, size: int = 7):  # type: ignore[no-untyped-def]
        return self.prior.draw(rng, size)


INF = np.inf
CASES = [
    Case(families.Bernoulli(), priors.Beta(2, 3)),
    Case(families.Categorical(["a", "b", "c"], other="c"), priors.Dirichlet([1.0, 2.0, 3.0])),
    Case(families.Categorical(4, other=0), priors.Dirichlet([2.0, 2.0, 0.5, 1.0])),
    Case(
        families.Exponential(),
        priors.Gamma(8, 4),
        ((0, 1), (0.01, 1.5), (0.3, INF), (3, 3.5), (10, INF), (12, 14)),
    ),
    Case(
        families.Poisson(),
        priors.Gamma(8, 2),
        ((0, 8), (2, 5), (0.5, 9.5), (3, INF), (25, INF), (30, 40)),
    ),
    Case(families.Geometric(), priors.Beta(4, 6), ((1, 5), (2, 9), (3, INF), (40, INF), (30, 37))),
    Case(
        families.Gamma(shape=2.5),
        priors.Gamma(9, 4),
        ((0, 2), (0.2, 3), (1, INF), (12, INF), (14, 16)),
    ),
    Case(families.Gamma(shape=0.4), priors.Gamma(9, 4), ((0, 2), (0.2, 3), (1, INF), (8, 9))),
    Case(
        families.Normal(),
        priors.NormalInverseGamma(0.5, 2.0, 6.0, 6.0),
        ((-1, 1), (-4, 4), (0, 3), (0, INF), (-INF, -1), (9, 10), (-INF, -12)),
    ),
    Case(
        families.Normal(variance=2.0),
        priors.Normal(0.5, 1.0),
        ((-1, 1), (-4, 4), (0.5, INF), (-INF, 0), (20, 22), (-INF, -25)),
    ),
    Case(
        families.Normal(mean=0.5),
        priors.InverseGamma(6.0, 6.0),
        ((-1, 1), (-4, 4), (0.5, INF), (-INF, -1), (9, 10), (-14, -12)),
    ),
    Case(
        families.LogNormal(),
        priors.NormalInverseGamma(0.5, 2.0, 6.0, 6.0),
        ((0.5, 4), (0.05, 60), (1, INF), (200, 300), (5e3, INF)),
    ),
    Case(
        families.Weibull(shape=1.7),
        priors.Gamma(8, 4),
        ((0, 1), (0.1, 1.5), (0.3, INF), (3, 3.5), (4, INF)),
    ),
    Case(families.Weibull(shape=0.6), priors.Gamma(8, 4), ((0, 1), (0.01, 5), (0.3, INF))),
    Case(
        families.Pareto(minimum=2.0),
        priors.Gamma(12, 4),
        ((2, 5), (2.5, 30), (3, INF), (500, 700), (1e4, INF)),
    ),
    Case(
        families.NegativeBinomial(size=2.5),
        priors.Beta(4, 6),
        ((0, 8), (2, 5), (0.5, 9.5), (3, INF), (40, INF), (30, 37)),
        derivatives=False,
    ),
    Case(
        families.Binomial(trials=12),
        priors.Beta(3, 4),
        ((0, 12), (2, 5), (3, 11)),
        derivatives=False,
    ),
    Case(
        families.Gamma(),
        priors.Independent(shape=stats.lognorm(0.6, scale=2), rate=stats.lognorm(0.5, scale=2)),
        ((0.1, 3), (0.02, 9), (4, 5)),
        derivatives=False,
    ),
    Case(
        families.Beta(),
        priors.Independent(alpha=stats.lognorm(0.5, scale=3), beta=stats.lognorm(0.5, scale=3)),
        ((0.1, 0.9), (0.01, 0.7), (0.8, 0.95)),
        derivatives=False,
    ),
]
CONJUGATE = [case for case in CASES if case.family.prior is not None]
TRUNCATED = [case for case in CASES if case.intervals]


def name(case: Case) -> str:
    return case.name
