"""Successes among a known number of trials, the same for every record."""

from dataclasses import dataclass
from numbers import Real
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
class Binomial(Family):
    """P(x) = C(trials, x) p^x (1 - p)^(trials - x): t(x) = x, eta = log(p/(1 - p)), A(eta) = trials
    log(1 + e^eta). Without bounds, a record counts as the nearest number from 0 to trials.
    """

    kind: ClassVar[str] = "binomial"
    parameters: ClassVar = (Parameter("probability", 0, 1),)
    integer: ClassVar = True
    prior: ClassVar = Beta
    trials: int

    def __post_init__(self) -> None:
        whole = isinstance(self.trials, Real) and float(self.trials).is_integer()
        if isinstance(self.trials, bool) or not whole or not 1 <= self.trials <= 1 << 40:
            raise ValueError(
                f"trials of the binomial family must be a whole number from 1, got {self.trials}."
            )
        object.__setattr__(self, "trials", int(self.trials))

    @property
    def support(self) -> tuple[float, float]:  # type: ignore[override]
        """From no success to all of them."""
        return (0.0, float(self.trials))

    @property
    def own_bounds(self) -> Bounds:
        return Bounds(0, self.trials, outside="clamp")

    @property
    def derived(self) -> tuple[Derived, ...]:
        return (Derived("mean", upper=float(self.trials)),)

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return (x,)

    def natural(self, theta: FloatArray) -> FloatArray:
        return np.asarray(sp.logit(theta))

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return self.trials * xp.logaddexp(0.0, eta[..., 0])

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        k = np.clip(x, 0, self.trials)
        value = -np.log1p(self.trials) - sp.betaln(k + 1, self.trials - k + 1)
        return np.where((x >= 0) & (x <= self.trials), value, -np.inf)

    def mean(self, theta: FloatArray) -> FloatArray:
        return self.trials * theta

    def covariance(self, theta: FloatArray) -> FloatArray:
        return (self.trials * theta * (1 - theta))[:, :, None]

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        k = np.floor(np.clip(x, 0, self.trials))
        within = sp.betainc(np.maximum(self.trials - k, 1e-300), k + 1, 1 - theta)
        return np.where(x < 0, 0.0, np.where(k >= self.trials, 1.0, within))

    def closed_moments(
        self, theta: FloatArray, lower: float, upper: float
    ) -> IntervalMoments | None:
        if lower > 0 or upper < self.trials:
            return None  # a sum over the numbers between
        return IntervalMoments(np.zeros(len(theta)), self.mean(theta), self.covariance(theta))

    def weak_prior(self, bounds: Bounds | None) -> Prior:
        return Beta(1, 1)

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        return rng.binomial(self.trials, np.broadcast_to(theta, (len(theta), n))).astype(float)

    def update(self, prior: Prior, statistic: FloatArray, n: int) -> Prior:
        assert isinstance(prior, Beta)
        return Beta(prior.alpha + statistic[:, 0], prior.beta + n * self.trials - statistic[:, 0])
