"""What a model says of the moments of N records: the log density, and its gradient by hand.

A linear regression says it of its outcome's moments given those of the covariates, whatever their
shape; the joint normal says it of all of them. The coefficients, or mean and covariance, are
integrated out, and drawn exactly given the moments.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.inference.columns import matrices
from noisewise.inference.columns.sizes import log_gamma_ratio, log_height
from noisewise.model.arrays import FloatArray


@dataclass(slots=True)
class Density:
    """A log density of each row, and its gradient in the mean, the root, N and the model's own
    coordinate.
    """

    value: FloatArray  # (batch,)
    to_mean: FloatArray  # (batch, K)
    to_root: FloatArray  # (batch, K, K), lower
    to_size: FloatArray  # (batch,)
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
        """Of the moments (mean, C) of N = size records."""

    @abstractmethod
    def start(self, root: FloatArray) -> FloatArray:
        """A good point for the coordinates of its own."""

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


@final
@dataclass(frozen=True, slots=True)
class Regression(Model):
    """u_y = beta_0 + beta' z + sigma e, for the last number of K; beta_j ~ N(0, sd_j^2), sigma^2 ~
    InverseGamma(shape, scale). Its own coordinate is log sigma^2 less log of the residual variance
    of the records.
    """

    sd: FloatArray  # (K,): of the intercept and the K - 1 coefficients
    shape: float
    scale: float
    own: int = 1

    @property
    def least(self) -> int:  # type: ignore[override]
        return len(self.sd)

    def density(
        self, mean: FloatArray, root: FloatArray, size: FloatArray, own: FloatArray
    ) -> Density:
        r, p, delta = root.shape[1] - 1, len(self.sd), own[:, 0]
        residual = root[:, r, r]
        log_c = 2 * np.log(residual)
        log_variance = delta + log_c
        variance = np.exp(log_variance)
        slopes, around, frame, inverse = _least_squares(mean, root)
        fit = np.concatenate(
            [(mean[:, r] - (mean[:, :r] * slopes).sum(axis=1))[:, None], slopes], 1
        )
        # the fitted coefficients ~ N(0, W), W = prior + sigma^2 (X'X)^-1
        ratio = variance / size
        w = np.eye(p) * self.sd**2 + ratio[:, None, None] * around
        w_inverse, log_w = matrices.inverse(w)
        pull = (w_inverse @ fit[:, :, None])[:, :, 0]
        value = -0.5 * log_w - 0.5 * (fit * pull).sum(axis=1)
        to_w = 0.5 * (pull[:, :, None] * pull[:, None, :] - w_inverse)
        to_ratio = ratio * np.einsum("bij,bij->b", to_w, around)
        to_frame = -2 * ratio[:, None, None] * (around @ to_w @ around) @ frame
        to_mean, to_root = np.zeros_like(mean), np.zeros_like(root)
        to_mean[:, :r] = to_frame[:, 1:, 0]
        to_root[:, :r, :r] = np.tril(to_frame[:, 1:, 1:])
        # through the fit itself
        to_mean[:, r] = -pull[:, 0]
        to_mean[:, :r] += pull[:, :1] * slopes
        to_slopes = -pull[:, 1:] + pull[:, :1] * mean[:, :r]
        to_row = (inverse @ to_slopes[:, :, None])[:, :, 0]
        to_root[:, r, :r] = to_row
        to_root[:, :r, :r] -= np.tril(slopes[:, :, None] * to_row[:, None, :])
        # fitted coefficients to (m_y, C_xy)
        k = np.arange(r)
        value = value - 2 * np.log(root[:, k, k]).sum(axis=1)
        to_root[:, k, k] -= 2 / root[:, k, k]
        # residual sum of squares ~ sigma^2 chi^2 with N - p degrees of freedom; sigma^2's prior
        height, to_height = log_height(size, p)
        less = np.expm1(-delta)
        value = value + height + p / 2 * delta - size / 2 * (delta + less) - log_c
        value += -self.shape * log_variance - self.scale / variance
        to_log_variance = -self.shape + self.scale / variance + to_ratio
        to_root[:, r, r] = 2 * (to_log_variance - 1) / residual
        to_size = to_height - (delta + less) / 2 - to_ratio / size
        to_own = (p / 2 + size / 2 * less + to_log_variance)[:, None]
        return Density(value, to_mean, to_root, to_size, to_own)

    def start(self, root: FloatArray) -> FloatArray:
        return np.zeros((len(root), 1))

    def draw(
        self,
        rng: np.random.Generator,
        mean: FloatArray,
        root: FloatArray,
        size: FloatArray,
        own: FloatArray,
    ) -> list[FloatArray]:
        """Intercept and coefficients, sigma, r2: of the standardised columns."""
        r, p = root.shape[1] - 1, len(self.sd)
        variance = np.exp(own[:, 0] + 2 * np.log(root[:, r, r]))
        slopes, around, _, _ = _least_squares(mean, root)
        fit = np.concatenate(
            [(mean[:, r] - (mean[:, :r] * slopes).sum(axis=1))[:, None], slopes], 1
        )
        # prior V0 and (X'X)^-1 sigma^2 = E: mean V0 W^-1 fit, covariance V0 - V0 W^-1 V0
        prior = np.eye(p) * self.sd**2
        error = (variance / size)[:, None, None] * around
        inverse = matrices.inverse(prior + error)[0]
        centre = (prior @ inverse @ fit[:, :, None])[:, :, 0]
        spread = prior @ inverse @ error
        spread = (spread + spread.swapaxes(1, 2)) / 2
        beta = centre + (_root_of(spread) @ rng.standard_normal((len(mean), p, 1)))[:, :, 0]
        explained = (
            ((beta[:, None, 1:] @ root[:, :r, :r])[:, 0] ** 2).sum(axis=1)
            if r
            else np.zeros(len(mean))
        )
        return [beta, np.sqrt(variance), explained / (explained + variance)]


def _least_squares(
    mean: FloatArray, root: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Slopes of the last number on the others; N (X'X)^-1, X with a column of ones; J with X'X = N
    J J'; and the inverse of the covariates' root.
    """
    r, batch = root.shape[1] - 1, len(root)
    inverse = matrices.lower_inverse(root[:, :r, :r])
    slopes = (inverse.swapaxes(1, 2) @ root[:, r, :r, None])[:, :, 0]
    frame, back = np.zeros((2, batch, r + 1, r + 1))
    frame[:, 0, 0] = back[:, 0, 0] = 1.0
    frame[:, 1:, 0], frame[:, 1:, 1:] = mean[:, :r], root[:, :r, :r]
    back[:, 1:, 0] = -(inverse @ mean[:, :r, None])[:, :, 0]
    back[:, 1:, 1:] = inverse
    return slopes, back.swapaxes(1, 2) @ back, frame, inverse


