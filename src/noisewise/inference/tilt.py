"""Exponential tilting of a sum of n records' statistics, and a window that holds the tilted sum.

With K(l) = log E e^{l t^}, the weights w e^{l t^ - K(l)} are again a law, and
  p(y | theta) = e^{n K(l) - l y} E_l[ e^{l (y - s)} p(y | s) ],
so l may be chosen to put the mean of s where y is: an extreme y then costs no digits. Everything is kept relative to
the record's mean, so that n K(l) has full precision at n = 10^12.
"""

from dataclasses import dataclass

import numpy as np

from noisewise.model.arrays import FloatArray

OUTSIDE = 32.0
"""The window leaves out e^-32 of the tilted sum on either side."""
_STEPS = (0.3, 1.0, 3.0, 8.0)


@dataclass(frozen=True, slots=True)
class Tilted:
    """One record's law under the tilt; the sum of n has mean n * (mean + shift)."""

    log_factor: FloatArray  # (batch,): n K(l) - l y
    slope: FloatArray  # (batch,): l
    weight: FloatArray  # (batch, m)
    centred: FloatArray  # (batch, m): values relative to the tilted mean
    total_mean: FloatArray  # (batch,): of the sum, tilted
    distance: FloatArray  # (batch,): y less that mean


def tilt(value: FloatArray, weight: FloatArray, n: FloatArray, y: FloatArray, limit: FloatArray, variance: FloatArray) -> Tilted:
    """Choose l so that the tilted sum, plus normal noise of that variance, has mean y; |l| stays within `limit`."""
    mean = np.einsum("bm,bm->b", weight, value)
    u = value - mean[:, None]
    target = y - n * mean
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(variance > 0, np.abs(target) / variance, np.inf)
    low = -np.minimum(limit, np.where(target < 0, reach, 0.0))
    high = np.minimum(limit, np.where(target > 0, reach, 0.0))
    spread = n * np.einsum("bm,bm->b", weight, u * u) + variance
    slope = np.clip(target / np.maximum(spread, 1e-300), low, high)
    for _ in range(60):
        _, tilted = log_mean_exp(slope[:, None] * u, weight)
        shift = np.einsum("bm,bm->b", tilted, u)
        spread = n * np.einsum("bm,bm->b", tilted, (u - shift[:, None]) ** 2) + variance
        miss = target - n * shift - variance * slope
        low, high = np.where(miss > 0, slope, low), np.where(miss < 0, slope, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            step = slope + miss / spread
        new = np.where((step > low) & (step < high), step, (low + high) / 2)
        done = (np.abs(miss) <= 0.05 * np.sqrt(spread)) | (high - low <= 1e-9 * np.maximum(np.abs(low), np.abs(high)))
        slope = np.where(done, slope, new)
        if done.all():
            break
    log_mean, tilted = log_mean_exp(slope[:, None] * u, weight)
    shift = np.einsum("bm,bm->b", tilted, u)
    centred = u - shift[:, None]
    return Tilted(n * log_mean - slope * target, slope, tilted, centred, n * mean + n * shift, target - n * shift)


def window(
    centred: FloatArray, weight: FloatArray, n: FloatArray, variance: FloatArray, outside: float = OUTSIDE
) -> tuple[FloatArray, FloatArray]:
    """How far below and above its mean the tilted sum, plus normal noise, reaches: Chernoff's bound at a few slopes."""
    spread = np.einsum("bm,bm->b", weight, centred * centred)
    total_sd = np.sqrt(n * np.maximum(spread, (1e-14 * np.abs(centred).max(axis=1)) ** 2) + variance)
    reach = []
    for sign in (-1.0, 1.0):
        best = np.full(n.shape, np.inf)
        for j in _STEPS:
            slope = j / total_sd
            log_mean, _ = log_mean_exp((sign * slope)[:, None] * centred, weight)
            best = np.minimum(best, (n * log_mean + 0.5 * variance * slope**2 + outside) / slope)
        edge = n * np.max(sign * centred, axis=1) + np.sqrt(2 * outside * variance)
        reach.append(np.minimum(best, edge))
    return reach[0], reach[1]


def log_mean_exp(a: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """log E e^a and the tilted weights. E a is about 0, and small exponents keep their digits by expm1."""
    top = np.max(a, axis=1, where=weight > 0, initial=-np.inf)
    small = top < 1.0
    shift = np.where(small, 0.0, top)[:, None]
    grown = weight * np.exp(np.minimum(a - shift, 1.0))
    total = grown.sum(axis=1)
    log_mean = np.log(total) + shift[:, 0]
    if small.any():
        log_mean = np.where(small, np.log1p(np.einsum("bm,bm->b", weight, np.expm1(np.minimum(a, 1.0)))), log_mean)
    return log_mean, grown / total[:, None]
