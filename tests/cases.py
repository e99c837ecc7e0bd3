"""The list of families that every property test runs over. A new family gets its tests by one line
here.
"""

from dataclasses import dataclass

import numpy as np

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
]
TRUNCATED = [case for case in CASES if case.intervals]


def name(case: Case) -> str:
    return case.name
