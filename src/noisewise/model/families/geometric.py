"""Trials up to and including the first success: 1, 2, ..."""

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
class Geometric(Family):
    """P(x) = (1 - p)^(x - 1) p. t(x) = x, eta = log(1 - p), A(eta) = eta - log(1 - e^eta), h = 1 on
    1, 2, ...
    """

    kind: ClassVar[str] = "geometric"
    parameters: ClassVar = (Parameter("probability", 0, 1),)
    integer: ClassVar = True
    support: ClassVar = (1.0, np.inf)
    prior: ClassVar = Beta

    @property
    def derived(self) -> tuple[Derived, ...]:
        return (Derived("mean", slope=-1.0, lower=1.0),)

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return (x,)

    def natural(self, theta: FloatArray) -> FloatArray:
        return np.log1p(-theta)

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return eta[..., 0] - xp.log(-xp.expm1(eta[..., 0]))

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        return np.where(x >= 1, 0.0, -np.inf)

    def mean(self, theta: FloatArray) -> FloatArray:
        return 1 / theta

    def covariance(self, theta: FloatArray) -> FloatArray:
        return ((1 - theta) / theta**2)[:, :, None]

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        return np.where(x < 1, 0.0, -np.expm1(np.log1p(-theta) * np.floor(np.maximum(x, 0))))

    def log_probability(
        self, eta: Any, lower: float, upper: float, xp: Namespace, special: Namespace
    ) -> Any:
        low, high = max(np.ceil(lower), 1.0), np.floor(upper)
        below = eta[0] * (low - 1)  # P(x >= k) = (1 - p)^(k - 1)
        return below if high == np.inf else below + xp.log(-xp.expm1(eta[0] * (high - low + 1)))

    def closed_moments(self, theta: FloatArray, lower: float, upper: float) -> IntervalMoments:
        low, high = max(np.ceil(lower), 1.0), np.floor(upper)
        eta, p = np.log1p(-theta[:, 0]), theta[:, 0]
        log_q = self.log_probability([eta], lower, upper, np, sp)
        if high == np.inf:
            return IntervalMoments(
                log_q, (low - 1 + 1 / p)[:, None], ((1 - p) / p**2)[:, None, None]
            )
        # Uniform on low..high tilted by e^(eta x): differences of the log-partition at eta and at m
        # eta (m = high - low + 1).
        m = high - low + 1
        mean, variance = _tilted_uniform(eta, m)
        return IntervalMoments(log_q, (low + mean)[:, None], variance[:, None, None])

    def weak_prior(self, bounds: Bounds | None) -> Prior:
        return Beta(1, 1)

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        return rng.geometric(np.broadcast_to(theta, (len(theta), n))).astype(float)

    def update(self, prior: Prior, statistic: FloatArray, n: int) -> Prior:
        assert isinstance(prior, Beta)
        return Beta(prior.alpha + n, prior.beta + statistic[:, 0] - n)


def _tilted_uniform(eta: FloatArray, m: float) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of k on 0..m-1 with weights e^(eta k).

    With c(h) = coth h - 1/h: mean = (m - 1)/2 + (m c(m eta/2) - c(eta/2))/2; variance is its
    derivative in eta. The poles of coth cancel, so nothing is lost as m eta goes to 0.
    """
    a, b = eta / 2, m * eta / 2
    mean = (m - 1) / 2 + (m * _langevin(b) - _langevin(a)) / 2
    variance = (m * m * _langevin_slope(b) - _langevin_slope(a)) / 4
    return mean, variance


def _langevin(h: FloatArray) -> FloatArray:
    """coth h - 1/h."""
    h2 = h * h
    series = h * (1 / 3 - h2 * (1 / 45 - h2 * (2 / 945 - h2 * (1 / 4725 - h2 * (2 / 93555)))))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(h) < 0.1, series, 1 / np.tanh(h) - 1 / h)


def _langevin_slope(h: FloatArray) -> FloatArray:
    """1/h^2 - 1/sinh(h)^2."""
    h2 = h * h
    series = 1 / 3 - h2 * (1 / 15 - h2 * (2 / 189 - h2 * (1 / 675 - h2 * (2 / 10395))))
    safe = np.clip(np.abs(h), 1e-3, 350)
    return np.where(
        np.abs(h) < 0.1, series, (1 - (safe / np.sinh(safe)) ** 2) / np.maximum(h2, 1e-6)
    )
