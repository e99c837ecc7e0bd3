"""Where the parameters of groups come from: a distribution with a mean and a spread, themselves
unknown.

Every population has two coordinates (v, w) on the real line, each with the standard logistic
prior: v says where it lies and w how wide it is. They stand for

  Beta(m k, (1 - m) k):  m = expit(v) uniform,            k = e^w of density 1/(1 + k)^2;
  Gamma(k, k/M):         log M uniform over a range,      k as before;
  Normal(M, tau^2):      M uniform over a range,          tau uniform up to its width.

Densities are of psi, the unconstrained coordinate of theta: on theta itself a population piled up
at a limit would be lost.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy import special

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.grid.coordinates import Axis
from noisewise.model.arrays import FloatArray
from noisewise.model.priors import Gamma as GammaPrior
from noisewise.model.priors import Prior

DECADES = 1e3
"""A mean of positive parameters lies within this factor of the weak prior's, either way."""
MEDIAN_DRAWS = 4001
"""From which a prior's median is read where it has no mean in closed form: the range about it is
six decades wide, so that a per cent is nothing.
"""
WIDEST = 200.0
"""|v| and |w| beyond which a population is no float any more."""


class Population(ABC):
    """p(psi | v, w); `at` has shape (points, 2) throughout."""

    kind: ClassVar[str]
    axis: ClassVar[Axis]

    @property
    @abstractmethod
    def middle(self) -> float:
        """Of psi."""

    @property
    def unit(self) -> float:
        """Of psi: 1 for a logit or a logarithm."""
        return 1.0

    @property
    def ends(self) -> tuple[float, float]:
        """Of psi: between them lies the population."""
        return self.axis.range

    @abstractmethod
    def decay(self, at: FloatArray) -> FloatArray:
        """How fast the log density of psi falls far below and far above, (points, 2); infinite
        where it falls ever faster.
        """

    @staticmethod
    def log_prior(at: FloatArray) -> FloatArray:
        """Of (v, w), (points,)."""
        return np.asarray((special.log_expit(at) + special.log_expit(-at)).sum(axis=1))

    @abstractmethod
    def features(self, psi: FloatArray) -> FloatArray:
        """Of psi, (..., f): the log density is linear in them."""

    @abstractmethod
    def weights(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What each feature weighs in the log density, (points, f), and its constant, (points,)."""

    @abstractmethod
    def mean(self, at: FloatArray) -> FloatArray:
        """Of theta, (points,)."""

    @abstractmethod
    def spread(self, at: FloatArray) -> FloatArray:
        """The sd of theta, (points,)."""

    @abstractmethod
    def centre(self, at: FloatArray) -> FloatArray:
        """Where the density of psi is highest, (points,)."""

    @abstractmethod
    def width(self, at: FloatArray) -> FloatArray:
        """How wide it is there: its curvature^(-1/2), (points,)."""

    @abstractmethod
    def no_narrower(self, at: FloatArray, width: FloatArray) -> FloatArray:
        """(v, w) with w moved so that the population is at least so wide, (points, 2)."""

    @abstractmethod
    def step(self, at: FloatArray) -> FloatArray:
        """d centre / d v, (points,)."""

    def log_density(self, psi: FloatArray, at: FloatArray) -> FloatArray:
        """Of psi, (..., points) for psi of shape (...)."""
        weight, constant = self.weights(at)
        return np.asarray(self.features(psi) @ weight.T + constant)

    @abstractmethod
    def draw(self, rng: np.random.Generator, at: FloatArray) -> FloatArray:
        """One theta from each population, (points,)."""


@final
@dataclass(frozen=True)
class Beta(Population):
    """Of probabilities: Beta(m k, (1 - m) k)."""

    kind: ClassVar[str] = "beta"
    axis: ClassVar[Axis] = Axis(0.0, 1.0)

    @property
    def middle(self) -> float:
        return 0.0

    def decay(self, at: FloatArray) -> FloatArray:
        return np.stack(self._shapes(at), axis=1)

    @staticmethod
    def _shapes(at: FloatArray) -> tuple[FloatArray, FloatArray]:
        return (
            np.exp(at[:, 1] + special.log_expit(at[:, 0])),
            np.exp(at[:, 1] + special.log_expit(-at[:, 0])),
        )

    def features(self, psi: FloatArray) -> FloatArray:
        return np.stack([special.log_expit(psi), special.log_expit(-psi)], axis=-1)

    def weights(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        a, b = self._shapes(at)
        return np.stack([a, b], axis=1), -special.betaln(a, b)

    def mean(self, at: FloatArray) -> FloatArray:
        return np.asarray(special.expit(at[:, 0]))

    def spread(self, at: FloatArray) -> FloatArray:
        half = special.log_expit(at[:, 0]) + special.log_expit(-at[:, 0])
        return np.asarray(np.exp((half + special.log_expit(-at[:, 1])) / 2))

    def centre(self, at: FloatArray) -> FloatArray:
        return at[:, 0]

    def width(self, at: FloatArray) -> FloatArray:
        a, b = self._shapes(at)
        return np.asarray(np.sqrt(1 / a + 1 / b))

    def no_narrower(self, at: FloatArray, width: FloatArray) -> FloatArray:
        room = special.log_expit(at[:, 0]) + special.log_expit(-at[:, 0])
        return np.stack([at[:, 0], np.minimum(at[:, 1], -2 * np.log(width) - room)], axis=1)

    def step(self, at: FloatArray) -> FloatArray:
        return np.ones(len(at))

    def draw(self, rng: np.random.Generator, at: FloatArray) -> FloatArray:
        return np.asarray(rng.beta(*self._shapes(at)))


@final
@dataclass(frozen=True)
class Gamma(Population):
    """Of positive parameters: Gamma(k, k/M), log M between two numbers."""

    kind: ClassVar[str] = "gamma"
    low: float
    high: float
    axis: ClassVar[Axis] = Axis(0.0, np.inf)

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    def decay(self, at: FloatArray) -> FloatArray:
        return np.stack([np.exp(at[:, 1]), np.full(len(at), np.inf)], axis=1)

    def centre(self, at: FloatArray) -> FloatArray:
        return np.asarray(self.low + (self.high - self.low) * special.expit(at[:, 0]))

    def features(self, psi: FloatArray) -> FloatArray:
        return np.stack([psi, np.exp(psi)], axis=-1)

    def weights(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        shape = np.exp(at[:, 1])
        log_rate = at[:, 1] - self.centre(at)
        weight = np.stack([shape, -np.exp(log_rate)], axis=1)
        return weight, shape * log_rate - special.gammaln(shape)

    def mean(self, at: FloatArray) -> FloatArray:
        return np.exp(self.centre(at))

    def spread(self, at: FloatArray) -> FloatArray:
        return np.exp(self.centre(at) - at[:, 1] / 2)

    def width(self, at: FloatArray) -> FloatArray:
        return np.exp(-at[:, 1] / 2)

    def no_narrower(self, at: FloatArray, width: FloatArray) -> FloatArray:
        return np.stack([at[:, 0], np.minimum(at[:, 1], -2 * np.log(width))], axis=1)

    def step(self, at: FloatArray) -> FloatArray:
        share = special.expit(at[:, 0])
        return np.asarray((self.high - self.low) * share * (1 - share))

    def draw(self, rng: np.random.Generator, at: FloatArray) -> FloatArray:
        shape = np.exp(at[:, 1])
        return np.asarray(rng.standard_gamma(shape) / shape * self.mean(at))


@final
@dataclass(frozen=True)
class Normal(Population):
    """Of real parameters: Normal(M, tau^2), M between two numbers and tau up to their distance."""

    kind: ClassVar[str] = "normal"
    low: float
    high: float
    axis: ClassVar[Axis] = Axis(-np.inf, np.inf)

    @property
    def middle(self) -> float:
        return (self.low + self.high) / 2

    @property
    def ends(self) -> tuple[float, float]:
        return self.low, self.high

    @property
    def unit(self) -> float:
        return self.high - self.low

    def decay(self, at: FloatArray) -> FloatArray:
        return np.full((len(at), 2), np.inf)

    def centre(self, at: FloatArray) -> FloatArray:
        return np.asarray(self.low + (self.high - self.low) * special.expit(at[:, 0]))

    def width(self, at: FloatArray) -> FloatArray:
        return np.asarray((self.high - self.low) * special.expit(at[:, 1]))

    def features(self, psi: FloatArray) -> FloatArray:
        away = psi - (self.low + self.high) / 2
        return np.stack([away, away * away], axis=-1)

    def weights(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        away, tau = self.centre(at) - (self.low + self.high) / 2, self.width(at)
        weight = np.stack([away / tau**2, -0.5 / tau**2], axis=1)
        return weight, -0.5 * (away / tau) ** 2 - np.log(tau) - 0.5 * np.log(2 * np.pi)

    def mean(self, at: FloatArray) -> FloatArray:
        return self.centre(at)

    def spread(self, at: FloatArray) -> FloatArray:
        return self.width(at)

    def no_narrower(self, at: FloatArray, width: FloatArray) -> FloatArray:
        share = np.clip(width / (self.high - self.low), 1e-300, 0.5)
        return np.stack([at[:, 0], np.maximum(at[:, 1], special.logit(share))], axis=1)

    def step(self, at: FloatArray) -> FloatArray:
        share = special.expit(at[:, 0])
        return np.asarray((self.high - self.low) * share * (1 - share))

    def draw(self, rng: np.random.Generator, at: FloatArray) -> FloatArray:
        return np.asarray(rng.normal(self.centre(at), self.width(at)))


def population_of(releases: Sequence[Release]) -> Population:
    """The population of the first parameter of the releases' family."""
    parameter = releases[0].family.parameters[0]
    if parameter.size > 1:
        raise UnsupportedCombination(
            f"{parameter.name} is several numbers; pool serves parameters of one number."
        )
    limits = (parameter.lower, parameter.upper)
    if limits == (0.0, 1.0):
        return Beta()
    if limits == (0.0, np.inf):
        by_bounds = {one.bounds: one for one in releases}  # all that the weak prior hangs on
        middles = [_middle(one) for one in by_bounds.values()]
        return Gamma(np.log(min(middles) / DECADES), np.log(max(middles) * DECADES))
    if limits == (-np.inf, np.inf):
        ends = np.array([_ends(one) for one in releases])
        return Normal(float(ends[:, 0].min()), float(ends[:, 1].max()))
    raise UnsupportedCombination(
        f"pool knows populations of probabilities, of positive and of real parameters; "
        f"{parameter.name} is none of them."
    )


def _middle(release: Release) -> float:
    """The mean of a positive parameter under the weak prior; its median if there is none."""
    weak: Prior | None = release.family.weak_prior(release.bounds)
    if weak is None:
        raise UnsupportedCombination(
            f"the {release.family.kind} family has no weak prior, from which pool takes the range "
            "of the population's mean; give the family one (weak_prior)."
        )
    if isinstance(weak, GammaPrior):
        return float(weak.shape / weak.rate)
    draws = weak.draw(np.random.default_rng(0), MEDIAN_DRAWS)[:, 0]
    return float(np.median(draws))


def _ends(release: Release) -> tuple[float, float]:
    """The range of the first statistic over the bounds: of a normal column the bounds, of a
    log-normal one their logarithms.
    """
    bounds = release.bounds
    if bounds is None:
        raise UnsupportedCombination(
            "a population of real parameters takes its range from the bounds, and this release "
            "has none."
        )
    with np.errstate(all="ignore"):
        ends = release.family.statistics(np.array([bounds.lower, bounds.upper]))[:, 0]
    if not (np.isfinite(ends).all() and ends[0] < ends[1]):
        raise UnsupportedCombination(
            "the bounds give no finite range for the population's mean; pool needs one."
        )
    return float(ends[0]), float(ends[1])
