"""What a model says of the moments of N records: the log density, and its gradient by hand.

A linear regression says it of its outcome's moments given those of the covariates, whatever their
shape; the joint normal says it of all of them. The coefficients, or mean and covariance, are
integrated out, and drawn exactly given the moments.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from noisewise.model.arrays import FloatArray


@dataclass(slots=True)
class Density:
    """A log density of each row, and its gradient in the mean, the root, N and the model's own
    coordinate.
    """

    value: FloatArray  # (batch,)
    to_mean: FloatArray  # (batch, parts, K)
    to_root: FloatArray  # (batch, parts, K, K): what stands above the diagonal means nothing
    to_size: FloatArray  # (batch, parts)
    to_own: FloatArray  # (batch, own)


class Model(ABC):
    """Of K numbers, with `own` coordinates of its own."""

    own: int
    least: int
    """N is larger than this."""

    @abstractmethod
    def density(
        self, mean: FloatArray, root: FloatArray, size: FloatArray, own: FloatArray
    ) -> Density:
        """Of the moments (mean, C) of the N = size records of each part."""

    @abstractmethod
    def draw(
        self,
        rng: np.random.Generator,
        mean: FloatArray,
        root: FloatArray,
        size: FloatArray,
        own: FloatArray,
    ) -> list[FloatArray]:
        """One draw of the parameters for each row."""
