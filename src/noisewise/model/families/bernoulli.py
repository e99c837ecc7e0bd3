"""Yes or no: x is 1 with probability theta."""

from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from scipy import special

from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family, Parameter
from noisewise.model.priors import Beta, Prior


@final
@dataclass(frozen=True, slots=True)
class Bernoulli(Family):
    """P(x = 1) = probability. t(x) = x, eta = logit(probability), A(eta) = log(1 + e^eta)."""

    kind: ClassVar[str] = "bernoulli"
    parameters: ClassVar = (Parameter("probability", 0, 1),)
    integer: ClassVar = True
    bounded: ClassVar = True
    support: ClassVar = (0.0, 1.0)
    prior: ClassVar = Beta

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return (x,)

    def natural(self, theta: FloatArray) -> FloatArray:
        return np.asarray(special.logit(theta))

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return xp.logaddexp(0.0, eta[..., 0])

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        return np.where((x == 0) | (x == 1), 0.0, -np.inf)

    def mean(self, theta: FloatArray) -> FloatArray:
        return theta

    def covariance(self, theta: FloatArray) -> FloatArray:
        return (theta * (1 - theta))[:, :, None]

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        return np.where(x < 0, 0.0, np.where(x < 1, 1 - theta, 1.0))

    def weak_prior(self, bounds: Bounds | None) -> Prior:
        return Beta(1, 1)

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        return (rng.random((len(theta), n)) < theta).astype(float)

    def update(self, prior: Prior, statistic: FloatArray, n: int) -> Prior:
        assert isinstance(prior, Beta)
        return Beta(prior.alpha + statistic[:, 0], prior.beta + n - statistic[:, 0])