def _root_of(covariance: FloatArray) -> FloatArray:
    """A square root of matrices that rounding may have left a little short of positive."""
    size = np.sqrt(np.maximum(np.einsum("bii->bi", covariance), 1e-300))
    values, vectors = np.linalg.eigh(covariance / size[:, :, None] / size[:, None, :])
    found = size[:, :, None] * vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.asarray(found, dtype=float)


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
        q, k = len(self.centre), np.arange(len(self.centre))
        away = mean - self.centre
        weight = self.strength * size / (self.strength + size)
        extra = self.scale + weight[:, None, None] * away[:, :, None] * away[:, None, :]
        inverse = matrices.lower_inverse(root)
        beside = inverse @ extra @ inverse.swapaxes(1, 2) / size[:, None, None]
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
        after = inverse.swapaxes(1, 2) @ middle @ inverse / size[:, None, None]
        pulled = after @ extra
        precision = inverse.swapaxes(1, 2) @ inverse
        to_c = (total / 2)[:, None, None] * (pulled @ precision)
        to_c = (to_c + to_c.swapaxes(1, 2)) / 2
        to_root = np.tril(2 * to_c @ root)
        to_root[:, k, k] -= 2 * fall / root[:, k, k]
        to_mean = -(total * weight)[:, None] * (after @ away[:, :, None])[:, :, 0]
        drift = (self.strength / (self.strength + size)) ** 2
        outer = np.einsum("bi,bij,bj->b", away, after, away)
        trace = np.einsum("bii->b", pulled)
        to_size += -total / 2 * (drift * outer - trace / size)
        return Density(value, to_mean, to_root, to_size, np.zeros((len(mean), 0)))

    def start(self, root: FloatArray) -> FloatArray:
        return np.zeros((len(root), 0))

    def draw(
        self,
        rng: np.random.Generator,
        mean: FloatArray,
        root: FloatArray,
        size: FloatArray,
        own: FloatArray,
    ) -> list[FloatArray]:
        """mu, the sds and the correlations of Sigma, row by row: of the standardised columns."""
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


@final
@dataclass(frozen=True, slots=True)
class Shares(Model):
    """The shares of one factor, all as likely as any; so are then the counts of N records."""

    own: int = 0
    least: int = 0

    def density(
        self, mean: FloatArray, root: FloatArray, size: FloatArray, own: FloatArray
    ) -> Density:
        nothing = np.zeros(len(mean))
        return Density(nothing, np.zeros_like(mean), np.zeros_like(root), nothing, own)

    def start(self, root: FloatArray) -> FloatArray:
        return np.zeros((len(root), 0))

    def draw(
        self,
        rng: np.random.Generator,
        mean: FloatArray,
        root: FloatArray,
        size: FloatArray,
        own: FloatArray,
    ) -> list[FloatArray]:
        """The share of every level."""
        counts = size[:, None] * np.column_stack([1 - mean.sum(axis=1), mean])
        weights = rng.standard_gamma(1 + np.maximum(counts, 0.0))
        return [weights / weights.sum(axis=1, keepdims=True)]
