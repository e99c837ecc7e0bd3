"""Counts that vary more than the Poisson's: failures before a known number of successes."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy import special as sp

from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.derived import Derived
from noisewise.model.family import Family, IntervalMoments, Parameter
from noisewise.model.priors import Beta, Prior


@final
@dataclass(frozen=True, slots=True)
class NegativeBinomial(Family):
    """P(x) = Gamma(x + size) / (Gamma(size) x!) p^size (1 - p)^x on 0, 1, ...: t(x) = x,
    eta = log(1 - p), A(eta) = -size log(1 - e^eta). The mean is size (1 - p)/p; size may be any
    positive number.
    """

    kind: ClassVar[str] = "negative_binomial"
    parameters: ClassVar = (Parameter("probability", 0, 1),)
    integer: ClassVar = True
    support: ClassVar = (0.0, np.inf)
    prior: ClassVar = Beta
    size: float

    def __post_init__(self) -> None:
        if not 0 < self.size < np.inf:
            raise ValueError(
                "size of the negative_binomial family must be positive and finite, got "
                f"{self.size}."
            )
        object.__setattr__(self, "size", float(self.size))

    @property
    def derived(self) -> tuple[Derived, ...]:
        return (Derived("mean", slope=-1.0, shift=float(np.log(self.size))),)

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return (x,)

    def natural(self, theta: FloatArray) -> FloatArray:
        return np.log1p(-theta)

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return -self.size * xp.log(-xp.expm1(eta[..., 0]))

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        k = np.maximum(x, 0)
        value = sp.gammaln(k + self.size) - sp.gammaln(self.size) - sp.gammaln(k + 1)
        return np.where(x >= 0, value, -np.inf)

    def mean(self, theta: FloatArray) -> FloatArray:
        return self.size * (1 - theta) / theta

    def covariance(self, theta: FloatArray) -> FloatArray:
        return (self.size * (1 - theta) / theta**2)[:, :, None]

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        k = np.floor(np.maximum(x, 0))
        return np.where(x < 0, 0.0, sp.betainc(self.size, k + 1, theta))

    def closed_moments(self, theta: FloatArray, lower: float, upper: float) -> IntervalMoments:
        p = theta[:, 0]
        # x P(x; size) = size (1 - p)/p P(x - 1; size + 1), so each factorial moment is a ratio of
        # two probabilities.
        log_q = [_log_probability(self.size + j, p, lower - j, upper - j) for j in range(3)]
        odds = (1 - p) / p
        mean = self.size * odds * np.exp(log_q[1] - log_q[0])
        factorial = self.size * (self.size + 1) * odds**2 * np.exp(log_q[2] - log_q[0])
        return IntervalMoments(log_q[0], mean[:, None], (factorial + mean - mean**2)[:, None, None])

    def weak_prior(self, bounds: Bounds | None) -> Prior:
        return Beta(1, 1)

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        shape = (len(theta), n)
        rate = rng.standard_gamma(self.size, shape) * ((1 - theta) / theta)
        return rng.poisson(np.minimum(rate, 1e18)).astype(float)

    def update(self, prior: Prior, statistic: FloatArray, n: int) -> Prior:
        assert isinstance(prior, Beta)
        return Beta(prior.alpha + n * self.size, prior.beta + statistic[:, 0])


def _log_probability(size: float, p: FloatArray, lower: float, upper: float) -> FloatArray:
    """log P(lower <= x <= upper), as a difference in the tail where lower lies; P(x <= k) =
    betainc(size, k + 1, p).
    """
    low, high = max(np.ceil(lower), 0.0), np.floor(upper)
    if high < low:
        return np.full(p.shape, -np.inf)
    with np.errstate(divide="ignore"):
        if low == 0:
            whole = np.ones(p.shape) if high == np.inf else sp.betainc(size, high + 1, p)
            return np.asarray(np.log(whole))
        above = sp.betaincc(size, low, p)
        if high == np.inf:
            return np.asarray(np.log(above))
        from_above = above - sp.betaincc(size, high + 1, p)
        from_below = sp.betainc(size, high + 1, p) - sp.betainc(size, low, p)
        return np.asarray(np.log(np.where(low > size * (1 - p) / p, from_above, from_below)))
