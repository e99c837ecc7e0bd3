"""Two releases of the same records, drawn anew from a model: the sum of a statistic, and how many
records fall in each bin of a histogram.
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.artifact import Release
from noisewise.errors import UnsupportedCombination
from noisewise.inference.observations import Observations
from noisewise.inference.simulation import multinomial, records, standard, sums_of
from noisewise.model.arrays import FloatArray
from noisewise.model.bounded_statistic import NOTHING
from noisewise.model.columns import Bins
from noisewise.model.moments import interval_moments
from noisewise.model.transformed import Transformed

MOST_DRAWN = 3e7
"""Records that are drawn one by one; of more, the sums within each bin are normal."""
PIECE = 1 << 22
"""Records that are held at once."""


@final
@dataclass(frozen=True, slots=True)
class Binned:
    """The records behind observations, and bins that they fall in; those beyond fall in none."""

    observations: Observations
    edges: FloatArray  # (bins + 1,), in the units of the release; of whole numbers halfway between

    @classmethod
    def of(cls, release: Release, observations: Observations, bins: Bins) -> "Binned":
        """The bins as the release's own records meet them: of a transformed column, or a
        standardised one.
        """
        edges, family = np.array(bins.edges), release.family
        if isinstance(family, Transformed):
            edges = np.array([family.image(edge) for edge in edges])
        record = observations.record
        if record.standardised:
            assert record.bounds is not None
            edges = (edges - record.bounds.middle) / record.bounds.radius
        if family.integer:  # a bin holds its lower edge, the last one both
            edges = np.append(np.ceil(edges[:-1]) - 0.5, np.floor(edges[-1]) + 0.5)
        return cls(observations, edges)

    @property
    def bins(self) -> int:
        """How many there are."""
        return self.edges.size - 1

    def shares(self, theta: FloatArray) -> FloatArray:
        """The probability of each bin at each theta, (batch, bins)."""
        own, _ = self.observations.record.units(theta)
        with np.errstate(all="ignore"):
            return np.clip(np.diff(self.observations.family.cdf(self.edges, own), axis=1), 0.0, 1.0)

    def draw(
        self, theta: FloatArray, n: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """The sums of t^ over n records at each theta, (batch, d), and how many of the same records
        fall in each bin, (batch, bins).
        """
        if n.sum() > MOST_DRAWN:
            return self._by_bins(theta, n, rng)
        sums, counts = np.empty((len(theta), self.observations.dimension)), self._none(theta)
        step = max(1, int(PIECE // max(1.0, n.max())))
        for start in range(0, len(theta), step):
            rows = slice(start, start + step)
            try:
                x = records(self.observations, theta[rows], n[rows], rng)
            except (UnsupportedCombination, ValueError):  # the family has no sampler
                sums[rows], counts[rows] = self._by_bins(theta[rows], n[rows], rng)
                continue
            sums[rows], counts[rows] = sums_of(self.observations, x), self._counts(x)
        return sums, counts

    def _none(self, theta: FloatArray) -> FloatArray:
        return np.zeros((len(theta), self.bins))

    def _counts(self, x: FloatArray) -> FloatArray:
        """How many records of each row lie in each bin; NaN lies beyond all of them."""
        cell = np.searchsorted(self.edges, x, side="right")  # 0 below, bins + 1 beyond
        row = np.arange(len(x))[:, None] * (self.bins + 2)
        every = np.bincount((row + cell).ravel(), minlength=len(x) * (self.bins + 2))
        return every.reshape(len(x), -1)[:, 1:-1].astype(float)

    def _by_bins(
        self, theta: FloatArray, n: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """How many of very many records lie in each bin and on either side; then the sum of those
        in a bin is normal.
        """
        family, record = self.observations.family, self.observations.record
        own, bounds = record.units(theta)
        below = np.clip(family.cdf(self.edges[:1], own), 0.0, 1.0)
        shares = self.shares(theta)
        above = np.maximum(1 - below - shares.sum(axis=1, keepdims=True), 0.0)
        number = multinomial(n, np.concatenate([below, shares, above], axis=1), rng)
        sums = np.zeros((len(theta), self.observations.dimension))
        for j in range(self.bins):
            k = number[:, j + 1 : j + 2]
            low, high = self.edges[j], self.edges[j + 1]
            if family.integer:
                low, high = np.ceil(low), np.floor(high)
            if low == high:
                sums += k * family.statistics(low)
            elif low < high:
                inside = interval_moments(family, own, low, high, "auto", NOTHING)
                z, sd = standard(inside.covariance, rng)
                sums += np.where(k > 0, k * inside.mean + np.sqrt(k) * sd * z, 0.0)
        if bounds is not None and bounds.outside == "clamp":
            ends = family.statistics(np.array([bounds.lower, bounds.upper]))
            sums += number[:, :1] * ends[0] + number[:, -1:] * ends[1]
        if record.steps is not None:
            sums = np.round(sums / record.steps) * record.steps
        return sums, number[:, 1:-1]
