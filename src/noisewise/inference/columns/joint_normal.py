"""What a joint normal says of noisy moments."""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import special

from noisewise.inference.columns import matrices
from noisewise.inference.columns.matrices import times
from noisewise.inference.columns.model import Density, Model
from noisewise.inference.columns.sizes import log_gamma_ratio
from noisewise.model.arrays import FloatArray


@final
@dataclass(frozen=True, slots=True)
class JointNormal(Model):
    """z ~ N(mu, Sigma); mu given Sigma ~ N(mean, Sigma/strength), Sigma ~ InverseWishart(degrees,
    scale).
    """

    centre: FloatArray  # (K,)
    strength: float
    degrees: float
    scale: FloatArray  # (K, K)
    own: int = 0

    @property
    def least(self) -> int:  # type: ignore[override]
        return len(self.centre)

    def density(
        self, mean: FloatArray, root: FloatArray, size: FloatArray, own: FloatArray
    ) -> Density:
        if mean.shape[1] == 1:
            one = self._of_all(mean[:, 0], root[:, 0], size[:, 0])
            return Density(one[0], one[1][:, None], one[2][:, None], one[3][:, None], own)
        # the marginal likelihood is that of all records; their volume that of the parts
        pooled = Pooled.of(mean, root, size)
        value, to_mean, to_root, to_size = self._of_all(pooled.mean, pooled.root, pooled.size)
        volume, to_volume_root, to_volume_size = _volume(pooled.root, pooled.size)
        found = pooled.back(
            mean, root, size, to_mean, to_root - to_volume_root, to_size - to_volume_size
        )
        batch, parts, q = mean.shape
        apart, to_apart_root, to_apart_size = _volume(root.reshape(-1, q, q), size.reshape(-1))
        value = value - volume + apart.reshape(batch, parts).sum(axis=1)
        return Density(
            value,
            found[0],
            found[1] + to_apart_root.reshape(root.shape),
            found[2] + to_apart_size.reshape(size.shape),
            own,
        )

    def _of_all(
        self, mean: FloatArray, root: FloatArray, size: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The log density of the moments of one part, and its gradients."""
        q, k = len(self.centre), np.arange(len(self.centre))
        away = mean - self.centre
        weight = self.strength * size / (self.strength + size)
        extra = self.scale + weight[:, None, None] * away[:, :, None] * away[:, None, :]
        inverse = matrices.lower_inverse(root)
        back = inverse.swapaxes(1, 2)
        beside = times(times(inverse, extra), back) / size[:, None, None]
        middle, gain = _beside_one(beside)  # log |NC + extra| - log |NC|
        log_c = 2 * np.log(root[:, k, k]).sum(axis=1)
        total = self.degrees + size
        fall = (self.degrees + q + 2) / 2
        power = q / 2 + q * (q + 1) / 2 - fall * q
        value = -total / 2 * gain - fall * log_c + power * np.log(size)
        value -= q / 2 * np.log(self.strength + size)
        to_size = -gain / 2 + power / size - q / 2 / (self.strength + size)
        for i in range(q):
            ratio, slope = log_gamma_ratio((size - 1 - i) / 2, (self.degrees + 1) / 2)
            value, to_size = value + ratio, to_size + slope / 2
        # (NC + extra)^-1 = root^-T (I + beside)^-1 root^-1 / N
        after = times(times(back, middle), inverse) / size[:, None, None]
        pulled = times(after, extra)
        to_c = (total / 2)[:, None, None] * times(pulled, times(back, inverse))
        to_c = (to_c + to_c.swapaxes(1, 2)) / 2
        to_root = 2 * times(to_c, root)
        to_root[:, k, k] -= 2 * fall / root[:, k, k]
        to_mean = -(total * weight)[:, None] * matrices.times_vector(after, away)
        drift = (self.strength / (self.strength + size)) ** 2
        outer = np.einsum("bi,bij,bj->b", away, after, away)
        trace = np.einsum("bii->b", pulled)
        to_size += -total / 2 * (drift * outer - trace / size)
        return value, to_mean, to_root, to_size

    def draw(
        self,
        rng: np.random.Generator,
        mean: FloatArray,
        root: FloatArray,
        size: FloatArray,
        own: FloatArray,
    ) -> list[FloatArray]:
        """mu, the sds and the correlations of Sigma, row by row: of the standardised columns."""
        if mean.shape[1] > 1:
            pooled = Pooled.of(mean, root, size)
            mean, root, size = pooled.mean, pooled.root, pooled.size
        else:
            mean, root, size = mean[:, 0], root[:, 0], size[:, 0]
        q, batch = len(self.centre), len(mean)
        away = mean - self.centre
        weight = self.strength * size / (self.strength + size)
        after = self.scale + weight[:, None, None] * away[:, :, None] * away[:, None, :]
        after = after + size[:, None, None] * (root @ root.swapaxes(1, 2))
        # Bartlett: Sigma = A^-T A^-1 in the coordinates of the root of `after`, A A' ~ Wishart
        bartlett = np.tril(rng.standard_normal((batch, q, q)), -1)
        degrees = (self.degrees + size)[:, None] - np.arange(q)
        bartlett[:, np.arange(q), np.arange(q)] = np.sqrt(2 * rng.standard_gamma(degrees / 2))
        half = matrices.cholesky(after) @ matrices.lower_inverse(bartlett).swapaxes(1, 2)
        sigma = half @ half.swapaxes(1, 2)
        strength = self.strength + size
        centre = (self.strength * self.centre + size[:, None] * mean) / strength[:, None]
        noise = (half @ rng.standard_normal((batch, q, 1)))[:, :, 0]
        mu = centre + noise / np.sqrt(strength)[:, None]
        sd = np.sqrt(np.einsum("bii->bi", sigma))
        pairs = np.triu_indices(q, 1)
        correlation = (sigma / sd[:, :, None] / sd[:, None, :])[:, pairs[0], pairs[1]]
        return [mu, sd, np.clip(correlation, -1, 1)]


@dataclass(frozen=True, slots=True)
class Pooled:
    """The moments of all records of several parts."""

    mean: FloatArray  # (batch, K)
    root: FloatArray  # (batch, K, K)
    size: FloatArray  # (batch,)
    away: FloatArray  # (batch, parts, K): the parts' means less that of all
    apiece: FloatArray  # (batch, parts, K, K): the parts' covariances about the mean of all

    @classmethod
    def of(cls, mean: FloatArray, root: FloatArray, size: FloatArray) -> "Pooled":
        total = size.sum(axis=1)
        weight = size / total[:, None]
        middle = (weight[:, :, None] * mean).sum(axis=1)
        away = mean - middle[:, None]
        apiece = root @ root.swapaxes(2, 3) + away[:, :, :, None] * away[:, :, None, :]
        covariance = (weight[:, :, None, None] * apiece).sum(axis=1)
        return cls(middle, matrices.cholesky(covariance), total, away, apiece)

    def back(
        self,
        mean: FloatArray,
        root: FloatArray,
        size: FloatArray,
        to_mean: FloatArray,
        to_root: FloatArray,
        to_size: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """From gradients in the moments of all to those in the moments of the parts."""
        k = np.arange(self.root.shape[1])
        inverse = matrices.lower_inverse(self.root)
        inner = np.tril(self.root.swapaxes(1, 2) @ np.tril(to_root))
        inner[:, k, k] /= 2
        to_c = inverse.swapaxes(1, 2) @ inner @ inverse
        to_c = ((to_c + to_c.swapaxes(1, 2)) / 2)[:, None]
        weight = (size / self.size[:, None])[:, :, None]
        turned = (to_c @ self.away[:, :, :, None])[:, :, :, 0]
        covariance = (weight[:, :, :, None] * self.apiece).sum(axis=1, keepdims=True)
        excess = (to_c * (self.apiece - covariance)).sum(axis=(2, 3))
        along = (self.away * to_mean[:, None]).sum(axis=2)
        return (
            weight * (2 * turned + to_mean[:, None]),
            2 * weight[:, :, :, None] * (to_c @ root),
            to_size[:, None] + (along + excess) / self.size[:, None],
        )


def _volume(root: FloatArray, size: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The log volume of all sets of N records with given moments, in (m, C), and its gradients in
    the root and in N.
    """
    q, k = root.shape[1], np.arange(root.shape[1])
    power = size - q - 2
    logs = np.log(root[:, k, k]).sum(axis=1)
    to_root = np.zeros_like(root)
    to_root[:, k, k] = power[:, None] / root[:, k, k]
    value = power * logs + q * size / 2 * np.log(size) + (size - 1) * q / 2 * np.log(np.pi)
    to_size = logs + q / 2 * (np.log(size) + 1 + np.log(np.pi))
    halves = (size[:, None] - 1 - np.arange(q)) / 2
    value -= special.gammaln(halves).sum(axis=1)
    to_size -= special.digamma(halves).sum(axis=1) / 2
    return value, to_root, to_size


def _beside_one(extra: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(I + extra)^-1 and log |I + extra|, which keeps its digits where extra is small: pivots less
    one.
    """
    batch, q, _ = extra.shape
    rest, log = extra.copy(), np.zeros(batch)
    for j in range(q):
        pivot = rest[:, j, j]
        log += np.log1p(pivot)
        if j < q - 1:
            column = rest[:, j + 1 :, j]
            rest[:, j + 1 :, j + 1 :] -= (
                column[:, :, None] * column[:, None, :] / (1 + pivot)[:, None, None]
            )
    return matrices.inverse(np.eye(q) + extra)[0], log
