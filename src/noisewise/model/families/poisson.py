"""Counts: whole numbers from 0 with a rate."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy import special as sp

from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family, IntervalMoments, Parameter
from noisewise.model.priors import Gamma, Prior


@final
@dataclass(frozen=True, slots=True)
class Poisson(Family):
    """t(x) = x, eta = log(rate), A(eta) = e^eta, h(x) = 1/x! on 0, 1, 2, ..."""

    kind: ClassVar[str] = "poisson"
    parameters: ClassVar = (Parameter("rate", 0, np.inf),)
    integer: ClassVar = True
    support: ClassVar = (0.0, np.inf)
    prior: ClassVar = Gamma

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return (x,)

    def natural(self, theta: FloatArray) -> FloatArray:
        return np.log(theta)

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return xp.exp(eta[..., 0])

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        return np.where(x >= 0, -sp.gammaln(np.maximum(x, 0) + 1), -np.inf)

    def mean(self, theta: FloatArray) -> FloatArray:
        return theta

    def covariance(self, theta: FloatArray) -> FloatArray:
        return theta[:, :, None]

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        return np.where(x < 0, 0.0, sp.gammaincc(np.floor(np.maximum(x, 0)) + 1, theta))

    def log_probability(
        self, eta: Any, lower: float, upper: float, xp: Namespace, special: Namespace
    ) -> Any:
        return _log_probability(xp.exp(eta[0]), lower, upper, xp, special)

    def closed_moments(self, theta: FloatArray, lower: float, upper: float) -> IntervalMoments:
        rate = theta[:, 0]
        # x p(x) = rate p(x - 1), so each factorial moment is a ratio of two probabilities.
        log_q = [_log_probability(rate, lower - j, upper - j, np, sp) for j in range(3)]
        mean = rate * np.exp(log_q[1] - log_q[0])
        factorial = rate**2 * np.exp(log_q[2] - log_q[0])
        return IntervalMoments(log_q[0], mean[:, None], (factorial + mean - mean**2)[:, None, None])

    def weak_prior(self, bounds: Bounds | None) -> Prior | None:
        return None if bounds is None else Gamma(1, 1 / bounds.middle)

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        return rng.poisson(theta, (len(theta), n)).astype(float)

    def update(self, prior: Prior, statistic: FloatArray, n: int) -> Prior:
        assert isinstance(prior, Gamma)
        return Gamma(prior.shape + statistic[:, 0], prior.rate + n)


def _log_probability(
    rate: Any, lower: float, upper: float, xp: Namespace, special: Namespace
) -> Any:
    """log P(lower <= x <= upper); P(x >= k) = gammainc(k, rate) for k >= 1."""
    low, high = max(np.ceil(lower), 0.0), np.floor(upper)
    if high < low:
        return xp.log(0.0 * rate)
    if low == 0:
        return 0.0 * rate if high == np.inf else xp.log(special.gammaincc(high + 1, rate))
    above = special.gammainc(low, rate)
    if high == np.inf:
        return xp.log(above)
    in_upper_tail = low > rate
    from_above = above - special.gammainc(high + 1, rate)
    from_below = special.gammaincc(high + 1, rate) - special.gammaincc(low, rate)
    return xp.log(xp.where(in_upper_tail, from_above, from_below))
