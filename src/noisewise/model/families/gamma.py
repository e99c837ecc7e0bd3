"""Positive amounts: the gamma distribution with its rate unknown, or its shape too."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy import special as sp

from noisewise.errors import UnsupportedCombination
from noisewise.model import panels, priors, weak
from noisewise.model.arrays import FloatArray, Namespace, log_gamma
from noisewise.model.bounds import Bounds
from noisewise.model.derived import Derived
from noisewise.model.family import REGISTRY, Family, IntervalMoments, Parameter


class GammaFamily(Family):
    """What both have in common."""

    kind: ClassVar[str] = "gamma"
    support: ClassVar = (0.0, np.inf)


@final
@dataclass(frozen=True, slots=True)
class GammaKnownShape(GammaFamily):
    """t(x) = x, eta = -rate, A(eta) = -shape log(-eta), h(x) = x^(shape - 1) / Gamma(shape) on x >=
    0.
    """

    parameters: ClassVar = (Parameter("rate", 0, np.inf),)
    prior: ClassVar = priors.Gamma
    shape: float

    def __post_init__(self) -> None:
        if not 0 < self.shape < np.inf:
            raise ValueError(
                f"shape of the gamma family must be positive and finite, got {self.shape}."
            )
        object.__setattr__(self, "shape", float(self.shape))

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind, "shape": self.shape}

    @property
    def derived(self) -> tuple[Derived, ...]:
        return (Derived("mean", slope=-1.0, shift=float(np.log(self.shape))),)

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return (x,)

    def natural(self, theta: FloatArray) -> FloatArray:
        return -theta

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return -self.shape * xp.log(-eta[..., 0])

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        inside = sp.xlogy(self.shape - 1, np.maximum(x, 0)) - sp.gammaln(self.shape)
        return np.where(x >= 0, inside, -np.inf)

    def mean(self, theta: FloatArray) -> FloatArray:
        return self.shape / theta

    def covariance(self, theta: FloatArray) -> FloatArray:
        return (self.shape / theta**2)[:, :, None]

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        return np.asarray(sp.gammainc(self.shape, theta * np.maximum(x, 0)))

    def log_probability(
        self, eta: Any, lower: float, upper: float, xp: Namespace, special: Namespace
    ) -> Any:
        return log_gamma_probability(self.shape, -eta[0], lower, upper, xp, special)

    def closed_moments(self, theta: FloatArray, lower: float, upper: float) -> IntervalMoments:
        rate = theta[:, 0]
        # x p(x; shape) is proportional to p(x; shape + 1), so each moment is a ratio of two
        # probabilities.
        log_q = [
            log_gamma_probability(self.shape + j, rate, lower, upper, np, sp) for j in range(3)
        ]
        mean = self.shape / rate * np.exp(log_q[1] - log_q[0])
        second = self.shape * (self.shape + 1) / rate**2 * np.exp(log_q[2] - log_q[0])
        return IntervalMoments(log_q[0], mean[:, None], (second - mean**2)[:, None, None])

    def weak_prior(self, bounds: Bounds | None) -> priors.Prior | None:
        return None if bounds is None else weak.of_rate(bounds, self.shape)

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        return rng.standard_gamma(self.shape, (len(theta), n)) / theta

    def update(self, prior: priors.Prior, statistic: FloatArray, n: int) -> priors.Prior:
        assert isinstance(prior, priors.Gamma)
        return priors.Gamma(prior.shape + n * self.shape, prior.rate + statistic[:, 0])


@final
@dataclass(frozen=True, slots=True)
class GammaBoth(GammaFamily):
    """t(x) = (x, log x), eta = (-rate, shape), A = log Gamma(shape) - shape log(rate), h = 1/x.

    The statistic log x is finite only where x is above 0. There is no conjugate prior that anybody
    draws from: any prior of each parameter serves.
    """

    parameters: ClassVar = (Parameter("shape", 0, np.inf), Parameter("rate", 0, np.inf))
    ratio: ClassVar = True

    def describe(self) -> dict[str, Any]:
        return {"kind": self.kind}

    def check_bounds(self, bounds: Bounds | None) -> None:
        super(GammaBoth, self).check_bounds(bounds)
        if bounds is not None and bounds.lower <= 0:
            raise UnsupportedCombination(
                "the gamma family of unknown shape sums log x, which is not finite at 0; the lower "
                f"bound must be above 0, such as {bounds.upper / 1000:g}, got {bounds.lower:g}."
            )

    @property
    def derived(self) -> tuple[Derived, ...]:
        return (Derived("mean", other=_less_log), Derived("sd", slope=0.5, other=_less_log))

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return (x, xp.log(x))

    def natural(self, theta: FloatArray) -> FloatArray:
        return np.stack([-theta[:, 1], theta[:, 0]], axis=-1)

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return log_gamma(eta[..., 1], xp) - eta[..., 1] * xp.log(-eta[..., 0])

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(x > 0, -np.log(x), -np.inf)

    def log_density(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        # Not by eta . t(x) - A: of a large shape its terms cancel.
        shape, rate = theta[:, :1], theta[:, 1:]
        with np.errstate(all="ignore"):
            z = np.log(x) - np.log(shape / rate)  # from the mean
            value = -shape * (np.expm1(z) - z) - log_gamma_excess(shape) - np.log(x)
        return np.where(np.asarray(x) > 0, value, -np.inf)

    def mean(self, theta: FloatArray) -> FloatArray:
        shape, rate = theta[:, 0], theta[:, 1]
        return np.stack([shape / rate, sp.digamma(shape) - np.log(rate)], axis=-1)

    def covariance(self, theta: FloatArray) -> FloatArray:
        shape, rate = theta[:, 0], theta[:, 1]
        both, logs = 1 / rate, sp.polygamma(1, shape)
        return np.stack(
            [np.stack([shape / rate**2, both], -1), np.stack([both, logs], -1)], axis=-1
        )

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        return np.asarray(sp.gammainc(theta[:, :1], theta[:, 1:] * np.maximum(x, 0)))

    def closed_moments(
        self, theta: FloatArray, lower: float, upper: float
    ) -> IntervalMoments | None:
        return panels.interval_moments(self, theta, lower, upper)

    def whereabouts(self, bounds: Bounds) -> tuple[tuple[float, float], tuple[float, float]]:
        low, high = np.log(bounds.lower), np.log(bounds.upper)
        return (low - 6, high + 6), (-high - 8, 20 - low)

    def weak_prior(self, bounds: Bounds | None) -> priors.Prior | None:
        """The shape about 1 and the rate about what then gives a mean in the middle, each open over
        two orders of magnitude.
        """
        if bounds is None:
            return None
        from scipy.stats import lognorm

        return priors.Independent(
            shape=lognorm(s=1.5, scale=1.0), rate=lognorm(s=1.5, scale=1 / bounds.middle)
        )

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        shape, rate = theta[:, :1], theta[:, 1:]
        x = rng.standard_gamma(np.broadcast_to(shape, (len(theta), n))) / rate
        return np.maximum(x, np.finfo(float).tiny)  # of a tiny shape, which rounds to 0


def _less_log(rate: FloatArray) -> FloatArray:
    """The mean is shape / rate, and the sd is the root of the shape over the rate."""
    return -np.log(rate)


def log_gamma_excess(shape: FloatArray) -> FloatArray:
    """log Gamma(shape) - shape log(shape) + shape, by Stirling's series where the terms would
    cancel.
    """
    large = np.maximum(shape, 30.0)
    inverse = 1 / large
    series = inverse / 12 - inverse**3 / 360 + inverse**5 / 1260
    stirling = 0.5 * np.log(2 * np.pi * inverse) + series
    small = np.minimum(shape, 30.0)
    plain = sp.gammaln(small) - sp.xlogy(small, small) + small
    return np.where(shape > 30.0, stirling, plain)


def Gamma(shape: float | None = None) -> GammaFamily:
    """The gamma family of the given shape, or with its shape unknown too."""
    return GammaBoth() if shape is None else GammaKnownShape(shape)


REGISTRY[GammaFamily.kind] = Gamma


def log_gamma_probability(
    shape: float, rate: Any, lower: float, upper: float, xp: Namespace, special: Namespace
) -> Any:
    """log P(lower <= x <= upper) for x ~ Gamma(shape, rate), as a difference in the tail where
    lower lies.
    """
    low = max(lower, 0.0)
    if low == 0:
        return 0.0 * rate if upper == np.inf else xp.log(special.gammainc(shape, rate * upper))
    above = special.gammaincc(shape, rate * low)
    if upper == np.inf:
        return xp.log(above)
    in_upper_tail = rate * low > shape
    from_above = above - special.gammaincc(shape, rate * upper)
    from_below = special.gammainc(shape, rate * upper) - special.gammainc(shape, rate * low)
    return xp.log(xp.where(in_upper_tail, from_above, from_below))
