"""Families of a transformed column: g(x) follows another family, g increasing.

Sums of t(g(x)), bounds g(lower) and g(upper), and the same parameters: a posterior of such a family
is one of the other family, so that its mathematics is written once, there.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from noisewise.model.arrays import FloatArray, Namespace
from noisewise.model.bounds import Bounds
from noisewise.model.family import Family, IntervalMoments
from noisewise.model.priors import Independent, Prior


class Transformed(Family):
    """x such that g(x) follows `base`."""

    base: ClassVar[Family]
    """Of g(x)."""

    @abstractmethod
    def transform(self, x: Any, xp: Namespace = np) -> Any:
        """g(x), in arithmetic and `xp.where`, `xp.log`, `xp.exp` alone."""

    @abstractmethod
    def invert(self, z: FloatArray) -> FloatArray:
        """The x of which g is z."""

    @abstractmethod
    def log_slope(self, x: FloatArray) -> FloatArray:
        """log g'(x)."""

    def image(self, x: float) -> float:
        """g of a bound, which may be the end of the support."""
        with np.errstate(all="ignore"):
            return float(self.transform(np.float64(x))) if np.isfinite(x) else float(x)

    def modelled(self, bounds: Bounds | None) -> tuple[Family, Bounds | None]:
        if bounds is None:
            return self.base, None
        lower, upper = self.image(bounds.lower), self.image(bounds.upper)
        return self.base, Bounds(lower, upper, outside=bounds.outside)

    def middle_of(self, bounds: Bounds) -> float:
        own = self.modelled(bounds)[1]
        assert own is not None
        return float(np.clip(self.invert(np.array([own.middle]))[0], bounds.lower, bounds.upper))

    def statistic(self, x: Any, xp: Namespace = np) -> tuple[Any, ...]:
        return self.base.statistic(self.transform(x, xp), xp)

    def natural(self, theta: FloatArray) -> FloatArray:
        return self.base.natural(theta)

    def log_partition(self, eta: Any, xp: Namespace = np) -> Any:
        return self.base.log_partition(eta, xp)

    def log_base_measure(self, x: FloatArray) -> FloatArray:
        inside = (np.asarray(x) >= self.support[0]) & (np.asarray(x) <= self.support[1])
        with np.errstate(all="ignore"):
            value = self.base.log_base_measure(self.transform(x)) + self.log_slope(x)
        return np.where(inside, value, -np.inf)

    def log_density(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        inside = (np.asarray(x) >= self.support[0]) & (np.asarray(x) <= self.support[1])
        with np.errstate(all="ignore"):
            value = self.base.log_density(self.transform(x), theta) + self.log_slope(x)
        return np.where(inside, value, -np.inf)

    def mean(self, theta: FloatArray) -> FloatArray:
        return self.base.mean(theta)

    def covariance(self, theta: FloatArray) -> FloatArray:
        return self.base.covariance(theta)

    def cdf(self, x: FloatArray, theta: FloatArray) -> FloatArray:
        below = np.asarray(x) <= self.support[0]
        with np.errstate(all="ignore"):
            value = self.base.cdf(
                self.transform(np.where(below, self.invert(np.ones(1)), x)), theta
            )
        return np.where(below, 0.0, value)

    def log_probability(
        self, eta: Any, lower: float, upper: float, xp: Namespace, special: Namespace
    ) -> Any:
        ends = self.image(lower), self.image(upper)
        return self.base.log_probability(eta, *ends, xp, special)

    def closed_moments(
        self, theta: FloatArray, lower: float, upper: float
    ) -> IntervalMoments | None:
        return self.base.closed_moments(theta, self.image(lower), self.image(upper))

    def standardise(self, theta: FloatArray, bounds: Bounds) -> FloatArray:
        own = self.modelled(bounds)[1]
        assert own is not None
        return self.base.standardise(theta, own)

    def weak_prior(self, bounds: Bounds | None) -> Prior | None:
        weak = self.base.weak_prior(self.modelled(bounds)[1])
        if not isinstance(weak, Independent):
            return weak
        names = [parameter.name for parameter in self.parameters]
        return Independent(**dict(zip(names, weak.distributions.values(), strict=True)))

    def simulate(self, rng: np.random.Generator, theta: FloatArray, n: int) -> FloatArray:
        return self.invert(self.base.simulate(rng, theta, n))

    def update(self, prior: Prior, statistic: FloatArray, n: int) -> Prior:
        return self.base.update(prior, statistic, n)
