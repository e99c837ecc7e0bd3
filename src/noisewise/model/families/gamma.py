"""Positive amounts with a known shape: the gamma distribution with unknown rate."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy import special as sp

from noisewise.model import priors
from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family, IntervalMoments, Parameter


@final
@dataclass(frozen=True, slots=True)
class Gamma(Family):
    """t(x) = x, eta = -rate, A(eta) = -shape log(-eta), h(x) = x^(shape - 1) / Gamma(shape) on x >=
    0.
    """

    kind: ClassVar[str] = "gamma"
    parameters: ClassVar = (Parameter("rate", 0, np.inf),)
    support: ClassVar = (0.0, np.inf)
    prior: ClassVar = priors.Gamma
    shape: float

    def __post_init__(self) -> None:
        if not 0 < self.shape < np.inf:
            raise ValueError(
                f"shape of the gamma family must be positive and finite, got {self.shape}."
            )
        object.__setattr__(self, "shape", float(self.shape))

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
        return None if bounds is None else priors.Gamma(1, bounds.middle / self.shape)

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        return rng.standard_gamma(self.shape, (len(theta), n)) / theta

    def update(self, prior: priors.Prior, statistic: FloatArray, n: int) -> priors.Prior:
        assert isinstance(prior, priors.Gamma)
        return priors.Gamma(prior.shape + n * self.shape, prior.rate + statistic[:, 0])


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
