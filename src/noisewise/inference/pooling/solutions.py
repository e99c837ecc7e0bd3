"""Pooled posteriors as every posterior is shown: of each group, and of the population."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, final

import numpy as np

from noisewise.artifact import Release
from noisewise.inference.certificate import Certificate
from noisewise.inference.grid.marginal import Marginal
from noisewise.inference.pooling.beyond import Outside, outside
from noisewise.inference.pooling.certified import certified
from noisewise.inference.pooling.conflicts import conflicts
from noisewise.inference.pooling.curves import reference_for
from noisewise.inference.pooling.densities import Densities, Known
from noisewise.inference.pooling.lattice import Lattice
from noisewise.inference.posterior import Posterior
from noisewise.inference.quantities import FromDensity, Quantity, of_one
from noisewise.inference.solution import Batch, Solution
from noisewise.inference.value import Value
from noisewise.model.arrays import FloatArray
from noisewise.model.derived import Derived
from noisewise.model.family import Family, Parameter
from noisewise.model.priors import Prior


@final
@dataclass(frozen=True)
class Pool(Batch):
    """What all groups share."""

    releases: Sequence[Release]
    densities: Densities
    prior: Prior | str | None
    """Of the second parameter, if there is one."""
    n_prior: Prior | None
    """Of the numbers of records that are not public."""

    @cached_property
    def marginal(self) -> Known:
        """Of all groups."""
        return self.densities.marginal()

    @cached_property
    def conflicts(self) -> FloatArray:
        """How probable it is that a group differs so much from a population that it belongs to."""
        population = self.densities.population
        return conflicts(self.densities, reference_for(population, self.releases[0], self.prior))

    @cached_property
    def outside(self) -> Outside:
        """What lies beyond the bounds."""
        return outside(
            self.releases, self.densities, self.marginal.of_psi, self.prior, self.n_prior
        )

    def peaks(self, group: int) -> int:
        """Separate peaks of a group's density."""
        return self.marginal.of_psi.peaks(group)

    @cached_property
    def certificate(self) -> Certificate:
        """Of all groups and the population."""
        split = [g for g in range(len(self.releases)) if self.peaks(g) > 1]
        return certified(
            self.releases, self.densities, self.conflicts, self.outside, split, self.n_prior
        )

    def marginals(self) -> tuple[Marginal, ...]:
        return (self.marginal,)

    def marginal_of(self, which: Derived) -> Marginal:
        return of_one(which, self.releases[0].family.parameters[0], self.marginal)


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

    def derived(self, which: Derived, parameters: Sequence[Parameter]) -> Quantity:
        return FromDensity(of_one(which, parameters[0], self._own))

    def draw(self, rng: np.random.Generator, size: int) -> list[FloatArray]:
        return [self._own.draw(rng, size, 0)]

    def curve(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        return self._own.curve(0)

    def certificate(self) -> Certificate:
        return replace(
            self.pool.certificate,
            beyond=self.pool.outside.groups[self.group],
            peaks=self.pool.peaks(self.group),
        )


@final
@dataclass(frozen=True)
class OfPopulation(Solution):
    """The population's mean and spread, on the lattice."""

    pool: Pool

    @property
    def lattice(self) -> Lattice:
        """Of populations."""
        return self.pool.densities.lattice

    def _values(self, parameter: int, at: FloatArray) -> FloatArray:
        population = self.pool.densities.population
        return population.spread(at) if parameter else population.mean(at)

    def moments(self, parameter: int) -> tuple[FloatArray, FloatArray]:
        densities = self.pool.densities
        mean, sd = densities.of_spread if parameter else densities.of_mean
        return np.array([mean]), np.array([sd])

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
        return self.pool.certificate


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
