"""What the mean of one column's records says of its population, whatever its shape."""

from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.inference.columns.model import Density, Model
from noisewise.model.arrays import FloatArray


@final
@dataclass(frozen=True, slots=True)
class MeanOfRecords(Model):
    """The moments of the records have the prior of a covariate's, from the bounds alone: m uniform
    on (-1, 1), the sd given it uniform on (0, sqrt(1 - m^2)). Given them, the population's mean is
    m + sigma z / sqrt(N), with sigma^2 = N sd^2 / chi^2_(N - 1): the t-interval's own law.

    Of several parts it is the mean of all their records, each part sampled from a population of its
    own.
    """

    own: int = 0
    least: int = 2

    def density(
        self, mean: FloatArray, root: FloatArray, size: FloatArray, own: FloatArray
    ) -> Density:
        nothing = np.zeros(len(mean))
        return Density(nothing, np.zeros_like(mean), np.zeros_like(root), np.zeros_like(size), own)

    def draw(
        self,
        rng: np.random.Generator,
        mean: FloatArray,
        root: FloatArray,
        size: FloatArray,
        own: FloatArray,
    ) -> list[FloatArray]:
        """The mean, and the sd of one record."""
        m, sd = mean[:, :, 0], root[:, :, 0, 0]
        share = size / size.sum(axis=1, keepdims=True)
        variance = size * sd**2 / (2 * rng.standard_gamma((size - 1) / 2))
        drawn = m + np.sqrt(variance / size) * rng.standard_normal(size.shape)
        middle = (share * drawn).sum(axis=1, keepdims=True)
        spread = (share * (variance + (drawn - middle) ** 2)).sum(axis=1, keepdims=True)
        return [middle, np.sqrt(spread)]
