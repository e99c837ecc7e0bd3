"""gibbs: chains of the paper's sampler, repaired or as printed."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from noisewise.errors import UnsupportedCombination
from noisewise.inference.certificate import Certificate
from noisewise.inference.chains import Chains
from noisewise.inference.methods import diagnostics, gibbs_sampler
from noisewise.inference.methods.base import Method, Request, needs_conjugate
from noisewise.inference.problem import Problem
from noisewise.inference.solution import Solution
from noisewise.inference.surprise import predictive_tail

LEAST_STEPS = 5000
"""Of each chain after burn-in, however few draws are asked for: quantiles need them."""


@final
class Gibbs(Method):
    """One release with a public n, whose noise is a normal of random variance."""

    name: ClassVar[str] = "gibbs"
    summary: ClassVar[str] = "chains of the paper's sampler, under the normal approximation"

    def refusal(self, problem: Problem) -> str | None:
        if len(problem.observations) > 1:
            return "gibbs serves one release at a time; use method='auto' for several."
        if (refusal := needs_conjugate(self.name, problem)) is not None:
            return refusal
        known = problem.observations[0]
        if not known.public:
            return "gibbs needs a public n; use method='auto', which sums over it."
        if not known.shape.mixes:
            return (
                "gibbs needs noise that is a normal of random variance, which "
                f"{known.kind.kind} noise is not; use method='auto'."
            )
        if np.any(known.n == 0):
            return "gibbs needs at least one record; use method='auto', which gives the prior."
        return None

    def reason(self, problem: Problem) -> str:
        return "no faster method serves this family and noise"

    def solve(self, problem: Problem, request: Request) -> list[Solution]:
        if request.chains < 1:
            raise UnsupportedCombination(f"chains must be at least 1, got {request.chains}.")
        return [self._one(problem, g, request) for g in range(problem.groups)]

    def _one(self, problem: Problem, group: int, request: Request) -> Solution:
        own = problem.take(np.array([group]))
        steps = max(LEAST_STEPS, -(-request.draws // request.chains))
        found = gibbs_sampler.chains(
            own.observations[0],
            own.prior_of(0),
            request.variant,
            request.chains,
            steps,
            request.generator(group),
            progress=request.progress,
        )
        printed = request.variant != "joint"
        reason = "the paper's algorithm as printed" if printed else request.reason
        ends = np.cumsum([parameter.size for parameter in own.family.parameters])[:-1]
        return Sampled(np.split(found, ends, axis=2), own, self.name, reason)


@dataclass(frozen=True)
class Sampled(Chains):
    """What a sampler left."""

    problem: Problem
    method: str
    reason: str

    def certificate(self) -> Certificate:
        found = diagnostics.of(np.concatenate(self.values, axis=2))
        return Certificate(
            self.method,
            self.reason,
            predictive_tail=predictive_tail(self.problem),
            rhat=float(found.rhat.max()),
            ess=float(found.ess.min()),
            autocorrelation=float(found.autocorrelation.max()),
        )
