"""How many records groups have, where that is not public: their numbers come from one population,
which the noisy counts tell of.

Taken one by one, every number being equally likely beforehand does no harm. Of many groups it does:
where the noise of a count is as large as the group, it says of each that it has a few more records
than it has, and the population's mean, of which all of them tell, comes out too low.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy import optimize, special

from noisewise.artifact import Release
from noisewise.inference.likelihood.unknown_count import Count, log_sum
from noisewise.mechanism.noise import Noise
from noisewise.model.arrays import FloatArray
from noisewise.model.priors import Prior

FEWEST = 3
"""Fewer groups tell nothing of a population."""
LARGE = 1e6
"""From here on a ratio of gamma functions is a power, to fifteen digits."""
TRIED, CLOSE = (-4.0, -2.0, 0.0, 2.0, 4.0), 0.01
"""Logarithms of the shape to start from, and how close to the likeliest is close enough."""
SHAPES = (1e-3, 1e3)
"""Of the population: from groups of which hardly any has records to groups of one size."""


@final
@dataclass(frozen=True, slots=True)
class Sizes(Prior):
    """A negative binomial: Poisson, of a rate that is Gamma(shape, shape/mean)."""

    positive: ClassVar = ("mean", "shape")
    mean: float
    shape: float

    @property
    def sd(self) -> float:
        """Of the number of records of a group."""
        return float(np.sqrt(self.mean + self.mean**2 / self.shape))

    @property
    def said(self) -> str:
        """In words."""
        return (
            "how many records a group has is not public: their numbers are taken to come from one "
            f"population, too, of mean {self.mean:.3g} and sd {self.sd:.3g}, as the noisy counts "
            "have it"
        )

    def log_density(self, theta: FloatArray) -> FloatArray:
        n, a = theta[:, 0], self.shape
        with np.errstate(all="ignore"):
            ratio = special.gammaln(n + a) - special.gammaln(n + 1)
            ratio = np.where(n < LARGE, ratio, (a - 1) * np.log(n + a / 2))
        fall = n * np.log1p(a / self.mean) + a * np.log1p(self.mean / a)
        return np.asarray(ratio - special.gammaln(a) - fall)

    def draw(self, rng: np.random.Generator, size: int) -> FloatArray:
        rate = rng.gamma(self.shape, self.mean / self.shape, size)
        return np.asarray(rng.poisson(rate)[:, None], dtype=float)


def sizes_of(releases: Sequence[Release]) -> Sizes | None:
    """The likeliest population. Beforehand every logarithm of its mean is as likely as any other,
    and its shape a has the density 1/(1 + a)^2. None where numbers are public, or few groups tell.
    """
    counts = [one.count for one in releases if one.n is None]
    known = [one for one in counts if one is not None]
    if len(known) < max(len(counts), FEWEST) or len({type(one.noise) for one in known}) > 1:
        return None
    kind = type(known[0].noise)
    value = np.array([one.value for one in known], dtype=float)
    scale = np.array([one.noise.scales[0] for one in known])

    def badness(at: FloatArray) -> float:
        if not SHAPES[0] < np.exp(at[1]) < SHAPES[1]:
            return np.inf
        sizes = _sizes(at)
        prior = np.log(sizes.shape) - 2 * np.log1p(sizes.shape)
        return -float(log_evidence(sizes, value, scale, kind).sum() + prior)

    middle = max(float(value.mean()), float(scale.mean()) / np.sqrt(len(known)), 0.1)
    tried = [np.array([np.log(middle), log_shape]) for log_shape in TRIED]
    best = min(tried, key=badness)
    simplex = best + np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]])
    options = {"initial_simplex": simplex, "xatol": CLOSE, "fatol": CLOSE}
    return _sizes(optimize.minimize(badness, best, method="Nelder-Mead", options=options).x)


def log_evidence(
    sizes: Sizes, value: FloatArray, scale: FloatArray, kind: type[Noise]
) -> FloatArray:
    """log of the probability density of each noisy count, up to what noise of that scale has in
    common, (groups,).
    """
    count, group = Count(value, scale, kind, sizes), np.arange(value.size)
    peak, width = (np.full((value.size, 1), one) for one in (sizes.mean, sizes.sd))
    _, log_weight = count.nodes(peak, width, group)
    return log_sum(np.zeros(log_weight.shape), log_weight)


def _sizes(at: FloatArray) -> Sizes:
    mean, shape = np.exp(np.clip(at, -20.0, 60.0))
    return Sizes(float(mean), float(shape))
