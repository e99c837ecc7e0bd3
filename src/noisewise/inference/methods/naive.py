"""naive: the noisy statistic taken for the true one. For comparison only."""

from dataclasses import replace
from typing import ClassVar, final

import numpy as np

from noisewise.inference.methods import grids
from noisewise.inference.methods.base import Method, Request, needs_conjugate
from noisewise.inference.observations import Observations
from noisewise.inference.problem import Problem
from noisewise.inference.solution import Solution
from noisewise.model.bounded_statistic import interval
from noisewise.model.priors import Prior

ONE_AT_A_TIME = "naive serves one release at a time."
POSSIBLE = 4097
"""Points of the bounds at which a statistic's range is looked for."""


@final
class Naive(Method):
    """The conjugate posterior given y, read off a grid like any other."""

    name: ClassVar[str] = "naive"
    summary: ClassVar[str] = "the noise ignored, for comparison only"
    automatic: ClassVar[bool] = False

    def refusal(self, problem: Problem) -> str | None:
        if problem.family.statistic_kind != "sums":
            return f"the {problem.family.kind} family has no sums."
        if len(problem.observations) > 1:
            return ONE_AT_A_TIME
        return needs_conjugate(self.name, problem)

    def reason(self, problem: Problem) -> str:
        return "as asked"

    def solve(self, problem: Problem, request: Request) -> list[Solution]:
        known = problem.observations[0]
        updated = tuple(
            _plain(naive_update(known, problem.prior_of(g), g)) for g in range(problem.groups)
        )
        nothing = replace(known, n=np.zeros_like(known.n), public=True, count=None, n_prior=None)
        return grids.solve(Problem(problem.family, updated, (nothing,)), request, self.name, None)


def naive_update(known: Observations, prior: Prior, group: int = 0) -> Prior:
    """The conjugate update on the noisy statistic of a group as if it were the true one, brought to
    the nearest possible value.
    """
    family, n, bounds = known.family, int(known.n[group]), known.bounds
    y = known.y[group : group + 1].copy()
    if family.statistic_kind == "counts":
        y = np.maximum(y, 0.0)
        y *= n / y.sum() if y.sum() > 0 else 0.0
        return family.update(prior, y if y.sum() > 0 else np.full(y.shape, n / y.shape[1]), n)
    if known.record.standardised:
        assert bounds is not None
        c, r = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
        s1 = np.clip(y[:, 0], -n, n)
        s2 = np.clip(y[:, 1], s1**2 / max(n, 1), n)
        y = np.stack([n * c + r * s1, n * c * c + 2 * c * r * s1 + r * r * s2], axis=1)
        return family.update(prior, y, n)
    t = family.statistics(np.linspace(*interval(family, bounds), POSSIBLE))
    low, high = t.min(axis=0), t.max(axis=0)
    if bounds is not None and bounds.outside == "redact":
        low = np.minimum(low, 0.0)
    y = np.clip(y, n * low, n * high)
    if family.polynomial:
        y[:, 1] = np.maximum(y[:, 1], y[:, 0] ** 2 / max(n, 1))
    return family.update(prior, y, n)


def _plain(prior: Prior) -> Prior:
    """A batch of one as a prior of plain numbers."""
    values = prior.hyperparameters.items()
    return type(prior)(**{name: float(np.ravel(value)[0]) for name, value in values})
