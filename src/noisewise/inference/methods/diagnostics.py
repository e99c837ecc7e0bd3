"""How well chains have mixed: R-hat, effective sample size and autocorrelation time.

Split R-hat and the effective sample size by Geyer's initial monotone sequence over split chains
(Vehtari et al. 2021, without rank-normalisation, since all that is reported here are means of
bounded quantities).
"""

from dataclasses import dataclass

import numpy as np

from noisewise.model.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """One number for each quantity."""

    rhat: FloatArray
    ess: FloatArray
    autocorrelation: FloatArray  # integrated autocorrelation time, in steps


def of(draws: FloatArray) -> Diagnostics:
    """Diagnose draws of shape (steps, chains, quantities)."""
    half = draws.shape[0] // 2
    # (half, 2 chains, quantities)
    split = np.concatenate([draws[:half], draws[half : 2 * half]], axis=1)
    steps, chains, _ = split.shape
    means, variances = split.mean(axis=0), split.var(axis=0, ddof=1)
    within = variances.mean(axis=0)
    between = means.var(axis=0, ddof=1)
    pooled = within * (steps - 1) / steps + between
    with np.errstate(divide="ignore", invalid="ignore"):
        rhat = np.where(within > 0, np.sqrt(pooled / within), np.where(between > 0, np.inf, 1.0))
        correlation = 1 - (within - _autocovariance(split)) / pooled  # (lags, quantities)
    correlation = np.where(np.isfinite(correlation), correlation, 0.0)
    correlation[0] = 1.0
    pairs = correlation[0 : steps - steps % 2 : 2] + correlation[1 : steps - steps % 2 + 1 : 2]
    positive = np.cumprod(pairs > 0, axis=0).astype(bool)
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    time = np.maximum(2 * monotone.sum(axis=0) - 1, 1 / np.log10(max(steps * chains, 10)))
    return Diagnostics(rhat, steps * chains / time, time)


def _autocovariance(split: FloatArray) -> FloatArray:
    """The mean over chains of each quantity's autocovariance, (lags, quantities), by FFT."""
    steps = split.shape[0]
    out = np.zeros((steps, split.shape[2]))
    size = 1 << int(np.ceil(np.log2(2 * steps)))
    for j in range(split.shape[2]):
        centred = split[:, :, j] - split[:, :, j].mean(axis=0)
        power = np.abs(np.fft.rfft(centred, size, axis=0)) ** 2
        out[:, j] = np.fft.irfft(power.mean(axis=1), size)[:steps] / (steps - 1)
    return out
