"""Counts of categories: their probabilities exactly, by convolution or by a chain, and naively."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, final

import numpy as np

from noisewise.inference.certificate import Certificate
from noisewise.inference.chains import along
from noisewise.inference.methods.base import Method, Request
from noisewise.inference.methods.categorical import chain as chains
from noisewise.inference.methods.categorical import convolution
from noisewise.inference.methods.categorical.betas import Betas
from noisewise.inference.methods.categorical.chain import Chain
from noisewise.inference.methods.categorical.convolution import Convolution
from noisewise.inference.methods.naive import ONE_AT_A_TIME, naive_update
from noisewise.inference.problem import Problem
from noisewise.inference.solution import Solution
from noisewise.inference.surprise import conflict, predictive_tail
from noisewise.model.arrays import FloatArray
from noisewise.model.priors import Dirichlet


def _concentration(problem: Problem, group: int) -> FloatArray:
    prior = problem.prior_of(group)
    assert isinstance(prior, Dirichlet)
    return np.asarray(prior.concentration, dtype=np.float64)


@final
class ExactCounts(Method):
    """The true counts summed over: all of them at once for one release, by a chain for several."""

    name: ClassVar[str] = "exact"
    summary: ClassVar[str] = "no approximation of the likelihood"

    def refusal(self, problem: Problem) -> str | None:
        if problem.family.statistic_kind != "counts":
            return f"the {problem.family.kind} family has no counts."
        unable = [one.kind.kind for one in problem.observations if not one.shape.counts]
        if unable:
            return f"exact does not serve counts with {unable[0]} noise."
        return None

    def reason(self, problem: Problem) -> str:
        return "the true counts summed over"

    def solve(self, problem: Problem, request: Request) -> list[Solution]:
        return [self._one(problem, g, request) for g in range(problem.groups)]

    def _one(self, whole: Problem, group: int, request: Request) -> Solution:
        concentration, problem = _concentration(whole, group), whole.take(np.array([group]))
        own = problem.observations
        alone: list[chains.Begin | None] = []
        if len(own) == 1 or concentration.size <= chains.MOST_ALONE:
            solved = [convolution.solve(one, concentration) for one in own]
            if len(own) == 1 and solved[0][2] < convolution.MOST_ERROR:
                return Summed(problem, *solved[0], self.name, request.reason)
            alone = [
                made.draw if error < convolution.MOST_ERROR else None for made, _, error in solved
            ]
        released = [
            (one.y[0], float(one.n[0]) if one.public else None, chains.noise_of(one)) for one in own
        ]
        chain = chains.sample(
            released,
            concentration,
            request.generator(group),
            request.progress,
            own[0].n_prior,
            alone,
        )
        sampled = "the true counts sampled, no approximation but Monte Carlo"
        return Sampled(problem, chain, concentration, self.name, sampled)


@final
class NaiveCounts(Method):
    """The noisy counts taken for the true ones."""

    name: ClassVar[str] = "naive"
    summary: ClassVar[str] = "the noise ignored, for comparison only"
    automatic: ClassVar[bool] = False

    def refusal(self, problem: Problem) -> str | None:
        if problem.family.statistic_kind != "counts":
            return f"the {problem.family.kind} family has no counts."
        return ONE_AT_A_TIME if len(problem.observations) > 1 else None

    def reason(self, problem: Problem) -> str:
        return "as asked"

    def solve(self, problem: Problem, request: Request) -> list[Solution]:
        return [self._one(problem, g, request) for g in range(problem.groups)]

    def _one(self, whole: Problem, group: int, request: Request) -> Solution:
        problem, concentration = whole.take(np.array([group])), _concentration(whole, group)
        updated = naive_update(problem.observations[0], problem.prior_of(0))
        assert isinstance(updated, Dirichlet)
        held = np.asarray(updated.concentration)[0] - concentration
        chain = Chain(held[None, None, :], 1.0, 1.0, 1.0, 0.0)
        return Sampled(problem, chain, concentration, self.name, request.reason)


@dataclass(frozen=True)
class _OfCounts(Solution):
    """Probabilities as a mixture of Dirichlets, whose margins are mixtures of Betas."""

    def _margins(self) -> Betas:
        raise NotImplementedError

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._margins().moments

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return self._margins().quantiles(q)

    def cdf(self, parameter: int, x: FloatArray) -> FloatArray:
        return self._margins().cdf(x)


@dataclass(frozen=True)
class Sampled(_OfCounts):
    """A mixture over the counts of a chain."""

    problem: Problem
    chain: Chain
    concentration: FloatArray
    method: str
    reason: str

    @cached_property
    def _betas(self) -> Betas:
        return chains.betas(self.chain.counts, self.concentration)

    def _margins(self) -> Betas:
        return self._betas

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        return [chains.draw(self.chain.counts, self.concentration, size, rng)]

    def chains(self, rng: np.random.Generator, size: int) -> list[FloatArray] | None:
        if self.chain.counts.shape[0] < 2:
            return None
        counts = along(self.chain.counts, size)
        flat = counts.reshape(-1, counts.shape[2])
        drawn = Dirichlet(self.concentration + flat).draw(rng, len(flat))
        return [drawn.reshape(counts.shape)]

    def certificate(self) -> Certificate:
        chain = self.chain
        if chain.counts.shape[0] < 2:
            return Certificate(self.method, self.reason)
        apart = conflict(self.problem, lambda _, size, rng: self.draw(rng, size)[0], apart=0)
        return Certificate(
            self.method,
            self.reason,
            chain.error,
            predictive_tail=predictive_tail(self.problem),
            rhat=chain.rhat,
            ess=chain.ess,
            autocorrelation=chain.autocorrelation,
            conflict=apart,
        )


@dataclass(frozen=True)
class Summed(_OfCounts):
    """A mixture over all counts, by convolution."""

    problem: Problem
    convolution: Convolution
    betas: Betas
    error: float
    method: str
    reason: str

    def _margins(self) -> Betas:
        return self.betas

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        counts = self.convolution.draw(rng, size)
        return [Dirichlet(self.convolution.a + counts).draw(rng, size)]

    def certificate(self) -> Certificate:
        tail = predictive_tail(self.problem)
        return Certificate(self.method, self.reason, self.error, predictive_tail=tail)
