"""Measurements: the normal distribution with mean, variance or both unknown."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy import special as sp

from noisewise.model import priors, weak
from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.derived import Derived
from noisewise.model.families.truncated_normal import (
    log_normal_probability,
    truncated_normal_moments,
)
from noisewise.model.family import REGISTRY, Family, IntervalMoments, Parameter

_MEAN = Parameter("mean", -np.inf, np.inf)
_VARIANCE = Parameter("variance", 0, np.inf)


class NormalFamily(Family):
    """What the three have in common: each turns its theta into (mean, variance), and that gives the
    rest.
    """

    kind: ClassVar[str] = "normal"
    unknown: ClassVar[str]
    support: ClassVar = (-np.inf, np.inf)

    @property
    def derived(self) -> tuple[Derived, ...]:
        places = [j for j, one in enumerate(self.parameters) if one.name == "variance"]
        return tuple(Derived("sd", of=j, slope=0.5) for j in places)

    @abstractmethod
    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of x, each of shape (batch,)."""

    def log_density(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        # Not by eta . t(x) - A: with a mean far from 0 its terms cancel.
        mean, variance = self.moments(theta)
        z2 = (x - mean[:, None]) ** 2 / variance[:, None]
        return np.asarray(-0.5 * (z2 + np.log(2 * np.pi * variance)[:, None]))

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        mean, variance = self.moments(theta)
        return np.asarray(sp.ndtr((x - mean[:, None]) / np.sqrt(variance)[:, None]))

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        mean, variance = self.moments(theta)
        return mean[:, None] + np.sqrt(variance)[:, None] * rng.standard_normal((len(theta), n))


@final
@dataclass(frozen=True, slots=True)
class NormalBoth(NormalFamily):
    """t(x) = (x, x^2), eta = (mean/variance, -1/(2 variance)), A = -eta1^2/(4 eta2) - log(-2
    eta2)/2, h = 1/sqrt(2 pi).
    """

    unknown: ClassVar = "both"
    parameters: ClassVar = (_MEAN, _VARIANCE)
    polynomial: ClassVar = True
    prior: ClassVar = priors.NormalInverseGamma

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "unknown": self.unknown}

    def weak_prior(self, bounds: Bounds | None) -> priors.Prior | None:
        return None if bounds is None else weak.of_normal(bounds)

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theta[:, 0], theta[:, 1]

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return (x, x * x)

    def natural(self, theta: FloatArray) -> FloatArray:
        mean, variance = self.moments(theta)
        return np.stack([mean / variance, -0.5 / variance], axis=-1)

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return -(eta[..., 0] ** 2) / (4 * eta[..., 1]) - 0.5 * xp.log(-2 * eta[..., 1])

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        return np.full(np.shape(x), -0.5 * np.log(2 * np.pi))

    def mean(self, theta: FloatArray) -> FloatArray:
        mean, variance = self.moments(theta)
        return np.stack([mean, mean**2 + variance], axis=-1)

    def covariance(self, theta: FloatArray) -> FloatArray:
        return _covariance_of_powers(
            *self.moments(theta),
            np.ones(len(theta)),
            np.zeros(len(theta)),
            np.full(len(theta), 2.0),
        )

    def log_probability(
        self, eta: Any, lower: float, upper: float, xp: Namespace, special: Namespace
    ) -> Any:
        variance = -0.5 / eta[1]
        return log_normal_probability(
            eta[0] * variance, xp.sqrt(variance), lower, upper, xp, special
        )

    def closed_moments(self, theta: FloatArray, lower: float, upper: float) -> IntervalMoments:
        mean, variance = self.moments(theta)
        log_q, m1, m2, v11, v12, v22 = truncated_normal_moments(
            mean, np.sqrt(variance), lower, upper
        )
        t1 = mean + np.sqrt(variance) * m1
        t2 = mean**2 + 2 * mean * np.sqrt(variance) * m1 + variance * m2
        return IntervalMoments(
            log_q, np.stack([t1, t2], -1), _covariance_of_powers(mean, variance, v11, v12, v22)
        )

    def standardise(self, theta: FloatArray, bounds: Bounds) -> FloatArray:
        centre, radius = (bounds.lower + bounds.upper) / 2, (bounds.upper - bounds.lower) / 2
        return np.stack([(theta[:, 0] - centre) / radius, theta[:, 1] / radius**2], axis=-1)

    def update(self, prior: priors.Prior, statistic: FloatArray, n: int) -> priors.Prior:
        assert isinstance(prior, priors.NormalInverseGamma)
        strength = prior.strength + n
        # Sums about the prior mean: the same as the textbook form, but a mean far from 0 does not
        # cancel.
        shifted = statistic[:, 0] - n * prior.mean
        squares = statistic[:, 1] - 2 * prior.mean * statistic[:, 0] + n * prior.mean**2
        scale = prior.scale + 0.5 * (squares - shifted**2 / strength)
        return priors.NormalInverseGamma(
            prior.mean + shifted / strength, strength, prior.shape + n / 2, scale
        )


