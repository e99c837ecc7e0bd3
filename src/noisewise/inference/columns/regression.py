"""What a linear regression says of noisy moments."""

from dataclasses import dataclass
from typing import final

import numpy as np

from noisewise.inference.columns import matrices
from noisewise.inference.columns.matrices import times
from noisewise.inference.columns.model import Density, Model
from noisewise.inference.columns.sizes import log_height
from noisewise.model.arrays import FloatArray


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
        r, p = root.shape[2] - 1, len(self.sd)
        fits = _Fits.of(mean, root, size)
        residual = root[:, :, r, r]
        log_variance, share, to_sizes = _variance(residual, size, own)
        variance = np.exp(log_variance)
        # the fitted coefficients of all parts together ~ N(0, W), W = prior + sigma^2 (X'X)^-1
        w = np.eye(p) * self.sd**2 + variance[:, None, None] * fits.spread
        w_inverse, log_w = matrices.inverse(w)
        pull = matrices.times_vector(w_inverse, fits.pooled)
        value = -0.5 * (log_w + np.einsum("bi,bi->b", fits.pooled, pull))
        to_w = 0.5 * (pull[:, :, None] * pull[:, None, :] - w_inverse)
        to_log_variance = variance * np.einsum("bij,bij->b", to_w, fits.spread)
        inner = times(times(fits.spread, to_w), fits.spread)
        to_squares = -variance[:, None, None] * inner
        more, to_variance, to_squares, to_fit = fits.apart(variance, pull, to_squares)
        value, to_log_variance = value + more, to_log_variance + to_variance
        to_mean, to_root, to_size = fits.back(mean, root, size, to_squares, to_fit)
        # fitted coefficients to (m_y, C_xy)
        k = np.arange(r)
        value = value - 2 * np.log(root[:, :, k, k]).sum(axis=(1, 2))
        to_root[:, :, k, k] -= 2 / root[:, :, k, k]
        # residual sums of squares ~ sigma^2 chi^2 with N - p degrees of freedom; sigma^2's prior
        height, to_height = log_height(size, p)
        delta = log_variance[:, None] - 2 * np.log(residual)
        less = np.expm1(-delta)
        squares = height + p / 2 * delta - size / 2 * (delta + less) - 2 * np.log(residual)
        value = value + squares.sum(axis=1)
        value += -self.shape * log_variance - self.scale / variance
        to_delta = p / 2 + size / 2 * less
        to_log_variance += -self.shape + self.scale / variance + to_delta.sum(axis=1)
        to_log = to_log_variance[:, None]
        to_root[:, :, r, r] = 2 * (to_log * share - to_delta - 1) / residual
        to_size += to_height - (delta + less) / 2 + to_log * to_sizes
        return Density(value, to_mean, to_root, to_size, to_log)

    def draw(
        self,
        rng: np.random.Generator,
        mean: FloatArray,
        root: FloatArray,
        size: FloatArray,
        own: FloatArray,
    ) -> list[FloatArray]:
        """Intercept and coefficients, sigma, r2: of the standardised columns."""
        r, p = root.shape[2] - 1, len(self.sd)
        fits = _Fits.of(mean, root, size)
        variance = np.exp(_variance(root[:, :, r, r], size, own)[0])
        # prior V0 and (X'X)^-1 sigma^2 = E: mean V0 W^-1 fit, covariance V0 - V0 W^-1 V0
        prior = np.eye(p) * self.sd**2
        error = variance[:, None, None] * fits.spread
        inverse = matrices.inverse(prior + error)[0]
        centre = (prior @ inverse @ fits.pooled[:, :, None])[:, :, 0]
        spread = prior @ inverse @ error
        spread = (spread + spread.swapaxes(1, 2)) / 2
        beta = centre + (_root_of(spread) @ rng.standard_normal((len(mean), p, 1)))[:, :, 0]
        # how much the line itself varies, within the parts and between them
        slopes = beta[:, None, None, 1:]
        within = ((slopes @ root[:, :, :r, :r])[:, :, 0] ** 2).sum(axis=2)
        height = (slopes @ mean[:, :, :r, None])[:, :, 0, 0]
        weight = size / size.sum(axis=1, keepdims=True)
        middle = (weight * height).sum(axis=1, keepdims=True)
        explained = (weight * (within + (height - middle) ** 2)).sum(axis=1)
        return [beta, np.sqrt(variance), explained / (explained + variance)]


