"""Shares between 0 and 1: the beta distribution with both parameters unknown."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy import special as sp

from noisewise.errors import UnsupportedCombination
from noisewise.model import panels, priors
from noisewise.model.arrays import FloatArray, Namespace, log_gamma
from noisewise.model.bounds import Bounds
from noisewise.model.derived import Derived
from noisewise.model.family import Family, IntervalMoments, Parameter


@final
@dataclass(frozen=True, slots=True)
class Beta(Family):
    """t(x) = (log x, log(1 - x)), eta = (alpha, beta), A = log B(alpha, beta), h = 1/(x (1 - x)).

    The statistics are finite only where x is above 0 and below 1. There is no conjugate prior that
    anybody draws from: any prior of each parameter serves.
    """

    kind: ClassVar[str] = "beta"
    parameters: ClassVar = (Parameter("alpha", 0, np.inf), Parameter("beta", 0, np.inf))
    support: ClassVar = (0.0, 1.0)
    ratio: ClassVar = True

    def check_bounds(self, bounds: Bounds | None) -> None:
        super(Beta, self).check_bounds(bounds)
        if bounds is not None and not 0 < bounds.lower < bounds.upper < 1:
            raise UnsupportedCombination(
                "the beta family sums log x and log(1 - x), which are not finite at 0 and 1; the "
                "bounds must lie between, such as 0.01 and 0.99, got "
                f"{bounds.lower:g} and {bounds.upper:g}."
            )

    @property
    def derived(self) -> tuple[Derived, ...]:
        return (Derived("mean", upper=1.0, other=_less_log),)

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return (xp.log(x), xp.log(1.0 - x))

    def natural(self, theta: FloatArray) -> FloatArray:
        return theta

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        alpha, beta = eta[..., 0], eta[..., 1]
        if xp is np:
            return sp.betaln(alpha, beta)
        return log_gamma(alpha, xp) + log_gamma(beta, xp) - log_gamma(alpha + beta, xp)

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        with np.errstate(all="ignore"):
            return np.where((x > 0) & (x < 1), -np.log(x) - np.log1p(-x), -np.inf)

    def mean(self, theta: FloatArray) -> FloatArray:
        return np.asarray(sp.digamma(theta) - sp.digamma(theta.sum(axis=1))[:, None])

    def covariance(self, theta: FloatArray) -> FloatArray:
        both = -sp.polygamma(1, theta.sum(axis=1))[:, None, None]
        return np.asarray(both + np.eye(2) * sp.polygamma(1, theta)[:, :, None])

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        return np.asarray(sp.betainc(theta[:, :1], theta[:, 1:], np.clip(x, 0, 1)))

    def closed_moments(
        self, theta: FloatArray, lower: float, upper: float
    ) -> IntervalMoments | None:
        return panels.interval_moments(self, theta, lower, upper)

    def whereabouts(self, bounds: Bounds) -> tuple[tuple[float, float], tuple[float, float]]:
        low, high = float(sp.logit(bounds.lower)), float(sp.logit(bounds.upper))
        return (low - 6, high + 6), (-8.0, 20.0)

    def weak_prior(self, bounds: Bounds | None) -> priors.Prior:
        """Each about 1, where shares are even, and open over two orders of magnitude."""
        from scipy.stats import lognorm

        return priors.Independent(alpha=lognorm(s=1.5, scale=1.0), beta=lognorm(s=1.5, scale=1.0))

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        shape = (len(theta), n)
        x = rng.beta(np.broadcast_to(theta[:, :1], shape), np.broadcast_to(theta[:, 1:], shape))
        return np.clip(x, np.finfo(float).tiny, 1 - np.finfo(float).epsneg)


def _less_log(beta: FloatArray) -> FloatArray:
    """The logit of the mean is log(alpha) - log(beta)."""
    return -np.log(beta)