@final
@dataclass(frozen=True, slots=True)
class NormalKnownVariance(NormalFamily):
    """t(x) = x, eta = mean/variance, A = variance eta^2 / 2, h = the normal density of mean 0 and
    that variance.
    """

    unknown: ClassVar = "mean"
    parameters: ClassVar = (_MEAN,)
    prior: ClassVar = priors.Normal
    variance: float

    def __post_init__(self) -> None:
        if not 0 < self.variance < np.inf:
            raise ValueError(
                f"variance of the normal family must be positive and finite, got {self.variance}."
            )
        object.__setattr__(self, "variance", float(self.variance))

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "unknown": self.unknown, "variance": self.variance}

    def weak_prior(self, bounds: Bounds | None) -> priors.Prior | None:
        return None if bounds is None else priors.Normal(bounds.middle, 2 * bounds.radius)

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return theta[:, 0], np.full(len(theta), self.variance)

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return (x,)

    def natural(self, theta: FloatArray) -> FloatArray:
        return theta / self.variance

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return self.variance * eta[..., 0] ** 2 / 2

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        return np.asarray(-0.5 * (x * x / self.variance + np.log(2 * np.pi * self.variance)))

    def mean(self, theta: FloatArray) -> FloatArray:
        return theta

    def covariance(self, theta: FloatArray) -> FloatArray:
        return np.full((len(theta), 1, 1), self.variance)

    def log_probability(
        self, eta: Any, lower: float, upper: float, xp: Namespace, special: Namespace
    ) -> Any:
        return log_normal_probability(
            eta[0] * self.variance, np.sqrt(self.variance), lower, upper, xp, special
        )

    def closed_moments(self, theta: FloatArray, lower: float, upper: float) -> IntervalMoments:
        mean, variance = self.moments(theta)
        log_q, m1, _, v11, _, _ = truncated_normal_moments(mean, np.sqrt(variance), lower, upper)
        return IntervalMoments(
            log_q, (mean + np.sqrt(variance) * m1)[:, None], (variance * v11)[:, None, None]
        )

    def update(self, prior: priors.Prior, statistic: FloatArray, n: int) -> priors.Prior:
        assert isinstance(prior, priors.Normal)
        precision = prior.sd**-2.0 + n / self.variance
        mean = (prior.mean * prior.sd**-2.0 + statistic[:, 0] / self.variance) / precision
        return priors.Normal(mean, np.broadcast_to(precision**-0.5, mean.shape))


@final
@dataclass(frozen=True, slots=True)
class NormalKnownMean(NormalFamily):
    """t(x) = (x - mean)^2, eta = -1/(2 variance), A = -log(-2 eta)/2, h = 1/sqrt(2 pi). The field
    is `mean_`: `mean` is E t.
    """

    unknown: ClassVar = "variance"
    parameters: ClassVar = (_VARIANCE,)
    prior: ClassVar = priors.InverseGamma
    mean_: float

    def __post_init__(self) -> None:
        if not -np.inf < self.mean_ < np.inf:
            raise ValueError(f"mean of the normal family must be finite, got {self.mean_}.")
        object.__setattr__(self, "mean_", float(self.mean_))

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "unknown": self.unknown, "mean": self.mean_}

    def weak_prior(self, bounds: Bounds | None) -> priors.Prior | None:
        return None if bounds is None else weak.of_variance(bounds)

    def moments(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.full(len(theta), self.mean_), theta[:, 0]

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return ((x - self.mean_) * (x - self.mean_),)

    def natural(self, theta: FloatArray) -> FloatArray:
        return -0.5 / theta

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return -0.5 * xp.log(-2 * eta[..., 0])

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        return np.full(np.shape(x), -0.5 * np.log(2 * np.pi))

    def mean(self, theta: FloatArray) -> FloatArray:
        return theta

    def covariance(self, theta: FloatArray) -> FloatArray:
        return (2 * theta**2)[:, :, None]

    def log_probability(
        self, eta: Any, lower: float, upper: float, xp: Namespace, special: Namespace
    ) -> Any:
        return log_normal_probability(self.mean_, xp.sqrt(-0.5 / eta[0]), lower, upper, xp, special)

    def closed_moments(self, theta: FloatArray, lower: float, upper: float) -> IntervalMoments:
        mean, variance = self.moments(theta)
        log_q, _, m2, _, _, v22 = truncated_normal_moments(mean, np.sqrt(variance), lower, upper)
        return IntervalMoments(log_q, (variance * m2)[:, None], (variance**2 * v22)[:, None, None])

    def update(self, prior: priors.Prior, statistic: FloatArray, n: int) -> priors.Prior:
        assert isinstance(prior, priors.InverseGamma)
        return priors.InverseGamma(prior.shape + n / 2, prior.scale + statistic[:, 0] / 2)


def _covariance_of_powers(
    mean: FloatArray, variance: FloatArray, v11: FloatArray, v12: FloatArray, v22: FloatArray
) -> FloatArray:
    """Covariance of (x, x^2), x = mean + sd z, from the covariances v of (z, z^2)."""
    sd = np.sqrt(variance)
    c11 = variance * v11
    c12 = 2 * mean * c11 + sd**3 * v12
    c22 = 4 * mean**2 * c11 + 4 * mean * sd**3 * v12 + variance**2 * v22
    return np.stack([np.stack([c11, c12], -1), np.stack([c12, c22], -1)], -1)


def Normal(
    *, mean: float | None = None, variance: float | None = None, unknown: str | None = None
) -> NormalFamily:
    """The normal family: both parameters unknown, or the one that is not given here."""
    if mean is not None and variance is not None:
        raise ValueError(
            "a normal family with mean and variance both known has no parameter left; "
            "leave one out."
        )
    family: NormalFamily = NormalBoth()
    if variance is not None:
        family = NormalKnownVariance(variance)
    if mean is not None:
        family = NormalKnownMean(mean)
    if unknown not in (None, family.unknown):
        raise ValueError(
            f"unknown={unknown!r} does not fit what is given; a known parameter needs its value."
        )
    return family


REGISTRY[NormalFamily.kind] = Normal