def _variance(
    residual: FloatArray, size: FloatArray, own: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """log sigma^2, of which the own coordinate is the distance from log of the residual variance of
    all records; and its derivatives in log of each part's residual variance and in each N.
    """
    squares, total = size * residual**2, size.sum(axis=1, keepdims=True)
    all_squares = squares.sum(axis=1, keepdims=True)
    log = own[:, 0] + np.log(all_squares[:, 0] / total[:, 0])
    share = squares / all_squares
    return log, share, share / size - 1 / total


@dataclass(frozen=True, slots=True)
class _Fits:
    """Least squares of the last number on the others, in each part and in all records together."""

    slopes: FloatArray  # (batch, parts, r)
    own: FloatArray  # (batch, parts, p): intercept and slopes
    apiece: FloatArray  # (batch, parts, p, p): (X'X)^-1, X with a column of ones
    frame: FloatArray  # (batch, parts, p, p): J, X'X = N J J'
    inverse: FloatArray  # (batch, parts, r, r): of the covariates' root
    squares: FloatArray  # (batch, parts, p, p): X'X
    spread: FloatArray  # (batch, p, p): (X'X)^-1 of all
    pooled: FloatArray  # (batch, p): intercept and slopes of all
    log_squares: FloatArray  # (batch,): log |X'X|, the sum over the parts less that of all

    @classmethod
    def of(cls, mean: FloatArray, root: FloatArray, size: FloatArray) -> "_Fits":
        batch, parts, p = mean.shape
        flat, r = root.reshape(-1, p, p), p - 1
        slopes, around, frame, inverse = _least_squares(mean.reshape(-1, p), flat)
        slopes = slopes.reshape(batch, parts, r)
        own = np.empty((batch, parts, p), order=matrices.order(p))
        own[:, :, 0] = mean[:, :, r] - np.einsum("bpi,bpi->bp", mean[:, :, :r], slopes)
        own[:, :, 1:] = slopes
        apiece = around.reshape(batch, parts, p, p) / size[:, :, None, None]
        frame, inverse = frame.reshape(batch, parts, p, p), inverse.reshape(batch, parts, r, r)
        if parts == 1:
            nothing, zero = np.empty((batch, 0, p, p)), np.zeros(batch)
            return cls(slopes, own, apiece, frame, inverse, nothing, apiece[:, 0], own[:, 0], zero)
        squares = size[:, :, None, None] * (frame @ frame.swapaxes(2, 3))
        spread, log_all = matrices.inverse(squares.sum(axis=1))
        weighted = (squares @ own[:, :, :, None]).sum(axis=1)
        pooled = (spread @ weighted)[:, :, 0]
        k = np.arange(r)
        logs = p * np.log(size) + 2 * np.log(root[:, :, k, k]).sum(axis=2)
        log_squares = logs.sum(axis=1) - log_all
        return cls(slopes, own, apiece, frame, inverse, squares, spread, pooled, log_squares)

    def apart(
        self, variance: FloatArray, pull: FloatArray, to_squares: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """What the parts' own fits say beyond that of all: the log density and its derivative in
        log sigma^2; the gradients in X'X and in the fit of each part.
        """
        batch, parts, p = self.own.shape
        if parts == 1:
            nothing = np.zeros(batch)
            return nothing, nothing, to_squares[:, None], -pull[:, None]
        away = (self.own - self.pooled[:, None])[:, :, :, None]
        pulled = (self.spread @ pull[:, :, None])[:, None]
        moved = self.squares @ away
        square = (away * moved).sum(axis=(1, 2, 3)) / variance
        value = 0.5 * (self.log_squares - square) - p * (parts - 1) / 2 * np.log(variance)
        wide = variance[:, None, None, None]
        cross = pulled @ away.swapaxes(2, 3)
        more = -(cross + cross.swapaxes(2, 3)) / 2 - 0.5 * away @ away.swapaxes(2, 3) / wide
        more = more + 0.5 * (self.apiece - self.spread[:, None])
        to_fit = -(self.squares @ (pulled + away / wide))[:, :, :, 0]
        return value, 0.5 * square - p * (parts - 1) / 2, to_squares[:, None] + more, to_fit

    def back(
        self,
        mean: FloatArray,
        root: FloatArray,
        size: FloatArray,
        to_squares: FloatArray,
        to_fit: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """From gradients in X'X and the fits to those in means, roots and N."""
        r = root.shape[2] - 1
        half = times(to_squares, self.frame)
        to_size = np.einsum("bpij,bpij->bp", half, self.frame)
        to_frame = 2 * size[:, :, None, None] * half
        to_mean, to_root = np.zeros_like(mean), np.zeros_like(root)
        to_mean[:, :, :r] = to_frame[:, :, 1:, 0]
        to_root[:, :, :r, :r] = to_frame[:, :, 1:, 1:]
        to_mean[:, :, r] = to_fit[:, :, 0]
        to_mean[:, :, :r] -= to_fit[:, :, :1] * self.slopes
        to_slopes = to_fit[:, :, 1:] - to_fit[:, :, :1] * mean[:, :, :r]
        to_row = matrices.times_vector(self.inverse, to_slopes)
        to_root[:, :, r, :r] = to_row
        to_root[:, :, :r, :r] -= self.slopes[:, :, :, None] * to_row[:, :, None, :]
        return to_mean, to_root, to_size


def _least_squares(
    mean: FloatArray, root: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Slopes of the last number on the others; N (X'X)^-1, X with a column of ones; J with X'X = N
    J J'; and the inverse of the covariates' root.
    """
    r, batch = root.shape[1] - 1, len(root)
    inverse = matrices.lower_inverse(root[:, :r, :r])
    slopes = matrices.times_vector(inverse.swapaxes(1, 2), root[:, r, :r])
    shape, order = (batch, r + 1, r + 1), matrices.order(r + 1)
    frame, back = np.zeros(shape, order=order), np.zeros(shape, order=order)
    frame[:, 0, 0] = back[:, 0, 0] = 1.0
    frame[:, 1:, 0], frame[:, 1:, 1:] = mean[:, :r], root[:, :r, :r]
    back[:, 1:, 0] = -matrices.times_vector(inverse, mean[:, :r])
    back[:, 1:, 1:] = inverse
    return slopes, times(back.swapaxes(1, 2), back), frame, inverse


def _root_of(covariance: FloatArray) -> FloatArray:
    """A square root of matrices that rounding may have left a little short of positive."""
    size = np.sqrt(np.maximum(np.einsum("bii->bi", covariance), 1e-300))
    values, vectors = np.linalg.eigh(covariance / size[:, :, None] / size[:, None, :])
    found = size[:, :, None] * vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return np.asarray(found, dtype=float)
