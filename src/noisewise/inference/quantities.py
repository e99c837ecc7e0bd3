"""Posteriors of quantities that are functions of the parameters: off the density where there is
one, else off draws.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noisewise.inference.grid.coordinates import Axis
from noisewise.inference.grid.marginal import QUANTILES, Marginal
from noisewise.model.arrays import FloatArray
from noisewise.model.derived import Derived
from noisewise.model.family import Parameter

DRAWS = 20_000
"""Of the parameters, where a quantity has no density of its own."""
THIN = 1e3
"""A tail that falls with a higher power than this is no power law."""


class Quantity(ABC):
    """One number with a posterior."""

    @abstractmethod
    def moments(self) -> tuple[float, float]:
        """Mean and sd, infinite where there is none."""

    @abstractmethod
    def quantile(self, q: FloatArray) -> FloatArray:
        """(len(q),)."""

    @abstractmethod
    def cdf(self, x: FloatArray) -> FloatArray:
        """The probability of lying at or below x, as x."""

    @abstractmethod
    def curve(self) -> tuple[FloatArray, FloatArray] | None:
        """Values and the density there; None where there are only draws."""

    def summary(self) -> FloatArray:
        """Mean, sd and the quantiles of a summary, (5,)."""
        return np.array([*self.moments(), *self.quantile(np.array(QUANTILES))])


@dataclass(frozen=True)
class FromDensity(Quantity):
    """Off its own marginal density, of one group."""

    marginal: Marginal

    def summary(self) -> FloatArray:
        return np.asarray(self.marginal.summary[0])

    def moments(self) -> tuple[float, float]:
        mean, sd = self.marginal.moments
        return float(mean[0]), float(sd[0])

    def quantile(self, q: FloatArray) -> FloatArray:
        return np.asarray(self.marginal.quantile(q)[0])

    def cdf(self, x: FloatArray) -> FloatArray:
        return self.marginal.cdf(x.reshape(1, -1)).reshape(x.shape)

    def curve(self) -> tuple[FloatArray, FloatArray]:
        return self.marginal.curve(0)


@dataclass(frozen=True)
class FromDraws(Quantity):
    """Off draws."""

    values: FloatArray  # (draws,)

    def moments(self) -> tuple[float, float]:
        return float(self.values.mean()), float(self.values.std())

    def quantile(self, q: FloatArray) -> FloatArray:
        return np.asarray(np.quantile(self.values, q))

    def cdf(self, x: FloatArray) -> FloatArray:
        below = np.searchsorted(np.sort(self.values), x, side="right")
        return np.asarray(below / self.values.size)

    def curve(self) -> tuple[FloatArray, FloatArray] | None:
        return None


@dataclass(frozen=True)
class Nothing(Quantity):
    """Of a group for which no method gives an answer."""

    def moments(self) -> tuple[float, float]:
        return np.inf, np.inf

    def quantile(self, q: FloatArray) -> FloatArray:
        return np.full(q.shape, np.inf)

    def cdf(self, x: FloatArray) -> FloatArray:
        return np.full(x.shape, np.nan)

    def curve(self) -> None:
        return None


def of_draws(
    which: Derived, parameters: Sequence[Parameter], draws: Sequence[FloatArray]
) -> FloatArray:
    """The quantity at draws of every parameter."""
    link = which.slope * Axis.of(parameters[which.of]).psi(draws[which.of]) + which.shift
    if which.other is not None:
        link = link + which.other(draws[1])
    with np.errstate(over="ignore"):
        return np.asarray(Axis(which.lower, which.upper).theta(link))


@dataclass(frozen=True)
class Linked(Axis):
    """The axis of a quantity of one parameter, along the grid of that parameter."""

    grid: Axis
    """That along which the parameter's density is known."""
    own: Axis
    """The parameter's own, where nothing limits it."""
    slope: float
    shift: float

    @property
    def falls(self) -> bool:
        return self.slope < 0

    @property
    def range(self) -> tuple[float, float]:
        return self.grid.range

    @property
    def _target(self) -> Axis:
        return Axis(self.lower, self.upper)

    def _own(self, psi: FloatArray) -> FloatArray:
        return psi if self.grid == self.own else self.own.psi(self.grid.theta(psi))

    def theta(self, psi: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # a tail that no float holds
            return self._target.theta(self.slope * self._own(psi) + self.shift)

    def psi(self, theta: FloatArray) -> FloatArray:
        own = (self._target.psi(theta) - self.shift) / self.slope
        with np.errstate(over="ignore"):  # clipped below
            along = own if self.grid == self.own else self.grid.psi(self.own.theta(own))
        return np.asarray(np.clip(along, *self.range))

    def log_jacobian(self, psi: FloatArray) -> FloatArray:
        own = self._own(psi)
        value = self._target.log_jacobian(self.slope * own + self.shift) + np.log(abs(self.slope))
        if self.grid == self.own:
            return np.asarray(value)
        return np.asarray(value + self.grid.log_jacobian(psi) - self.own.log_jacobian(own))


def of_one(which: Derived, parameter: Parameter, known: Marginal) -> Marginal:
    """The densities of a quantity of one parameter, of all groups, from the parameter's."""
    own = Axis.of(parameter)
    axis = Linked(which.lower, which.upper, known.axis, own, which.slope, which.shift)
    return Marginal(known.of_psi, axis, _tail_index(which, own, known))


def _tail_index(which: Derived, own: Axis, known: Marginal) -> FloatArray | None:
    """The power with which a quantity without an upper end falls far out; None where nothing is
    known.
    """
    if np.isfinite(which.upper):
        return None
    if np.isinf(own.lower):  # the exponential of a power law falls with none
        heavy = known.index is not None and (known.index < THIN).any()
        return np.ones(known.groups) if heavy else None
    decay = known.of_psi.decay
    if decay is not None:
        return np.asarray(decay[:, 1 if which.slope > 0 else 0] / abs(which.slope) + 1)
    if known.index is not None and which.slope > 0:
        return np.asarray((known.index - 1) / which.slope + 1)
    return None
