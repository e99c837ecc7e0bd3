"""Is a sample of U uniform? Figures with their critical values, and a verdict in words."""

from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from noisewise.model.arrays import FloatArray

LEVELS = (0.5, 0.8, 0.9, 0.95)
"""Of the intervals whose coverage is stated."""
KS_LEVEL = 0.999
"""A calibrated method exceeds the KS limit in one setting of a thousand."""
SIGMAS = 4.5
"""And the limits on the mean and the variance of z in one of 100 000 each at 1000 trials or more,
of 10 000 at 50.
"""
BINS = 20
"""Of a histogram of U."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What N trials say of one target under one method. z = Phi^-1(U) is standard normal if beliefs
    are right.
    """

    trials: int
    ks: float
    ks_limit: float
    z_mean: float
    z_mean_limit: float
    z_variance: float
    z_variance_limit: float
    coverage: tuple[float, ...]  # of central intervals, at LEVELS
    coverage_low: tuple[float, ...]
    coverage_high: tuple[float, ...]  # where 95 % of calibrated studies' coverages lie

    @property
    def passes(self) -> bool:
        """No figure is beyond its limit."""
        return (
            self.ks < self.ks_limit
            and abs(self.z_mean) < self.z_mean_limit
            and abs(self.z_variance - 1) < self.z_variance_limit
        )

    @property
    def words(self) -> str:
        """The verdict in plain words."""
        if self.passes:
            return "calibrated, as far as these trials can tell"
        if self.z_variance > 1 + self.z_variance_limit:
            return "NOT calibrated: over-confident, the truth lies in the tails too often"
        if self.z_variance < 1 - self.z_variance_limit:
            return "NOT calibrated: under-confident, intervals are wider than they need be"
        if abs(self.z_mean) >= self.z_mean_limit:
            return f"NOT calibrated: the posterior lies too {'low' if self.z_mean > 0 else 'high'}"
        return "NOT calibrated: U is not uniform"


def judge(u: FloatArray) -> Verdict:
    """The figures of U."""
    size = u.size
    z = special.ndtri(np.clip(u, 1e-15, 1 - 1e-15))
    bands = [stats.binom.ppf(tail, size, LEVELS) / size for tail in (0.025, 0.975)]
    covered = tuple(float(np.mean(np.abs(u - 0.5) <= level / 2)) for level in LEVELS)
    return Verdict(
        size,
        ks(u),
        ks_limit(size),
        float(z.mean()),
        float(SIGMAS / np.sqrt(size)),
        float(np.mean(z**2) - z.mean() ** 2),
        float(SIGMAS * np.sqrt(2 / size)),
        covered,
        tuple(map(float, bands[0])),
        tuple(map(float, bands[1])),
    )


def ks(u: FloatArray) -> float:
    """The largest distance between the ECDF of U and the uniform's."""
    at = np.sort(u)
    above = np.arange(1, at.size + 1) / at.size - at
    return float(max(above.max(), (1 / at.size - above).max()))


def ks_limit(size: int, level: float = KS_LEVEL) -> float:
    """What the KS statistic of so many calibrated trials stays below, with probability `level`."""
    return float(stats.kstwo.ppf(level, size))


def histogram(u: FloatArray) -> tuple[FloatArray, float, float]:
    """Counts in BINS equal bins, and the range that holds them all in 95 % of
    calibrated studies.
    """
    tail = 0.025 / BINS
    low, high = stats.binom.ppf([tail, 1 - tail], u.size, 1 / BINS)
    return np.histogram(u, BINS, (0, 1))[0].astype(float), float(low), float(high)
