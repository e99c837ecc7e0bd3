"""What the shares of a factor's levels say of noisy counts."""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import special

from noisewise.inference.columns.model import Density, Model
from noisewise.model.arrays import FloatArray


@final
@dataclass(frozen=True, slots=True)
class Shares(Model):
    """The shares of one factor, all as likely as any."""

    own: int = 0
    least: int = 0

    def density(
        self, mean: FloatArray, root: FloatArray, size: FloatArray, own: FloatArray
    ) -> Density:
        to_root = np.zeros_like(root)
        if mean.shape[1] == 1:  # then so are the counts of N records
            nothing = np.zeros(len(mean))
            return Density(nothing, np.zeros_like(mean), to_root, np.zeros_like(size), own)
        share = np.concatenate([1 - mean.sum(axis=2, keepdims=True), mean], axis=2)
        levels, wide = share.shape[2], size[:, :, None]
        counts = wide * np.maximum(share, 0.0)
        all_counts, total = counts.sum(axis=1, keepdims=True), size.sum(axis=1)
        value = (special.gammaln(size + 1) + (levels - 1) * np.log(size)).sum(axis=1)
        value -= special.gammaln(counts + 1).sum(axis=(1, 2))
        value += special.gammaln(all_counts + 1).sum(axis=(1, 2)) - special.gammaln(total + levels)
        to_counts = special.digamma(all_counts + 1) - special.digamma(counts + 1)
        to_mean = wide * (to_counts[:, :, 1:] - to_counts[:, :, :1])
        to_size = special.digamma(size + 1) + (levels - 1) / size
        to_size = to_size - special.digamma(total + levels)[:, None]
        to_size += (to_counts * share).sum(axis=2)
        return Density(value, to_mean, to_root, to_size, own)

    def draw(
        self,
        rng: np.random.Generator,
        mean: FloatArray,
        root: FloatArray,
        size: FloatArray,
        own: FloatArray,
    ) -> list[FloatArray]:
        """The share of every level."""
        share = np.concatenate([1 - mean.sum(axis=2, keepdims=True), mean], axis=2)
        counts = (size[:, :, None] * np.maximum(share, 0.0)).sum(axis=1)
        weights = rng.standard_gamma(1 + counts)
        return [weights / weights.sum(axis=1, keepdims=True)]
