"""Pooled posteriors as every posterior is shown: of each group, and of the population."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from noisewise.inference.certificate import Certificate
from noisewise.inference.grid.marginal import Marginal
from noisewise.inference.pooling.densities import Densities, Known
from noisewise.inference.pooling.lattice import Lattice
from noisewise.inference.pooling.populations import Population
from noisewise.inference.posterior import Posterior
from noisewise.inference.solution import Batch, Solution
from noisewise.inference.value import Value
from noisewise.model.arrays import FloatArray
from noisewise.model.family import Family, Parameter

NAME = "pooled"
"""The method that pooled posteriors state."""


@final
@dataclass(frozen=True)
class Pool(Batch):
    """What all groups share."""

    densities: Densities
    certificate: Certificate

    @cached_property
    def marginal(self) -> Known:
        """Of all groups."""
        return self.densities.marginal()

    def marginals(self) -> tuple[Marginal, ...]:
        return (self.marginal,)


@final
@dataclass(frozen=True)
class OfGroup(Solution):
    """One group's pooled posterior."""

    pool: Pool
    group: int

    def found_with(self) -> tuple[Batch, int]:
        return self.pool, self.group

    @cached_property
    def _own(self) -> Known:
        whole = self.pool.marginal
        mean, sd = (moment[self.group, None] for moment in whole.moments)
        return Known(whole.of_psi.only(self.group), whole.axis, None, mean, sd)

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._own.moments

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        return self._own.quantile(q).T

    def cdf(self, parameter: int, x: FloatArray) -> FloatArray:
        return self._own.cdf(x.reshape(1, -1)).reshape(x.shape)

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        return [self._own.draw(rng, size, 0)]

    def curve(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._own.curve(0)

    def certificate(self) -> Certificate:
        return self.pool.certificate


@final
@dataclass(frozen=True)
class OfPopulation(Solution):
    """The population's mean and spread, on the lattice."""

    lattice: Lattice
    population: Population
    stated: Certificate

    def _values(self, parameter: int, at: FloatArray) -> FloatArray:
        return self.population.spread(at) if parameter else self.population.mean(at)

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        value, weight = self._values(parameter, self.lattice.at), self.lattice.weight
        mean = value @ weight
        return np.array([mean]), np.sqrt(np.array([(value - mean) ** 2 @ weight]))

    @cached_property
    def _ladders(self) -> list[tuple[FloatArray, FloatArray]]:
        """Of each parameter its values in order, and the probability of lying below each."""
        at, mass = self.lattice.fine()
        out = []
        for parameter in (0, 1):
            value = self._values(parameter, at)
            order = np.argsort(value)
            below = np.cumsum(mass[order]) - mass[order] / 2
            out.append((value[order], below))
        return out

    def quantile(self, parameter: int, q: FloatArray) -> FloatArray:
        value, below = self._ladders[parameter]
        return np.interp(q, below, value)[:, None]

    def cdf(self, parameter: int, x: FloatArray) -> FloatArray:
        value, below = self._ladders[parameter]
        return np.interp(x, value, below, left=0.0, right=1.0)

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        at = self.lattice.draw(rng, size)
        return [self._values(0, at), self._values(1, at)]

    def certificate(self) -> Certificate:
        return self.stated


@final
@dataclass(frozen=True)
class OfMeanAndSpread:
    """What the population's posterior speaks of."""

    of: Family
    kind: ClassVar[str] = "population"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The mean of theta over the population, and its sd."""
        first = self.of.parameters[0]
        return Parameter("mean", first.lower, first.upper), Parameter("spread", 0.0, np.inf)

    def labels_of(self, parameter: str) -> tuple[str, ...]:
        """None: both are one number."""
        return ("",)

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": self.kind, "of": self.of.describe()}


@final
@dataclass(frozen=True)
class FirstParameter:
    """A family of which the first parameter alone is pooled."""

    of: Family

    @property
    def kind(self) -> str:
        """The family's name."""
        return self.of.kind

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The first."""
        return self.of.parameters[:1]

    def labels_of(self, parameter: str) -> tuple[str, ...]:
        """None: it is one number."""
        return ("",)

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return self.of.describe()


@final
class PopulationPosterior(Posterior):
    """Of "mean" and "spread", the mean and sd of theta over the population."""

    def __getitem__(self, name: str) -> Value:
        return Value(self.draws[name])
