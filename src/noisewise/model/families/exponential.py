"""Waiting times: a positive number with density rate e^(-rate x)."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from noisewise.model import weak
from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.derived import Derived
from noisewise.model.family import Family, IntervalMoments, Parameter
from noisewise.model.priors import Gamma, Prior


@final
@dataclass(frozen=True, slots=True)
class Exponential(Family):
    """t(x) = x, eta = -rate, A(eta) = -log(-eta), h = 1 on x >= 0."""

    kind: ClassVar[str] = "exponential"
    parameters: ClassVar = (Parameter("rate", 0, np.inf),)
    support: ClassVar = (0.0, np.inf)
    prior: ClassVar = Gamma

    @property
    def derived(self) -> tuple[Derived, ...]:
        return (Derived("mean", slope=-1.0),)

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return (x,)

    def natural(self, theta: FloatArray) -> FloatArray:
        return -theta

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return -xp.log(-eta[..., 0])

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        return np.where(x >= 0, 0.0, -np.inf)

    def mean(self, theta: FloatArray) -> FloatArray:
        return 1 / theta

    def covariance(self, theta: FloatArray) -> FloatArray:
        return (1 / theta**2)[:, :, None]

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        return np.asarray(-np.expm1(-theta * np.maximum(x, 0)))

    def log_probability(
        self, eta: Any, lower: float, upper: float, xp: Namespace, special: Namespace
    ) -> Any:
        below = eta[0] * max(lower, 0.0)
        return (
            below
            if upper == np.inf
            else below + xp.log(-xp.expm1(eta[0] * (upper - max(lower, 0.0))))
        )

    def closed_moments(self, theta: FloatArray, lower: float, upper: float) -> IntervalMoments:
        rate, low = theta[:, 0], max(lower, 0.0)
        log_q = self.log_probability([-rate], lower, upper, np, None)
        if upper == np.inf:
            return IntervalMoments(log_q, (low + 1 / rate)[:, None], (1 / rate**2)[:, None, None])
        excess, variance = truncated_unit_exponential(rate * (upper - low))
        return IntervalMoments(
            log_q, (low + excess / rate)[:, None], (variance / rate**2)[:, None, None]
        )

    def weak_prior(self, bounds: Bounds | None) -> Prior | None:
        return None if bounds is None else weak.of_rate(bounds)

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        return rng.standard_exponential((len(theta), n)) / theta

    def update(self, prior: Prior, statistic: FloatArray, n: int) -> Prior:
        assert isinstance(prior, Gamma)
        return Gamma(prior.shape + n, prior.rate + statistic[:, 0])


def truncated_unit_exponential(width: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance of e ~ Exponential(1) given e <= width.

    mean = 1 - w/(e^w - 1); variance = 1 - (h / sinh h)^2 with h = w/2. Below w = 0.2 both cancel,
    and their Taylor series (in Bernoulli numbers) serve, with the first omitted term below 1e-16
    relative.
    """
    w = np.asarray(width, dtype=float)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        h, h2 = w / 2, (w / 2) ** 2
        # w/(e^w - 1) = 1 - h + h^2/3 - h^4/45 + 2 h^6/945 - h^8/4725 + 2 h^10/93555
        mean = h - h2 * (
            1 / 3 - h2 * (1 / 45 - h2 * (2 / 945 - h2 * (1 / 4725 - h2 * (2 / 93555))))
        )
        # (h/sinh h)^2 = 1 - h^2/3 + h^4/15 - 2 h^6/189 + h^8/675 - 2 h^10/10395
        variance = h2 * (1 / 3 - h2 * (1 / 15 - h2 * (2 / 189 - h2 * (1 / 675 - h2 * (2 / 10395)))))
        large = ~(w < 0.2)
        w, h = w[large], h[large]
        mean[large] = 1 - w / np.expm1(w)
        variance[large] = 1 - (h / np.sinh(np.minimum(h, 350.0))) ** 2
    return mean, variance
